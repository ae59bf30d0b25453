"""A published format as a map of names: which arrays of a file are which of our leaves, and how."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.weights.files.weights import NOT_FINITE, Header, finite, header_of, unusable

Arrays = tuple[np.ndarray, ...]


class Layout(NamedTuple):
    """Both directions.

    Attributes:
        ours: our arrays from the file's.
        theirs: the file's from ours, undoing it.
        dimensions: how many the file's has; None where ours has as many, and the model tells.
    """

    ours: Callable[[np.ndarray], Arrays]
    theirs: Callable[..., np.ndarray]
    dimensions: int | None


SAME = Layout(lambda x: (x,), lambda x: x, None)
VECTOR, MATRIX = SAME._replace(dimensions=1), SAME._replace(dimensions=2)
TRANSPOSED = Layout(lambda x: (x.T,), lambda x: x.T, 2)
"""torch's Linear [out, in]."""
PATCHES = Layout(lambda x: (x.transpose(2, 3, 1, 0),), lambda x: x.transpose(3, 2, 0, 1), 4)
"""torch's convolution [width, channels, rows, columns]."""


def reshaped(theirs: tuple[int, ...], ours: tuple[int, ...]) -> Layout:
    """The same numbers in the same order."""

    def checked(x: np.ndarray) -> Arrays:
        if x.shape != theirs:
            raise ValueError(f"{theirs} is right")
        return (x.reshape(ours),)

    return Layout(checked, lambda x: x.reshape(theirs), len(theirs))


def heads(count: int, *, joins: bool = False, transposed: bool = True) -> Layout:
    """A projection to heads, [heads · head_dim, width], or the one that `joins` them, [width, heads · head_dim]; the
    other way round where not `transposed`.
    """

    def ours(kernel: np.ndarray) -> Arrays:
        kernel = kernel.T if transposed else kernel
        rows, columns = kernel.shape
        return (kernel.reshape((count, -1, columns) if joins else (rows, count, -1)),)

    def theirs(kernel: np.ndarray) -> np.ndarray:
        merged = kernel.reshape((-1, kernel.shape[-1]) if joins else (len(kernel), -1))
        return merged.T if transposed else merged

    return Layout(ours, theirs, 2)


def heads_bias(count: int) -> Layout:
    """The bias of a projection to heads, [heads · head_dim]."""
    return Layout(lambda x: (x.reshape(count, -1),), lambda x: x.reshape(-1), 1)


def fused(parts: int, each: Layout, *, axis: int) -> Layout:
    """Several arrays of one layout in one, side by side on `axis` (queries, keys, values)."""

    def ours(whole: np.ndarray) -> Arrays:
        return tuple(each.ours(part)[0] for part in np.split(whole, parts, axis))

    def theirs(*arrays: np.ndarray) -> np.ndarray:
        return np.concatenate([each.theirs(array) for array in arrays], axis)

    return Layout(ours, theirs, each.dimensions)


def torch_layout(path: str, shape: tuple[int, ...], *, transposed: bool = True) -> Layout:
    """Of a leaf in torch's files, by its path and its shape in one layer; `transposed` as for `heads`."""
    leaf, dimensions = path.rpartition("/")[2], len(shape)
    if leaf == "kernel" and dimensions == 3:
        joins = path.endswith("/out/kernel")
        return heads(shape[0] if joins else shape[1], joins=joins, transposed=transposed)
    if leaf == "kernel":
        return PATCHES if dimensions == 4 else TRANSPOSED if transposed else MATRIX
    if leaf == "bias" and dimensions == 2:
        return heads_bias(shape[0])
    return {1: VECTOR, 2: MATRIX}.get(dimensions, SAME)


Shapes = Mapping[str, tuple[int, ...]]
"""Of a model's leaves, by path."""
TORCH = {"kernel": ".weight", "bias": ".bias", "table": ".weight"}
TORCH_NORM = {"scale": ".weight", "bias": ".bias"}
"""Our names of a module's leaves, and of a norm's → what follows the module's name in torch's files."""


