"""What a part must have to be used, checked before anything is built from it: a user's own may lack some of it.

`check_part` looks at a class by itself; the others at what the parts of one experiment need of each other.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.parallel.sharding import rules_of
from vitzoo.registry import PARTS
from vitzoo.schema import Settings, annotations, convert

if TYPE_CHECKING:
    from vitzoo.data.sources.base import SourceInfo
    from vitzoo.models.base import ModelConfig
    from vitzoo.objectives.base import Frozen, Objective

BASES = {
    "optimizer": "vitzoo.optim.base:Optimizer",
    "schedule": "vitzoo.optim.schedules:Schedule",
    "evaluator": "vitzoo.evaluation.settings:Evaluator",
    "input": "vitzoo.data.processors.base:ArrayInput",
}
"""The class whose settings the program reads."""

METHODS = {
    "objective": ("bind",),
    "optimizer": ("method",),
    "schedule": ("shape",),
    "evaluator": ("outputs", "metrics"),
    "input": ("shape", "array"),
}
"""What a part of each kind defines itself."""

INSTEAD = {"schedule": "make", "evaluator": "bind"}
"""A method that makes those needless."""

WORDS = {"image": "images"}
"""A kind of input in the plural, where that is another word."""


@runtime_checkable
class ObjectiveSettings(Settings, Protocol):
    """What a config names as its objective: a frozen dataclass of settings. What else it says of itself, such as
    `TAKES` and `HEAD`, it may leave out.
    """

    def bind(self, info: "SourceInfo", model_config: "ModelConfig", **frozen: "Frozen") -> "Objective":
        """The objective for these data and this model, and for the frozen models that the settings name."""


def check_part(kind: str, name: str, part: Any, field: str) -> None:
    """Checks a part of any kind; one of vitzoo's own is known to be right.

    Args:
        kind: of part, a key of `vitzoo.registry.PARTS`.
        name: as the config names it.
        part: what was found under the name.
        field: the setting that names it, for messages.

    Raises:
        UserError: it isn't of its kind's class, lacks a method, or its settings are no dataclass of such.
    """
    if name not in PARTS[kind]:
        (_check_model if kind == "model" else _check_settings)(kind, name, part, field)


def _check_settings(kind: str, name: str, part: Any, field: str) -> None:
    if not _is_frozen_dataclass(part):
        raise UserError(field, name, "is no dataclass of settings: it wants @dataclasses.dataclass(frozen=True)")
    _check_types(part, name, field)
    if kind == "objective":
        _check_takes(name, part, field)
        _check_frozen(name, part, field)
    if kind in BASES and not issubclass(part, base := _imported(BASES[kind])):
        raise UserError(field, name, f"is no subclass of {base.__module__}.{base.__name__}")
    if kind == "evaluator" and not _is_better(part.BETTER):
        raise UserError(field, name, "its BETTER must be a dict of max or min by metric, {'accuracy': max}")
    plain = _imported(BASES[kind]) if kind in BASES else object

    def own(method: str) -> bool:
        return getattr(part, method, None) is not getattr(plain, method, None)

    lacking = [method for method in METHODS[kind] if not own(method)]
    if lacking and not (kind in INSTEAD and own(INSTEAD[kind])):
        raise UserError(field, name, f"lacks {_listed(lacking)}")


def _is_better(better: Any) -> bool:
    return isinstance(better, Mapping) and all(
        isinstance(one, str) and how in (max, min) for one, how in better.items()
    )


def _check_takes(name: str, objective: Any, field: str) -> None:
    takes = getattr(objective, "TAKES", "")
    if takes and takes not in PARTS["input"]:
        known = ", ".join(PARTS["input"])
        raise UserError(field, name, f"its TAKES is {takes!r}; it is empty for inputs of any kind, or one of {known}")
    if takes == "text" and not ("rows" in annotations(objective) or hasattr(objective, "rows")):
        raise UserError(field, name, "takes text, and lacks `rows`, of what a row is made: windows, pairs, ...")


def _check_frozen(name: str, objective: Any, field: str) -> None:
    models = [one.name for one in dataclasses.fields(objective) if limits_of(one).checkpoint]
    given = dict.fromkeys(models)
    if models and (problem := _problem(objective, "bind", lambda bind: bind.bind(None, None, None, **given))):
        message = (
            f"its `bind` takes no {_listed(models)}, the models of the checkpoints that its settings name ({problem})"
        )
        raise UserError(field, name, message)


def _check_model(kind: str, name: str, model: Any, field: str) -> None:
    """Refuses a model that can't be made as the program does; all that it lacks is named."""
    lacking = list(_lacking(model))
    if lacking:
        raise UserError(field, name, f"lacks {'; '.join(lacking)}")
    _check_types(model.Config, name, field)
    variants = getattr(model, "VARIANTS", {})
    if not isinstance(variants, Mapping) or not all(isinstance(sizes, Mapping) for sizes in variants.values()):
        raise UserError(field, name, 'its VARIANTS must be a dict of dicts, {"small": {"width": 64}}')
    try:
        rules_of(model)
    except UserError as refusal:
        raise UserError(field, name, f"its {refusal}") from None


