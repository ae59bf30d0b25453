"""T5 as transformers keeps it: versions 1.0 and 1.1, flan-T5, mT5 and ByT5. No biases; torch's Linears; one table of
distances in the first block of each stack."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.models.t5 import T5Config
from vitzoo.weights.common_rows import dense, layers, norm, projections, table
from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.known import type_of
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows
from vitzoo.weights.tokenizers import GENERATION, content_of, special_ids, t5_tokenizer, tokenizer_files

SHARED = "shared.weight"
EMBEDDINGS = (SHARED, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""Names of the one embedding; a file has any or all of them."""
HEAD = "lm_head.weight"
DISTANCES = "{}.block.0.layer.0.SelfAttention.relative_attention_bias"
UNUSED = Ignored(
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight", "no model ever read it"
)
ACTIVATIONS = {"relu": "relu", **settings.GELUS}
GATED = {"gated-gelu": "gelu_tanh", **{f"gated-{name}": ours for name, ours in ACTIVATIONS.items() if name != "gelu"}}
"""Of `feed_forward_proj`; `gated-gelu` is the tanh form, `gelu` alone the exact one."""
ONLY = {"is_encoder_decoder": True, "is_decoder": False}


class T5:
    """Of `T5ForConditionalGeneration` and `MT5ForConditionalGeneration`."""

    name = "t5"
    model = "t5"

    def recognises(self, source: Source) -> bool:
        """By the encoder's first attention."""
        return "encoder.block.0.layer.0.SelfAttention.q.weight" in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. All sizes are told by shapes; without `config.json` the rest is as published."""
        _check(source)
        embeddings = [name for name in EMBEDDINGS if name in source.tensors]
        if not embeddings:
            raise source.refused(f"lacks {SHARED}")
        copies = [name for name in embeddings[1:] if settings.same(source, name, embeddings[0])]
        own_head = HEAD in source.tensors and not settings.same(source, HEAD, embeddings[0])
        copies += [HEAD] if HEAD in source.tensors and not own_head else []
        model, notes = _model(source, embeddings[0], own_head)
        settings.agrees(source, {theirs: model[ours] for ours, theirs in SIZES.items()})
        sizes = {field: model[field] for field in ("encoder_depth", "decoder_depth", "num_heads", "gated_mlp")}
        return Reading(
            model=model,
            rows=rows(embeddings[0], tied=not own_head, **sizes),
            ignored=(UNUSED, *(Ignored(re.escape(name), "the embedding again") for name in copies)),
            objective={"name": "seq2seq"},
            preprocessing={length: settings.whole(source, "n_positions", 512, least=1) for length in LENGTHS},
            tokenizer=t5_tokenizer(source.folder, model["vocabulary_size"]),
            notes=notes,
        )

    def write(self, config: T5Config, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. Where attention divides by the root of head_dim, the queries' kernels go out divided."""
        where = "T5's format"
        names = GATED if config.gated_mlp else ACTIVATIONS
        content = {
            "architectures": ["T5ForConditionalGeneration"],
            "model_type": "t5",
            **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
            "relative_attention_max_distance": config.max_distance,
            "feed_forward_proj": settings.theirs_of("activation", config.activation, names, where),
            "layer_norm_epsilon": config.norm_epsilon,
            "dropout_rate": config.dropout,
            "tie_word_embeddings": config.tied_head,
            "scale_decoder_outputs": config.scales_head,
            "is_encoder_decoder": True,
            "decoder_start_token_id": config.start_id,
            **special_ids(tokenizer, "pad", "eos"),
        }
        sizes = {field: getattr(config, field) for field in ("encoder_depth", "decoder_depth", "num_heads")}
        table = rows(SHARED, tied=config.tied_head, gated_mlp=config.gated_mlp, **sizes)
        if config.scale_attention:
            params = {path: _scaled(leaf, path, config.head_dim) for path, leaf in params.items()}
        return Writing(write_rows(table, params), content, tokenizer_files(tokenizer, closing=True))


SIZES = {
    "width": "d_model",
    "encoder_depth": "num_layers",
    "decoder_depth": "num_decoder_layers",
    "num_heads": "num_heads",
    "head_dim": "d_kv",
    "mlp_dim": "d_ff",
    "buckets": "relative_attention_num_buckets",
    "vocabulary_size": "vocab_size",
}
"""Our name of a size → that of `config.json`."""
LENGTHS = ("sequence_length", "source_length")


def rows(
    embedding: str, *, encoder_depth: int, decoder_depth: int, num_heads: int, gated_mlp: bool, tied: bool
) -> tuple[Row, ...]:
    """The format's table for a model."""
    found = table(embedding.removesuffix(".weight"), "embedding")
    for stack, depth in (("encoder", encoder_depth), ("decoder", decoder_depth)):
        found += table(DISTANCES.format(stack), f"{stack}_distance_bias")
        found += layers(depth, _block(stack, num_heads, gated_mlp))
        found += norm(f"{stack}.final_layer_norm", f"{stack}/norm", bias=False)
    return (*found, *([] if tied else dense("lm_head", "head", bias=False)))


