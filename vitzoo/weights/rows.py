"""A published format as rows: which arrays of a file are which of our leaves, and how; read and written by the same."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vitzoo.errors import UserError
from vitzoo.weights.files.source import NOT_FINITE, Header, finite, header_of, unusable
from vitzoo.weights.layouts import SAME, Layout

Flat = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a format's table.

    Attributes:
        theirs: the array's name in the file, or several; `{i}` stands for the layer.
        ours: our leaf's path, or several. Of a stack these have a leading dimension of `depth`.
        layout: between them, for one layer.
        depth: layers of the stack it belongs to; 0 of none.
        axis: where their name has no `{i}` though there are layers, the dimension that counts them.
    """

    theirs: str | tuple[str, ...]
    ours: str | tuple[str, ...]
    layout: Layout = SAME
    depth: int = 0
    axis: int = 0

    @property
    def their_names(self) -> tuple[str, ...]:
        """`theirs` as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    @property
    def our_paths(self) -> tuple[str, ...]:
        """`ours` as a tuple."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def files_names(self) -> list[str]:
        """Every name in the file that the row is about."""
        layers = range(self.depth) if any("{i}" in name for name in self.their_names) else [0]
        return [name.replace("{i}", str(layer)) for layer in layers for name in self.their_names]

    def read(self, tensors: Mapping[str, np.ndarray]) -> Flat:
        """Our leaves, float32, of arrays that `check_headers` has found right.

        Raises:
            Misfit: an array isn't what the layout takes, or has numbers that aren't finite.
        """
        leaves: list[np.ndarray] = []
        for layer in range(max(self.depth, 1)):
            parts = self._parts(tensors, layer)
            stacked = (self.depth,) if self.depth else ()
            leaves = leaves or [np.empty((*stacked, *part.shape), np.float32) for part in parts]
            for leaf, part in zip(leaves, parts, strict=True):
                into = leaf[layer, ...] if self.depth else leaf
                with np.errstate(over="ignore"):  # what grows infinite is refused
                    into[...] = part
                if not finite(into):
                    raise Misfit(self._names(layer)[0], NOT_FINITE)
        return dict(zip(self.our_paths, leaves, strict=True))

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
            hollow = {name: _hollow(name, header_of(tensors, name)) for name in self._names(layer)}
            found = [part.shape for part in self._parts(hollow, layer)]
            if first and found != first:
                name, array = next(iter(hollow.items()))
                raise Misfit(name, f"of shape {array.shape}, which isn't that of the layers before")
            first = first or found
        for path, shape in zip(self.our_paths, first, strict=True):
            whole = (self.depth, *shape) if self.depth else shape
            if whole != (right := shapes.get(path, whole)):
                name = self.files_names()[0]
                stated = header_of(tensors, name).shape
                raise Misfit(name, f"of shape {stated}, which makes {path} {whole}; the model has {right}")

    def write(self, params: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """The file's names and arrays."""
        leaves = [np.asarray(params[path]) for path in self.our_paths]
        if not self.depth:
            yield from zip(self.their_names, self.layout.theirs(*leaves), strict=True)
            return
        layers = [self.layout.theirs(*(leaf[layer] for leaf in leaves)) for layer in range(self.depth)]
        for index, name in enumerate(self.their_names):
            if "{i}" in name:
                yield from ((name.replace("{i}", str(layer)), parts[index]) for layer, parts in enumerate(layers))
            else:
                yield name, np.stack([parts[index] for parts in layers], self.axis)

    def _names(self, layer: int) -> list[str]:
        """The file's names that a layer is in."""
        return [name.replace("{i}", str(layer)) for name in self.their_names]

    def _parts(self, tensors: Mapping[str, np.ndarray], layer: int) -> tuple[np.ndarray, ...]:
        """Our arrays of one layer, as they are in the file's type."""
        arrays, right = [], self.layout.dimensions
        inside = bool(self.depth) and "{i}" not in self.their_names[0]  # of an array that holds all layers
        for name in self._names(layer):
            array = tensors[name]
            if why := unusable(array):
                raise Misfit(name, why)
            if right is not None and array.ndim != right + inside:
                raise Misfit(name, f"of shape {array.shape}, where {right + inside} dimensions are right")
            arrays.append(array)
        try:
            place = (slice(None),) * self.axis + (layer,) if inside else ...
            return self.layout.ours(*(array[place] for array in arrays))
        except (ValueError, TypeError, IndexError) as error:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise Misfit(name, f"of shape {shapes}, which doesn't fit its other arrays ({error})") from None


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


def read_rows(
    rows: Sequence[Row],
    tensors: Mapping[str, np.ndarray],
    ignored: Sequence[Ignored],
    where: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Flat, list[str]]:
    """Our leaves out of a file: strict, every name used once or ignored by name.

    Args:
        rows: the format's table for this model.
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
    wanted = {name for row in rows for name in row.files_names()}
    aside = {name: why for name in tensors if name not in wanted and (why := _why(name, ignored)) is not None}
    missing, extra = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted - set(aside))
    if missing or extra:
        problems = [*_some("misses", missing), *_some("has besides", extra)]
        raise UserError("checkpoint", where, f"isn't what its other names say it is: it {'; it '.join(problems)}")
    params: Flat = {}
    try:
        for row in rows:
            row.check_headers(tensors, shapes or {})
        for row in rows:
            params |= row.read(tensors)
    except Misfit as misfit:
        raise UserError("checkpoint", where, f"has {misfit}") from None
    notes: dict[str, list[str]] = {}
    for name, why in aside.items():
        notes.setdefault(why, []).append(name)
    return params, [f"{len(names)} ignored ({why}): {_listed(names)}" for why, names in notes.items()]


def write_rows(rows: Sequence[Row], params: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays of the file, in the table's order.

    Raises:
        ValueError: the table misses one of our leaves.
    """
    left = set(params) - {path for row in rows for path in row.our_paths}
    if left:
        raise ValueError(f"no row of the format holds {', '.join(sorted(left))}")
    for row in rows:
        yield from row.write(params)


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
