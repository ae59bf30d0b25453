"""T5 as t5x keeps it: names with slashes, kernels [in, out] with heads merged or not, layers numbered or stacked.

Scanned models stack their layers on axis 1 (`encoder/encoder/...`) and have a table of distances for each; they are
read where these tables are one, as a model's of one table for a stack are.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Reading
from vitzoo.weights.layouts import MATRIX, TRANSPOSED, VECTOR, Arrays, Layout, from_heads, to_heads
from vitzoo.weights.rows import Row
from vitzoo.weights.tokenizers import t5_tokenizer

EMBEDDING, HEAD = "token_embedder/embedding", "decoder/logits_dense/kernel"
STACKS = ("encoder", "decoder")
ATTENTIONS = {
    "encoder": {"attention": "attention"},
    "decoder": {"self_attention": "attention", "encoder_decoder_attention": "cross_attention"},
}
"""Their name of an attention → ours."""
NORMS = {
    "encoder": {"pre_attention_layer_norm": "norm1", "pre_mlp_layer_norm": "norm2"},
    "decoder": {
        "pre_self_attention_layer_norm": "norm1",
        "pre_cross_attention_layer_norm": "cross_norm",
        "pre_mlp_layer_norm": "norm2",
    },
}
FIRST = Layout(lambda x: (_one_of(x),), lambda x: (x.T,), 3)
"""Tables of distances [heads, layers, buckets], which are one."""


class T5X:
    """Read only."""

    name = "t5x"
    model = "t5"

    def recognises(self, source: Source) -> bool:
        """By the embedding and the encoder's last norm."""
        return {EMBEDDING, "encoder/encoder_norm/scale"} <= set(source.tensors)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. `activation` is taken from `given` where it isn't the published one."""
        if "decoder/decoder_norm/scale" not in source.tensors:
            raise source.refused("holds no decoder of a T5")
        scanned = "encoder/encoder/pre_mlp_layer_norm/scale" in source.tensors
        tables = {stack: _table(source, stack) for stack in STACKS}
        heads = source.shape(tables["encoder"])[0]
        depths = {stack: _depth(source, stack, scanned) for stack in STACKS}
        first = "encoder/encoder" if scanned else "encoder/layers_0"
        gated = f"{first}/mlp/wi_0/kernel" in source.tensors
        tied = HEAD not in source.tensors
        vocabulary, width = source.shape(EMBEDDING, 2)
        activation = given.get("activation", "gelu_tanh" if gated else "relu")
        model = {
            "name": "t5",
            "vocabulary_size": vocabulary,
            "width": width,
            "encoder_depth": depths["encoder"],
            "decoder_depth": depths["decoder"],
            "num_heads": heads,
            "head_dim": math.prod(source.shape(f"{first}/attention/query/kernel"))
            // (_layers(depths, scanned) * width * heads),
            "mlp_dim": source.shape(f"{first}/mlp/wo/kernel")[0],
            "activation": activation,
            "gated_mlp": gated,
            "tied_head": tied,
            "buckets": source.shape(tables["encoder"])[-1],
        }
        head = [] if tied else [Row(HEAD, "head/kernel", MATRIX)]
        stacks = [row for stack in STACKS for row in _stack(stack, tables[stack], depths[stack], heads, gated, scanned)]
        return Reading(
            model=model,
            rows=(Row(EMBEDDING, "embedding/table", MATRIX), *stacks, *head),
            objective={"name": "seq2seq"},
            preprocessing={"sequence_length": 512, "source_length": 512},
            tokenizer=t5_tokenizer(source.folder, vocabulary),
            notes=(f"activation {activation}, max_distance 128, start_id 0: t5x's of the published T5s",),
        )


def _stack(stack: str, distances: str, depth: int, heads: int, gated: bool, scanned: bool) -> list[Row]:
    """Rows of the encoder or the decoder."""
    one = f"{stack}/{stack}" if scanned else f"{stack}/layers_{{i}}"
    ours = f"{stack}/blocks/*"
    found: list[tuple[str, str, Layout]] = []
    for theirs, attention in ATTENTIONS[stack].items():
        for part in ("query", "key", "value", "out"):
            found.append((f"{theirs}/{part}/kernel", f"{attention}/{part}/kernel", _kernel(heads, part == "out")))
    parts = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if gated else {"wi": "up", "wo": "down"}
    found += [(f"mlp/{theirs}/kernel", f"mlp/{part}/kernel", MATRIX) for theirs, part in parts.items()]
    found += [(f"{theirs}/scale", f"{norm}/scale", VECTOR) for theirs, norm in NORMS[stack].items()]
    rows = [Row(f"{one}/{theirs}", f"{ours}/{path}", layout, depth, axis=1) for theirs, path, layout in found]
    stacked = distances.startswith(f"{stack}/{stack}/")
    return [
        Row(distances, f"{stack}_distance_bias/table", FIRST if stacked else TRANSPOSED),
        *rows,
        Row(f"{stack}/{stack}_norm/scale", f"{stack}/norm/scale", VECTOR),
    ]


def _kernel(heads: int, joins: bool) -> Layout:
    """Of a projection to heads, [width, heads · head_dim] or [width, heads, head_dim]; or of the one that joins them,
    the other way round.
    """
    merged = from_heads(heads, transposed=False) if joins else to_heads(heads, transposed=False)

    def ours(kernel: np.ndarray) -> Arrays:
        if kernel.ndim == 2:
            return merged.ours(kernel)
        if kernel.ndim != 3 or kernel.shape[0 if joins else 1] != heads:
            raise ValueError(f"{heads} heads are right")
        return (kernel,)

    return Layout(ours, merged.theirs, None)


def _table(source: Source, stack: str) -> str:
    """The name of a stack's table of distances.

    Raises:
        UserError: its layers have tables of their own.
    """
    name, stacked = f"{stack}/relpos_bias/rel_embedding", f"{stack}/{stack}/relpos_bias/rel_embedding"
    if name in source.tensors:
        source.shape(name, 2)
        return name
    if stacked in source.tensors:
        source.shape(stacked, 3)
        if _one_of(source.numbers(stacked)).size:
            return stacked
    if stacked in source.tensors or f"{stack}/layers_0/relpos_bias/rel_embedding" in source.tensors:
        raise source.refused(f"has a table of distances in every layer of its {stack} (as umT5); here a stack has one")
    raise source.refused(f"lacks {name}")


def _one_of(tables: np.ndarray) -> np.ndarray:
    """[heads, layers, buckets] to [buckets, heads] where all layers have the same; else nothing, [0, heads]."""
    same = (tables == tables[:, :1]).all()
    return tables[:, 0].T if same else np.zeros((0, len(tables)), tables.dtype)


def _depth(source: Source, stack: str, scanned: bool) -> int:
    return (
        source.shape(f"{stack}/{stack}/pre_mlp_layer_norm/scale", 2)[1]
        if scanned
        else source.depth(f"{stack}/layers_", "/")
    )


def _layers(depths: Mapping[str, int], scanned: bool) -> int:
    return depths["encoder"] if scanned else 1
