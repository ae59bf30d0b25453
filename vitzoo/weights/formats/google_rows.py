"""How Google's two codes for Vision Transformers name arrays, in each of their generations. The layouts are ours.

Numbers of modules differ (before linen one counter ran over all classes), so parts are found by class and order.
"""

import dataclasses
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import layers
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.settings import must_be
from vitzoo.weights.formats.vit_common import PLAINER, check_square
from vitzoo.weights.rows import Flat, Row, write_rows

STACKED, NUMBERED = "Transformer/encoderblock/", "Transformer/encoderblock_"
LAYER = "Transformer/encoderblock_{i}/"
TABLES = ("Transformer/posembed_input/pos_embedding", "Transformer/pos_embedding", "pos_embedding")
"""Where positions stand: vision_transformer; big_vision before 2022; since then."""
PLAIN = PLAINER | {"gelu": "tanh", "norm_epsilon": 1e-6}
"""Settings of a ViT of ours that have one value in these codes."""


class Parts(NamedTuple):
    """Names of what a block, or the attention that pools, consists of."""

    norms: tuple[str, ...]
    attention: str
    mlp: str

    @classmethod
    def linen(cls, prefix: str, norms: int) -> "Parts":
        """The names that linen gives: a counter for each class."""
        names = tuple(f"{prefix}LayerNorm_{index}" for index in range(norms))
        return cls(names, f"{prefix}MultiHeadDotProductAttention_0", f"{prefix}MlpBlock_0")

    @classmethod
    def found(cls, names: Collection[str], prefix: str, norms: int) -> "Parts":
        """The names in a file, whatever the counters; linen's for what isn't there."""
        usual = cls.linen(prefix, norms)
        attention = _modules(names, prefix, "MultiHeadDotProductAttention", (usual.attention,))
        mlp = _modules(names, prefix, "MlpBlock", (usual.mlp,))
        return cls(_modules(names, prefix, "LayerNorm", usual.norms), *attention, *mlp)

    def rows(self, ours: str, norms: tuple[str, ...]) -> list[Row]:
        """Their rows; `norms` are our names of the norms."""
        found = [row for theirs, norm in zip(self.norms, norms, strict=True) for row in _norm(theirs, f"{ours}/{norm}")]
        for part in ("query", "key", "value", "out"):
            found += _dense(f"{self.attention}/{part}", f"{ours}/attention/{part}")
        found += _dense(f"{self.mlp}/Dense_0", f"{ours}/mlp/up")
        return found + _dense(f"{self.mlp}/Dense_1", f"{ours}/mlp/down")


@dataclasses.dataclass(frozen=True)
class Names:
    """How a file names what differs between the generations.

    Attributes:
        block: of a block; `{i}` in them stands for the layer; without it an array holds all layers.
        table: of positions; empty where there are none.
        probe, pool: of the attention that pools; `None` where nothing does.
    """

    block: Parts
    table: str
    probe: str = ""
    pool: Parts | None = None

    @property
    def stacked(self) -> bool:
        """Whether one array holds all layers."""
        return self.block.mlp.startswith(STACKED)

    def rows(self, depth: int, *, class_token: bool, pre_logits: bool, head: bool) -> tuple[Row, ...]:
        """The table for a model."""
        block = self.block.rows("encoder/blocks/*", ("norm1", "norm2"))
        found = _dense("embedding", "patch_embedding")
        found += [Row("cls", "class_token")] if class_token else []
        found += [Row(self.table, "positions/embedding")] if self.table else []
        found += block if self.stacked else layers(depth, block)
        found += _norm("Transformer/encoder_norm", "encoder/norm")
        if self.pool is not None:
            found += [Row(self.probe, "pool/probe"), *self.pool.rows("pool", ("norm",))]
        found += _dense("pre_logits", "pre_logits") if pre_logits else []
        return (*found, *(_dense("head", "head") if head else []))


def names_of(source: Source) -> Names:
    """The names in a file."""
    names = source.tensors
    stacked = any(name.startswith(STACKED) for name in names)
    first = Parts.found(names, STACKED if stacked else f"{NUMBERED}0/", 2)
    block = first if stacked else _of_layers(first)
    table = next((name for name in TABLES if name in names), "")
    prefix = next((prefix for prefix in ("MAPHead_0/", "") if f"{prefix}probe" in names), None)
    if prefix is None:
        return Names(block, table)
    return Names(block, table, f"{prefix}probe", Parts.found(names, prefix, 1))


def write(names: Names, config: ViTConfig, params: Flat) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays of a checked model."""
    present = {"pre_logits": bool(config.pre_logits), "head": bool(config.num_classes)}
    return write_rows(names.rows(config.depth, class_token=config.has_class_token, **present), params)


def check(config: ViTConfig, where: str, *, poolings: tuple[str, ...], positions: tuple[str, ...], placed: str) -> None:
    """Refuses a model that a code has no place for.

    Args:
        config: the model's.
        where: the format, for messages.
        poolings, positions: what the code knows of each.
        placed: `prefix_positions` of a model with a class token.
    """
    must_be(config, PLAIN, where)
    for field, known in (("pooling", poolings), ("positions", positions)):
        if getattr(config, field) not in known:
            raise UserError(
                f"model.{field}", getattr(config, field), f"has no place in {where}, which has {', '.join(known)}"
            )
    if config.pooling != "cls" and config.has_class_token:
        raise UserError("model.class_token", True, f"has no place in {where} with pooling={config.pooling}")
    if config.pooling == "cls" and config.positions == "learned1d":
        must_be(config, {"prefix_positions": placed}, where)
    if config.positions == "learned1d":
        check_square(config.grid, where)


def _of_layers(first: Parts) -> Parts:
    """The first block's names as those of any layer."""

    def name(of_first: str) -> str:
        return of_first.replace(f"{NUMBERED}0/", LAYER, 1)

    return Parts(tuple(map(name, first.norms)), name(first.attention), name(first.mlp))


def _modules(names: Collection[str], prefix: str, kind: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The modules of a class directly below a prefix, as many as usual, in the order of their numbers."""
    pattern = re.compile(rf"({re.escape(prefix)}{kind}_)(\d+)/")
    numbers = {int(match[2]) for name in names if (match := pattern.match(name))}
    found = [f"{prefix}{kind}_{number}" for number in sorted(numbers)][: len(usual)]
    return (*found, *usual[len(found) :])


def _dense(theirs: str, ours: str) -> list[Row]:
    return [Row(f"{theirs}/{leaf}", f"{ours}/{leaf}") for leaf in ("kernel", "bias")]


def _norm(theirs: str, ours: str) -> list[Row]:
    return [Row(f"{theirs}/{leaf}", f"{ours}/{leaf}") for leaf in ("scale", "bias")]
