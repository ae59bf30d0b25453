"""A part of a checkpoint's model (`RUN:encoder`) as a model by itself."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.metadata import Description
from vitzoo.config.assembly import from_description
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import HostParams
from vitzoo.objectives.inputs import made_inputs
from vitzoo.registry import PARTS
from vitzoo.schema import to_json


@dataclasses.dataclass(frozen=True)
class Part(Located):
    """A part of a checkpoint. Its `description` is that of a model of its own, without classes or a variant; all else
    is the whole checkpoint's.

    Attributes:
        name: as it was asked for.
        path: of the attribute that holds it, `encoder`, `towers/0`.
        whole: the name of the checkpoint's model.
    """

    name: str
    path: str
    whole: str

    def params(self, params: HostParams) -> tuple[HostParams, list[str]]:
        """The part of the whole's nested parameters, and a line for the report.

        Raises:
            UserError: there is none, as after a change to the whole's model.
        """
        others, part = len(flatten(params)), params
        for key in self.path.split("/"):
            below = part.get(key)
            if not isinstance(below, Mapping) or not below:
                raise UserError("checkpoint", self.name, f"holds no leaves below {self.path}")
            part = below
        others -= len(flatten(part))
        return dict(part), [f"part    {self.path} of {self.whole}, whose other {others} leaves are left"]


def part_of(located: Located, path: str, name: str) -> Part:
    """A part of a checkpoint of vitzoo's.

    Args:
        located: the whole.
        path: of the attribute that holds the part, `encoder`; of one further down, `towers/0`.
        name: of the part, as it was asked for.

    Raises:
        UserError: there is no such part, or it isn't a model that keeps its Config as `config`; those that are there
            are named.
    """
    whole = located.description["model"]["name"]
    graph, shapes = from_description(located.description).abstract
    model, paths = state.merge(graph, shapes), list(_below(shapes))
    parts = {one: part for one in paths if _is_model(part := _attribute(model, one))}
    if path not in parts:
        problem = f"{whole} has no part {path or repr(path)}"
        if path in paths:
            problem = f"{path} of {whole} is no model that keeps its Config as `config`"
        raise UserError("checkpoint", name, f"{problem}; parts that can be taken: {', '.join(parts) or 'none'}")
    part = parts[path]
    statistics = located.description["statistics"]
    description: Description = {
        **located.description,
        "model": {"name": _name_of(type(part)), **to_json(part.config)},
        "inputs": _inputs_of(type(part), located.description["inputs"]),
        "classes": None,
        "statistics": [leaf.removeprefix(f"{path}/") for leaf in statistics if leaf.startswith(f"{path}/")],
    }
    return Part(located.folder, located.step, located.run, description, name, path, whole)


def _inputs_of(part: type, whole: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the whole's inputs that the part takes, by the part's names: of each kind the first."""
    wanted = made_inputs(part)
    by_kind = {own["kind"]: own for own in reversed(list(whole.values()))}
    if not wanted or not all(kind in by_kind for kind in wanted.values()):
        return dict(whole)
    return {name: by_kind[kind] for name, kind in wanted.items()}


def _below(shapes: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The paths of all that holds leaves."""
    for key, value in shapes.items():
        if isinstance(value, Mapping):
            yield f"{before}{key}"
            yield from _below(value, f"{before}{key}/")


def _attribute(model: Any, path: str) -> Any:
    """What a model holds at a path; None inside of a stack, whose layers are no modules by themselves."""
    for key in path.split("/"):
        if model is not None:
            model = model[int(key)] if key.isdecimal() else getattr(model, key, None)
    return model


def _is_model(part: Any) -> bool:
    kind = getattr(type(part), "Config", None)
    return isinstance(kind, type) and isinstance(getattr(part, "config", None), kind)


def _name_of(model: type) -> str:
    """How a config names it."""
    place = f"{model.__module__}:{model.__qualname__}"
    return next((name for name, own in PARTS["model"].items() if own == place), place)