def _lacking(model: Any) -> Iterator[str]:
    from flax import nnx

    if not (isinstance(model, type) and issubclass(model, nnx.Module)):
        yield "the base class flax.nnx.Module"
        return
    if not _is_frozen_dataclass(getattr(model, "Config", None)):
        yield "`Config`, a frozen dataclass of its settings"
    if problem := _problem(model, "__init__", lambda made: made.bind(None, None, rngs=None, execution=None)):
        yield f"the constructor {model.__name__}(config, rngs=rngs, execution=execution) ({problem})"


def check_call(name: str, model: type, inputs: Sequence[str]) -> None:
    """Checks that a model can be called as what needs its logits does: the first input by position, others by name.

    Raises:
        UserError: it can't.
    """
    others = dict.fromkeys(inputs[1:])
    bind = lambda called: called.bind_partial(None, None, **others, train=False, key=None)  # noqa: E731
    if problem := _problem(model, "__call__", bind):
        given = ", ".join([WORDS.get(inputs[0], inputs[0]), *(f"{other}={other}" for other in others)])
        raise UserError("model.name", name, f"lacks the call model({given}, train=False, key=None) ({problem})")


def check_filled(name: str, config_class: type, kind: str, fills: Mapping[str, Any], classes_for: str = "") -> None:
    """Checks that a model's settings have room for what the data fill in.

    Args:
        name: the model's.
        config_class: its `Config`.
        kind: of an input that it is given.
        fills: the settings that such an input fills in, each with a value that it may get.
        classes_for: the setting of what needs it to tell classes of images apart; empty where nothing does.

    Raises:
        UserError: a setting is missing, or can't hold such a value.
    """
    hints, wanted = annotations(config_class), dict(fills)
    lacking = [field for field in wanted if field not in hints]
    if "num_classes" in lacking and not classes_for:
        lacking.remove("num_classes")
        del wanted["num_classes"]
    if lacking == ["num_classes"]:
        message = f"gives no logits of classes, which {classes_for} needs: its Config lacks `num_classes`"
        raise UserError("model.name", name, message)
    if lacking:
        raise UserError(
            "model.name",
            name,
            f"takes no {WORDS.get(kind, kind)}: its Config lacks {_listed(lacking)}, which the data fill in",
        )
    for field, value in wanted.items():
        try:
            convert(hints[field], value, field)
        except UserError:
            wants = "int | tuple[int, int] | None" if field == "image_size" else "int | None"
            message = f"its Config.{field} can't hold what the data fill in, such as {value}: let it be {wants}"
            raise UserError("model.name", name, message) from None


def needs_classes(objective: ObjectiveSettings, evaluators: Mapping[str, Any]) -> str:
    """The setting of what needs a model of images to give logits [batch, num_classes], `objective` or `evaluate.val`;
    empty where nothing does.

    Objectives and evaluators say so by `CLASSES`.
    """
    needing = {"objective": objective, **{f"evaluate.{key}": evaluator for key, evaluator in evaluators.items()}}
    return next((field for field, part in needing.items() if getattr(part, "CLASSES", False)), "")


def _is_frozen_dataclass(part: Any) -> bool:
    if not (isinstance(part, type) and dataclasses.is_dataclass(part) and part.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return False
    # a subclass that adds settings must be made a dataclass itself, or they are none
    return "__dataclass_fields__" in vars(part) or not vars(part).get("__annotations__")


def _check_types(settings: type, name: str, field: str) -> None:
    try:
        annotations(settings)
    except Exception as error:  # whatever evaluating the user's annotations raises
        message = f"the types of its settings can't be read: {type(error).__name__}: {error}"
        raise UserError(field, name, message) from error


def _problem(model: type, method: str, bind: Callable[[inspect.Signature], Any]) -> str:
    """Why a model's method doesn't take the arguments that are bound to it; empty where it does."""
    if not any(method in vars(base) for base in model.__mro__ if base is not object):
        return f"it has no {method}"
    try:
        bind(inspect.signature(getattr(model, method)))
    except TypeError as error:
        return re.sub("^got", "it got", str(error))
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _imported(place: str) -> type:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)