@dataclasses.dataclass(frozen=True)
class LeafMap:
    """One line of a format's mapping.

    Attributes:
        theirs: the array's name in the file; `{i}` stands for the layer.
        ours: our leaf's path, or those of several that the file holds in one. Of a stack these have a leading
            dimension of `depth`.
        layout: between them, for one layer.
        depth: layers of the stack it belongs to; 0 of none.
        axis: where their name has no `{i}` though there are layers, the dimension that counts them.
    """

    theirs: str
    ours: tuple[str, ...]
    layout: Layout
    depth: int = 0
    axis: int = 0

    def files_names(self) -> list[str]:
        """Every name in the file that it is about."""
        return [self._name(layer) for layer in range(self.depth if "{i}" in self.theirs else 1)]

    def read(self, tensors: Mapping[str, np.ndarray]) -> Flat:
        """Our leaves, float32, of arrays that `check_headers` has found right.

        Raises:
            Misfit: an array isn't what the layout takes, or has numbers that aren't finite.
        """
        leaves: list[np.ndarray] = []
        for layer in range(max(self.depth, 1)):
            parts = self._parts(tensors[self._name(layer)], layer)
            stacked = (self.depth,) if self.depth else ()
            leaves = leaves or [np.empty((*stacked, *part.shape), np.float32) for part in parts]
            for leaf, part in zip(leaves, parts, strict=True):
                into = leaf[layer, ...] if self.depth else leaf
                with np.errstate(over="ignore"):  # what grows infinite is refused
                    into[...] = part
                if not finite(into):
                    raise Misfit(self._name(layer), NOT_FINITE)
        return dict(zip(self.ours, leaves, strict=True))

    def check_headers(self, tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Compares what the file says of its arrays with the model, before their numbers are read.

        Args:
            tensors: the file's arrays by name.
            shapes: of the model's leaves by path, where they are to be compared.

        Raises:
            Misfit: an array is of no type of weights, isn't what the layout takes, or is of another shape than another
                layer's or than makes the model's leaf.
        """
        first: list[tuple[int, ...]] = []
        for layer in range(max(self.depth, 1)):
            name = self._name(layer)
            hollow = _hollow(name, header_of(tensors, name))
            found = [part.shape for part in self._parts(hollow, layer)]
            if first and found != first:
                raise Misfit(name, f"of shape {hollow.shape}, which isn't that of the layers before")
            first = first or found
        for path, shape in zip(self.ours, first, strict=True):
            whole = (self.depth, *shape) if self.depth else shape
            if whole != (right := shapes.get(path, whole)):
                stated = header_of(tensors, self._name(0)).shape
                raise Misfit(self._name(0), f"of shape {stated}, which makes {path} {whole}; the model has {right}")

    def write(self, params: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """The file's names and arrays."""
        leaves = [np.asarray(params[path]) for path in self.ours]
        if not self.depth:
            yield self.theirs, self.layout.theirs(*leaves)
            return
        layers = [self.layout.theirs(*(leaf[layer] for leaf in leaves)) for layer in range(self.depth)]
        if "{i}" in self.theirs:
            yield from zip(self.files_names(), layers, strict=True)
        else:
            yield self.theirs, np.stack(layers, self.axis)

    def _name(self, layer: int) -> str:
        """The file's name that a layer is in."""
        return self.theirs.replace("{i}", str(layer))

    def _parts(self, array: np.ndarray, layer: int) -> Arrays:
        """Our arrays of one layer, as they are in the file's type."""
        name, right = self._name(layer), self.layout.dimensions
        inside = bool(self.depth) and "{i}" not in self.theirs  # of an array that holds all layers
        if why := unusable(array):
            raise Misfit(name, why)
        if right is not None and array.ndim != right + inside:
            raise Misfit(name, f"of shape {array.shape}, where {right + inside} dimensions are right")
        try:
            return self.layout.ours(array[(slice(None),) * self.axis + (layer,) if inside else ...])
        except (ValueError, TypeError, IndexError) as error:
            raise Misfit(name, f"of shape {array.shape}, which doesn't fit its other arrays ({error})") from None


@dataclasses.dataclass(frozen=True)
class NameMap:
    """How a format names what a model may have. The leaves that a model has, and their shapes, say the rest.

    Attributes:
        names: our path of a module or of one leaf → their name, in the order in which they are written; `*` and `{i}`
            stand for the layer. `query|key|value` in a path are those that the file holds as one, side by side; of
            these only the ones that the model has.
        leaves: our name of a module's leaf → what follows the module's name in the file.
        norms: the same of a norm.
        transposed: kernels are torch's, [out, in].
        layouts: a leaf's layout, from its path and the shape of one layer, where it isn't torch's; None where it is.
        axis: where one array holds all layers, the dimension that counts them.
    """

    names: Mapping[str, str]
    leaves: Mapping[str, str] = dataclasses.field(default_factory=lambda: TORCH)
    norms: Mapping[str, str] = dataclasses.field(default_factory=lambda: TORCH_NORM)
    transposed: bool = True
    layouts: Callable[[str, tuple[int, ...]], Layout | None] = lambda path, shape: None
    axis: int = 0

    def of(self, shapes: Shapes) -> tuple[LeafMap, ...]:
        """The mapping of a model, whose leaves have these shapes."""
        found = []
        for paths, theirs in self._each():
            endings = self.norms if f"{paths[0]}/scale" in shapes else self.leaves
            for leaf, ending in {"": "", **{f"/{leaf}": ending for leaf, ending in endings.items()}}.items():
                if present := tuple(f"{path}{leaf}" for path in paths if f"{path}{leaf}" in shapes):
                    found.append(self._line(present, theirs + ending, shapes))
        return tuple(found)

    def write(self, params: Flat) -> Iterator[tuple[str, np.ndarray]]:
        """Names and arrays of a model's file, in the order of `names`."""
        return write_mapping(self.of({path: np.shape(leaf) for path, leaf in params.items()}), params)

    def of_leaf(self, path: str) -> str:
        """Their name of one of our leaves; `{i}` stands for the layer."""
        for ours, theirs in self._each():
            for leaf, ending in {"": "", **self.norms, **self.leaves}.items():
                if path in ([f"{one}/{leaf}" for one in ours] if leaf else ours):
                    return f"{theirs}{ending}"
        raise KeyError(path)

    def _each(self) -> Iterator[tuple[list[str], str]]:
        """Our paths that are one in the file, and their name."""
        for ours, theirs in self.names.items():
            together = next((part for part in ours.split("/") if "|" in part), ours)
            yield [ours.replace(together, part) for part in together.split("|")], theirs

    def _line(self, paths: tuple[str, ...], theirs: str, shapes: Shapes) -> LeafMap:
        stacked = "*" in paths[0]
        shape = shapes[paths[0]][int(stacked) :]
        layout = self.layouts(paths[0], shape) or torch_layout(paths[0], shape, transposed=self.transposed)
        if len(paths) > 1:
            layout = fused(len(paths), layout, axis=0 if self.transposed or paths[0].endswith("/bias") else 1)
        return LeafMap(theirs, paths, layout, shapes[paths[0]][0] if stacked else 0, self.axis)


def block(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """Names within a block, or another part, as whole names."""
    return {f"{ours}/{path}": f"{theirs}.{name}" for path, name in names.items()}


class Misfit(ValueError):
    """An array of a file can't be what its name says.

    Args:
        name: in the file.
        why: it can't.
    """

    def __init__(self, name: str, why: str):
        self.name, self.why = name, why
        super().__init__(f"{name} {why}")


@dataclasses.dataclass(frozen=True)
class Ignored:
    """Names in a file that no model here has a use for.

    Attributes:
        pattern: a regular expression of the whole name.
        why: said in the report.
    """

    pattern: str
    why: str


def read_mapping(
    mapping: Sequence[LeafMap],
    tensors: Mapping[str, np.ndarray],
    ignored: Sequence[Ignored],
    where: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Flat, list[str]]:
    """Our leaves out of a file: strict, every name used once or ignored by name.

    Args:
        mapping: the format's for this model.
        tensors: the file's arrays by name, looked at one by one.
        ignored: names to leave aside, whatever they hold.
        where: the file, for messages.
        shapes: of the model's leaves by path, where they are to be compared.

    Returns:
        Leaves by path, all finite, and lines that say what was ignored.

    Raises:
        UserError: names are missing or left over, or an array has a shape that the layout can't take or that isn't the
            model's, or isn't of finite numbers of a type of weights.
    """
    wanted = {name for line in mapping for name in line.files_names()}
    aside = {name: why for name in tensors if name not in wanted and (why := _why(name, ignored)) is not None}
    missing, extra = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted - set(aside))
    if missing or extra:
        problems = [*_some("misses", missing), *_some("also has", extra)]
        raise UserError("checkpoint", where, f"isn't what its other names say it is: it {'; it '.join(problems)}")
    params: Flat = {}
    try:
        for line in mapping:
            line.check_headers(tensors, shapes or {})
        for line in mapping:
            params |= line.read(tensors)
    except Misfit as misfit:
        raise UserError("checkpoint", where, f"has {misfit}") from None
    notes: dict[str, list[str]] = {}
    for name, why in aside.items():
        notes.setdefault(why, []).append(name)
    return params, [f"{len(names)} ignored ({why}): {_listed(names)}" for why, names in notes.items()]


def write_mapping(mapping: Sequence[LeafMap], params: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays of the file, in the mapping's order.

    Raises:
        ValueError: the mapping misses one of our leaves.
    """
    left = set(params) - {path for line in mapping for path in line.ours}
    if left:
        raise ValueError(f"the format has no place for {', '.join(sorted(left))}")
    for line in mapping:
        yield from line.write(params)


def _hollow(name: str, header: Header) -> np.ndarray:
    """An array of a shape and type that takes no memory: one zero, everywhere."""
    try:
        return np.broadcast_to(np.zeros((), header.dtype), header.shape)
    except ValueError:
        raise Misfit(name, f"of shape {header.shape}, larger than any array") from None


def _why(name: str, ignored: Sequence[Ignored]) -> str | None:
    return next((entry.why for entry in ignored if re.fullmatch(entry.pattern, name)), None)


def _some(verb: str, names: Sequence[str]) -> list[str]:
    return [f"{verb} {_listed(names)}"] if names else []


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
