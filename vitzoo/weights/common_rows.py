"""Rows that many formats have: dense layers, norms, embeddings, attention; and one layer's rows as those of a stack."""

import dataclasses
from collections.abc import Mapping, Sequence

from vitzoo.weights.layouts import MATRIX, TRANSPOSED, VECTOR, from_heads, fused, to_heads, to_heads_bias
from vitzoo.weights.rows import Row


def layers(depth: int, rows: Sequence[Row], *, axis: int = 0) -> list[Row]:
    """Rows of one layer as rows of a stack of `depth`."""
    return [dataclasses.replace(row, depth=depth, axis=axis) for row in rows]


def norm(theirs: str, ours: str, *, bias: bool = True, names: tuple[str, str] = ("weight", "bias")) -> list[Row]:
    """Scale and bias of a norm."""
    rows = [Row(f"{theirs}.{names[0]}", f"{ours}/scale", VECTOR), Row(f"{theirs}.{names[1]}", f"{ours}/bias", VECTOR)]
    return rows if bias else rows[:1]


def dense(theirs: str, ours: str, *, bias: bool = True, transposed: bool = True) -> list[Row]:
    """Kernel and bias of a dense layer, torch's Linear where `transposed`."""
    kernel = Row(f"{theirs}.weight", f"{ours}/kernel", TRANSPOSED if transposed else MATRIX)
    return [kernel, Row(f"{theirs}.bias", f"{ours}/bias", VECTOR)] if bias else [kernel]


def table(theirs: str, ours: str) -> list[Row]:
    """An embedding."""
    return [Row(f"{theirs}.weight", f"{ours}/table", MATRIX)]


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
            layout = VECTOR if part == "out" else to_heads_bias(num_heads)
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
            Row(f"{out}.bias", f"{ours}/out/bias", VECTOR),
        ]
    return rows
