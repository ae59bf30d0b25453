"""What a model is given: its own `INPUTS` say it, or else what the objective is for."""

import dataclasses
from typing import TYPE_CHECKING, Any

from vitzoo.config.contracts import check_part
from vitzoo.config.fits import needs_classes
from vitzoo.errors import UserError
from vitzoo.objectives.inputs import made_inputs
from vitzoo.registry import PARTS, find

if TYPE_CHECKING:
    from vitzoo.data.inputs import Inputs

USUAL = {"image": "image", "text": "tokens"}
"""The name of a single input of a kind."""


def input_kinds(model: str, objective: Any) -> dict[str, str]:
    """The inputs of a model by name, and the kind of each.

    Args:
        model: its name; empty where only a checkpoint knows it.
        objective: what it is trained for, which says the kind where the model doesn't.

    Raises:
        UserError: the model's `INPUTS` aren't what they should be.
    """
    found = made_inputs(find("model", model)) if model else {}
    if not found:
        kind = getattr(objective, "TAKES", "") or "image"
        return {USUAL[kind]: kind}
    for name, kind in found.items():
        if not (isinstance(name, str) and name.isidentifier() and isinstance(kind, str)):
            message = (
                f'its INPUTS must be a dict of names to kinds, {{"image": "image"}}, and one is {name!r}: {kind!r}'
            )
            raise UserError("model.name", model, message)
    return found


def settings_class(name: str, kind: str) -> Any:
    """The dataclass of `config.inputs.NAME`.

    Args:
        name: of the input.
        kind: `image`, `text`, or a user's own, `my_file:Volume`.

    Raises:
        UserError: there is no such kind, or it can't be used.
    """
    part = find("input", kind, f"inputs.{name}")
    if kind not in PARTS["input"]:
        check_part("input", kind, part, f"inputs.{name}")
    return part


def inputs_of(experiment: Any) -> "Inputs":
    """The processors of an experiment's inputs."""
    from vitzoo.data.inputs import Inputs, processor
    from vitzoo.data.processors.base import Use
    from vitzoo.data.sources.fields import GIVEN

    objective = experiment.objective
    kinds = input_kinds(experiment.model.name, objective)
    use = Use(
        name="",
        rows=getattr(objective, "rows", "") if len(kinds) == 1 else "",
        # labels are numbers for such an objective, whether that is stated or not
        numbers=experiment.data.regression or getattr(objective, "HEAD", "") == "number",
        fields={name: field for name in (*GIVEN, "template") if (field := getattr(experiment.data, name))},
        prefix_lm=getattr(objective, "PREFIX_LM", False),
        augment=experiment.augment,
        mixture=experiment.mixture,
        seed=experiment.seed,
        classes=bool(needs_classes(objective, experiment.evaluate)),
    )
    made = {
        name: processor(kind, experiment.inputs[name], dataclasses.replace(use, name=name))
        for name, kind in kinds.items()
    }
    return Inputs(made)