def _block(stack: str, num_heads: int, gated_mlp: bool) -> list[Row]:
    path, ours = f"{stack}.block.{{i}}.layer", f"{stack}/blocks/*"
    found = _attention(f"{path}.0.SelfAttention", f"{ours}/attention", num_heads)
    found += norm(f"{path}.0.layer_norm", f"{ours}/norm1", bias=False)
    last = f"{path}.1"
    if stack == "decoder":
        found += _attention(f"{path}.1.EncDecAttention", f"{ours}/cross_attention", num_heads)
        found += norm(f"{path}.1.layer_norm", f"{ours}/cross_norm", bias=False)
        last = f"{path}.2"
    parts = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated_mlp else {"up": "wi", "down": "wo"}
    for part, theirs in parts.items():
        found += dense(f"{last}.DenseReluDense.{theirs}", f"{ours}/mlp/{part}", bias=False)
    return [*found, *norm(f"{last}.layer_norm", f"{ours}/norm2", bias=False)]


def _attention(theirs: str, ours: str, num_heads: int) -> list[Row]:
    names = {"query": "q", "key": "k", "value": "v", "out": "o"}
    return projections({part: f"{theirs}.{name}" for part, name in names.items()}, ours, num_heads, bias=False)


def _check(source: Source) -> None:
    """Refuses what looks like a T5 and isn't."""
    if any(re.fullmatch(EVERY_LAYER, name) for name in source.tensors):
        raise source.refused("is an umT5, which has a table of distances in every layer; here a stack has one")
    if not any(name.startswith("decoder.block.") for name in source.tensors):
        raise source.refused("holds the encoder of a T5 alone; vitzoo's T5 has a decoder too")
    settings.only(source, ONLY)


EVERY_LAYER = r"encoder\.block\.[1-9]\d*\.layer\.0\.SelfAttention\.relative_attention_bias\.weight"


def _model(source: Source, embedding: str, own_head: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The model's name and fields, and notes."""
    config = source.config
    vocabulary, width = source.shape(embedding, 2)
    buckets, heads = source.shape(f"{DISTANCES.format('encoder')}.weight", 2)
    first = "encoder.block.0.layer.1.DenseReluDense"
    gated = f"{first}.wi_0.weight" in source.tensors
    names, usual = (GATED, "gated-gelu") if gated else (ACTIVATIONS, "relu")
    activation = settings.named(source, "feed_forward_proj", usual, names)
    _check_parts(source, usual)
    scaled, notes = _scaling(source, own_head)
    if not config:
        notes = (f"no config.json: feed_forward_proj {usual}, max_distance 128, start_id 0, as published", *notes)
    model = {
        "name": "t5",
        "vocabulary_size": vocabulary,
        "width": width,
        "encoder_depth": source.depth("encoder.block."),
        "decoder_depth": source.depth("decoder.block."),
        "num_heads": heads,
        "head_dim": source.shape("encoder.block.0.layer.0.SelfAttention.q.weight", 2)[0] // heads,
        "mlp_dim": source.shape(f"{first}.wo.weight", 2)[1],
        "activation": activation,
        "gated_mlp": gated,
        "tied_head": not own_head,
        "scale_head": None if scaled != own_head else scaled,
        "buckets": buckets,
        "max_distance": settings.whole(source, "relative_attention_max_distance", 128, least=1),
        "norm_epsilon": settings.epsilon(source, "layer_norm_epsilon", 1e-6),
        "dropout": settings.shares(source, {"dropout": "dropout_rate"}).get("dropout", 0.0),
        "start_id": _start(source, vocabulary),
    }
    return model, notes


def _check_parts(source: Source, usual: str) -> None:
    """Refuses what contradicts `feed_forward_proj`, which files of transformers state in two parts besides."""
    whole = source.config.get("feed_forward_proj") or usual
    gate, _, name = whole.rpartition("-")
    settings.only(source, {"is_gated_act": bool(gate), "dense_act_fn": "gelu_new" if whole == "gated-gelu" else name})


def _start(source: Source, vocabulary: int) -> int:
    """The id that a target begins behind, which newer files say apart. No id of either file may lie outside the
    vocabulary.
    """
    apart = content_of(source.folder / GENERATION)
    both = [source, dataclasses.replace(source, config=apart, config_name=GENERATION)]
    for one in both:
        _check_ids(one, vocabulary)
    stated = [settings.whole(one, "decoder_start_token_id", most=vocabulary - 1) for one in both]
    return next((start for start in stated if start is not None), 0)


def _check_ids(source: Source, vocabulary: int) -> None:
    """Refuses a padding outside the vocabulary."""
    id = source.config.get("pad_token_id")
    if id is not None and (type(id) is not int or not 0 <= id < vocabulary):
        right = f"an integer from 0 to {vocabulary - 1:,} is right"
        raise source.refused(f"{source.config_name} has pad_token_id = {shown(id)}; {right}")


def _scaling(source: Source, own_head: bool) -> tuple[bool, tuple[str, ...]]:
    """Whether the head's input is scaled, and notes."""
    config, tied = source.config, settings.flag(source, "tie_word_embeddings", True)
    if not tied and HEAD not in source.tensors:
        raise source.refused(f"config.json has tie_word_embeddings = False, and there is no {HEAD}")
    if config.get("scale_decoder_outputs") is not None:
        return settings.flag(source, "scale_decoder_outputs", tied), ()
    if type_of(source) == "mt5":
        note = "an mT5 with a tied head: its input isn't scaled, as in transformers 5; earlier ones scaled it"
        return False, () if own_head else (note,)
    if not config:
        return not own_head, ()
    return tied, ()


def _scaled(leaf: np.ndarray, path: str, head_dim: int) -> np.ndarray:
    """Queries of self- and cross-attention that need no division of the logits."""
    query = path.endswith(("attention/query/kernel", "cross_attention/query/kernel"))
    return (leaf * head_dim**-0.5).astype(leaf.dtype) if query else leaf
