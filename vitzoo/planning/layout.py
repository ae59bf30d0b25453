"""A train state laid over a mesh that needs no devices: what each device holds, and where a dimension didn't divide."""

import dataclasses
import functools
import math
from collections.abc import Mapping

from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from vitzoo.nn.paths import LAYERS, flatten, is_stacked, match_rules
from vitzoo.objectives.base import Frozen
from vitzoo.parallel.mesh import AXES
from vitzoo.parallel.sharding import PARAMETER_AXES, Rules, bytes_per_device
from vitzoo.steps import state as states


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A parameter on the mesh.

    Attributes:
        path: as shown, `encoder/blocks/*/mlp/up/kernel`.
        shape: of the whole, all layers.
        stacked: whether the first axis counts layers.
        placed: mesh axis to the dimension that it cuts.
        wanted: mesh axis to the dimension that the rules name.
        embed: the dimension of the model's width; None where there is none.
    """

    path: str
    shape: tuple[int, ...]
    stacked: bool
    placed: Mapping[str, int]
    wanted: Mapping[str, int]
    embed: int | None

    @property
    def stack(self) -> str:
        """The stack that it belongs to, `encoder`; empty outside."""
        return self.path.partition(f"/{LAYERS}/")[0].rpartition("/")[0]

    @property
    def gives_parts(self) -> bool:
        """Whether devices along `tensor` each compute a part of a sum over its inputs: an output or down projection."""
        return self.embed is not None and self.placed.get("tensor", self.embed) < self.embed

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    def cut(self, sizes: Mapping[str, int]) -> int:
        """In how many parts it lies on the mesh."""
        return math.prod(sizes[axis] for axis in self.placed)


@dataclasses.dataclass(frozen=True)
class Fallback:
    """A parameter of which a dimension doesn't divide over its mesh axis.

    Attributes:
        leaf: its path.
        axis: the mesh axis.
        size: of the dimension that the rules name.
        placed: the dimension's size that the axis cuts instead; None where the leaf stays whole.
    """

    leaf: str
    axis: str
    size: int
    placed: int | None


class StateLayout:
    """A train state on a mesh.

    Args:
        state: its shapes.
        rules: the model's sharding rules.
        sizes: of the mesh, by axis; missing axes are 1.
        frozen: the models to learn from that the state holds, by setting.
    """

    def __init__(
        self,
        state: states.State,
        rules: Rules,
        sizes: Mapping[str, int],
        frozen: Mapping[str, Frozen] = states.NONE,
    ):
        self.sizes = {axis: sizes.get(axis, 1) for axis in AXES}
        self.mesh = abstract_mesh(self.sizes)
        self._state, self._rules, self._frozen = state, rules, frozen
        self._places = states.shardings(state, rules, self.mesh, frozen)  # type: ignore[arg-type]

    @functools.cached_property
    def parameters(self) -> int:
        """Bytes of the parameters on a device."""
        return bytes_per_device(self._state["params"], self._places["params"])

    @functools.cached_property
    def optimizer(self) -> int:
        """Bytes on a device of the rest of the state: moments, the moving average, what the objective remembers and the
        models that it learns from, counters.
        """
        return bytes_per_device(self._state, self._places) - self.parameters

    @functools.cached_property
    def frozen(self) -> int:
        """Bytes on a device of the models to learn from, which are read and not written."""
        return bytes_per_device(self._state["frozen"], self._places["frozen"]) if self._frozen else 0

    @property
    def gradients(self) -> int:
        """Bytes on a device of a gradient for each parameter that has moments to update or any other use of it."""
        return self.parameters

    @functools.cached_property
    def leaves(self) -> list[Leaf]:
        """Every parameter."""
        return self._leaves(self._state["params"], self._places["params"], self._rules)

    @functools.cached_property
    def frozen_leaves(self) -> list[Leaf]:
        """Every variable of the models to learn from."""
        parts = ((self._state["frozen"][name], self._places["frozen"][name], one) for name, one in self._frozen.items())
        return [leaf for shapes, places, one in parts for leaf in self._leaves(shapes, places, one.rules)]

    def _leaves(self, tree: states.State, shardings: states.State, table: Rules) -> list[Leaf]:
        places = flatten(shardings)
        rules = match_rules(table, tree, "SHARDING_RULES", every_leaf=True, every_rule=False)
        found = []
        for path, leaf in flatten(tree).items():
            first = int(is_stacked(path))
            axes = {PARAMETER_AXES[name]: first + at for at, name in enumerate(rules[path] or ()) if name}
            wanted = {axis: at for axis, at in axes.items() if axis and self.sizes[axis] > 1}
            placed = _placed(places[path].spec)
            found.append(Leaf(path, leaf.shape, bool(first), placed, wanted, axes.get("fsdp")))
        return found

    @property
    def fallbacks(self) -> list[Fallback]:
        """Parameters that don't lie as the rules want, since a dimension doesn't divide."""
        found = []
        for leaf in self.leaves:
            for axis, at in leaf.wanted.items():
                if leaf.placed.get(axis) != at:
                    instead = leaf.placed.get(axis)
                    there = None if instead is None else leaf.shape[instead]
                    found.append(Fallback(leaf.path, axis, leaf.shape[at], there))
        return found

    @functools.cached_property
    def tensor_sizes(self) -> frozenset[int]:
        """Sizes of the dimensions that lie over `tensor`: heads, the MLP's, the vocabulary."""
        placed = [
            leaf
            for leaf in (*self.leaves, *self.frozen_leaves)
            if "tensor" in leaf.wanted and leaf.placed.get("tensor") == leaf.wanted["tensor"]
        ]
        return frozenset(leaf.shape[leaf.wanted["tensor"]] for leaf in placed)


def abstract_mesh(sizes: Mapping[str, int]) -> AbstractMesh:
    """A mesh of these sizes without devices."""
    return AbstractMesh(tuple(sizes[axis] for axis in AXES), AXES, axis_types=(AxisType.Auto,) * len(AXES))


def _placed(spec: PartitionSpec) -> dict[str, int]:
    found: dict[str, int] = {}
    for at, axes in enumerate(spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            found[axis] = at
    return found
