"""A published format as rows: which arrays of a file are which of our leaves, and how; read and written by the same."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.layouts import (
    SAME,
    TRANSPOSED,
    Layout,
    from_heads,
    fused,
    to_heads,
    to_heads_bias,
)

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
        """Our leaves, float32."""
        if not self.depth:
            found = self.layout.ours(*(tensors[name] for name in self.their_names))
            return {path: np.array(leaf, np.float32) for path, leaf in zip(self.our_paths, found, strict=True)}
        leaves: list[np.ndarray] = []
        for layer in range(self.depth):
            parts = self.layout.ours(*(self._layer(tensors, name, layer) for name in self.their_names))
            leaves = leaves or [np.empty((self.depth, *part.shape), np.float32) for part in parts]
            for leaf, part in zip(leaves, parts, strict=True):
                if part.shape != leaf.shape[1:]:
                    raise ValueError(f"layer {layer} is of another shape than layer 0")
                leaf[layer] = part
        return dict(zip(self.our_paths, leaves, strict=True))

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

    def _layer(self, tensors: Mapping[str, np.ndarray], name: str, layer: int) -> np.ndarray:
        if "{i}" in name:
            return tensors[name.replace("{i}", str(layer))]
        return np.take(tensors[name], layer, self.axis)


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
    rows: Sequence[Row], tensors: Mapping[str, np.ndarray], ignored: Sequence[Ignored], where: str
) -> tuple[Flat, list[str]]:
    """Our leaves out of a file: strict, every name used once or ignored by name.

    Args:
        rows: the format's table for this model.
        tensors: the file's arrays by name, looked at one by one.
        ignored: names to leave aside.
        where: the file, for messages.

    Returns:
        Leaves by path, and lines that say what was ignored.

    Raises:
        Refused: names are missing or left over, or an array has a shape that the layout can't take.
    """
    wanted = {name for row in rows for name in row.files_names()}
    aside = {name: why for name in tensors if name not in wanted and (why := _why(name, ignored)) is not None}
    missing, extra = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted - set(aside))
    if missing or extra:
        problems = [*_some("misses", missing), *_some("has besides", extra)]
        raise Refused("checkpoint", where, f"isn't what its other names say it is: it {'; it '.join(problems)}")
    params: Flat = {}
    for row in rows:
        try:
            params |= row.read(tensors)
        except (ValueError, IndexError) as error:
            shape = {name: tensors[name].shape for name in row.files_names()[:2]}
            raise Refused("checkpoint", where, f"has {shape}, which doesn't fit its other arrays ({error})") from None
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


def layers(depth: int, rows: Sequence[Row], *, axis: int = 0) -> list[Row]:
    """Rows of one layer as rows of a stack of `depth`."""
    return [dataclasses.replace(row, depth=depth, axis=axis) for row in rows]


def norm(theirs: str, ours: str, *, bias: bool = True, names: tuple[str, str] = ("weight", "bias")) -> list[Row]:
    """Scale and bias of a norm."""
    rows = [Row(f"{theirs}.{names[0]}", f"{ours}/scale"), Row(f"{theirs}.{names[1]}", f"{ours}/bias")]
    return rows if bias else rows[:1]


def dense(theirs: str, ours: str, *, bias: bool = True, transposed: bool = True) -> list[Row]:
    """Kernel and bias of a dense layer, torch's Linear where `transposed`."""
    kernel = Row(f"{theirs}.weight", f"{ours}/kernel", TRANSPOSED if transposed else SAME)
    return [kernel, Row(f"{theirs}.bias", f"{ours}/bias")] if bias else [kernel]


def table(theirs: str, ours: str) -> list[Row]:
    """An embedding."""
    return [Row(f"{theirs}.weight", f"{ours}/table")]


def projections(names: Mapping[str, str], ours: str, num_heads: int, *, bias: bool = True) -> list[Row]:
    """Queries, keys and values as torch Linears of their own, and what joins the heads.

    Args:
        names: query, key, value and out → the layer's name in the file.
        ours: path of the attention.
    """
    rows = []
    for part, theirs in names.items():
        kernel = from_heads(num_heads) if part == "out" else to_heads(num_heads)
        rows.append(Row(f"{theirs}.weight", f"{ours}/{part}/kernel", kernel))
        if bias:
            layout = SAME if part == "out" else to_heads_bias(num_heads)
            rows.append(Row(f"{theirs}.bias", f"{ours}/{part}/bias", layout))
    return rows


def fused_projections(
    together: tuple[str, str], out: str, ours: str, num_heads: int, *, bias: bool = True, transposed: bool = True
) -> list[Row]:
    """Queries, keys and values in one layer, and what joins the heads.

    Args:
        together: names of the kernel and bias that hold all three.
        out: name of the layer that joins heads.
        ours: path of the attention.
        transposed: torch's Linear [out, in]; otherwise [in, out].
    """
    three = tuple(f"{ours}/{part}" for part in ("query", "key", "value"))
    kernel = fused(3, to_heads(num_heads, transposed=transposed), axis=0 if transposed else 1)
    rows = [
        Row(together[0], tuple(f"{path}/kernel" for path in three), kernel),
        Row(f"{out}.weight", f"{ours}/out/kernel", from_heads(num_heads, transposed=transposed)),
    ]
    if bias:
        biases = tuple(f"{path}/bias" for path in three)
        rows += [
            Row(together[1], biases, fused(3, to_heads_bias(num_heads), axis=0)),
            Row(f"{out}.bias", f"{ours}/out/bias"),
        ]
    return rows


def _why(name: str, ignored: Sequence[Ignored]) -> str | None:
    return next((entry.why for entry in ignored if re.fullmatch(entry.pattern, name)), None)


def _some(verb: str, names: Sequence[str]) -> list[str]:
    return [f"{verb} {_listed(names)}"] if names else []


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
