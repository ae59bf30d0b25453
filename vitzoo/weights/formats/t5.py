"""T5: versions 1.0 and 1.1, flan-T5, mT5 and ByT5, as transformers and as t5x keep it. No biases; one table of
distances for each stack, in transformers in its first block."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.models.base import Flat
from vitzoo.models.t5 import T5Config
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.registry import Given, Reading, Writing, type_of
from vitzoo.weights.mapping import TORCH, TRANSPOSED, Arrays, Ignored, Layout, NameMap, block, torch_layout
from vitzoo.weights.tokenizers import GENERATION, special_ids, t5_tokenizer, tokenizer_files

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

    def recognises(self, source: Weights) -> bool:
        """By the encoder's first attention."""
        return "encoder.block.0.layer.0.SelfAttention.q.weight" in source.tensors

    def read(self, source: Weights, given: Given) -> Reading:
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
        return Reading(
            model=model,
            names=_names(embeddings[0], gated=model["gated_mlp"]),
            ignored=(UNUSED, *(Ignored(re.escape(name), "the embedding again") for name in copies)),
            objective={"name": "seq2seq"},
            preprocessing={length: settings.whole(source, "n_positions", 512, least=1) for length in LENGTHS},
            tokenizer=t5_tokenizer(source.folder, model["vocabulary_size"]),
            notes=notes,
        )

    def write(
        self, config: T5Config, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`. Where attention divides by the root of head_dim, the queries' kernels go out divided."""
        where = "T5's format"
        activations = GATED if config.gated_mlp else ACTIVATIONS
        content = {
            "architectures": ["T5ForConditionalGeneration"],
            "model_type": "t5",
            **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
            "relative_attention_max_distance": config.max_distance,
            "feed_forward_proj": settings.theirs_of("activation", config.activation, activations, where),
            "layer_norm_epsilon": config.norm_epsilon,
            "dropout_rate": config.dropout,
            "tie_word_embeddings": config.tied_head,
            "scale_decoder_outputs": config.scales_head,
            "is_encoder_decoder": True,
            "decoder_start_token_id": config.start_id,
            **special_ids(tokenizer, "pad", "eos"),
        }
        names = _names(SHARED, gated=config.gated_mlp)
        if config.scale_attention:
            params = {path: _scaled(leaf, path, config.head_dim) for path, leaf in params.items()}
        return Writing(names.write(params), content, tokenizer_files(tokenizer, closing=True))


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
LENGTHS = ("length", "source_length")
PARTS = {"query": "q", "key": "k", "value": "v", "out": "o", "down": "wo"}
ENCODER = {"attention": "0.SelfAttention", "norm1": "0.layer_norm", "mlp": "1.DenseReluDense", "norm2": "1.layer_norm"}
DECODER = ENCODER | {
    "cross_attention": "1.EncDecAttention",
    "cross_norm": "1.layer_norm",
    "mlp": "2.DenseReluDense",
    "norm2": "2.layer_norm",
}


def _names(embedding: str, *, gated: bool) -> NameMap:
    names = {"embedding/table": embedding}
    for stack, parts in (("encoder", ENCODER), ("decoder", DECODER)):
        names[f"{stack}_distance_bias"] = DISTANCES.format(stack)
        names |= block(f"{stack}/blocks/*", f"{stack}.block.{{i}}.layer", parts)
        names[f"{stack}/norm"] = f"{stack}.final_layer_norm"
    parts = PARTS | ({"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"})
    inside = {f"{ours}/kernel": f".{theirs}.weight" for ours, theirs in parts.items()}
    return NameMap({**names, "head": "lm_head"}, leaves=TORCH | inside)


def _check(source: Weights) -> None:
    """Refuses what looks like a T5 and isn't."""
    if any(re.fullmatch(EVERY_LAYER, name) for name in source.tensors):
        raise source.refused("is an umT5, which has a table of distances in every layer; here a stack has one")
    if not any(name.startswith("decoder.block.") for name in source.tensors):
        raise source.refused("holds the encoder of a T5 alone; vitzoo's T5 has a decoder too")
    settings.only(source, ONLY)


EVERY_LAYER = r"encoder\.block\.[1-9]\d*\.layer\.0\.SelfAttention\.relative_attention_bias\.weight"


def _model(source: Weights, embedding: str, own_head: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
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


def _check_parts(source: Weights, usual: str) -> None:
    """Refuses what contradicts `feed_forward_proj`, which files of transformers state in two parts besides."""
    whole = source.config.get("feed_forward_proj") or usual
    gate, _, name = whole.rpartition("-")
    settings.only(source, {"is_gated_act": bool(gate), "dense_act_fn": "gelu_new" if whole == "gated-gelu" else name})


def _start(source: Weights, vocabulary: int) -> int:
    """The id that a target begins behind, which newer files say apart. No id of either file may lie outside the
    vocabulary.
    """
    both = [source, source.with_settings(source.folder / GENERATION)]
    for one in both:
        settings.whole(one, "pad_token_id", most=vocabulary - 1)
    stated = [settings.whole(one, "decoder_start_token_id", most=vocabulary - 1) for one in both]
    return next((start for start in stated if start is not None), 0)


def _scaling(source: Weights, own_head: bool) -> tuple[bool, tuple[str, ...]]:
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


T5X_EMBEDDING, T5X_HEAD = "token_embedder/embedding", "decoder/logits_dense/kernel"
T5X_BLOCKS = {
    "encoder": {"attention": "attention", "norm1": "pre_attention_layer_norm", "norm2": "pre_mlp_layer_norm"},
    "decoder": {
        "attention": "self_attention",
        "norm1": "pre_self_attention_layer_norm",
        "cross_attention": "encoder_decoder_attention",
        "cross_norm": "pre_cross_attention_layer_norm",
        "norm2": "pre_mlp_layer_norm",
    },
}
FIRST = Layout(lambda x: (_one_of(x),), lambda x: x.T, 3)
"""Tables of distances [heads, layers, buckets], which are one."""


class T5X:
    """Read only: names with slashes, kernels [in, out] with heads merged or not, layers numbered or stacked.

    Scanned models stack their layers on axis 1 (`encoder/encoder/...`) and have a table of distances for each; they are
    read where these tables are one, as a model's of one table for a stack are.
    """

    name = "t5x"
    model = "t5"

    def recognises(self, source: Weights) -> bool:
        """By the embedding and the encoder's last norm."""
        return {T5X_EMBEDDING, "encoder/encoder_norm/scale"} <= set(source.tensors)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. `activation` is taken from `given` where it isn't the published one."""
        if "decoder/decoder_norm/scale" not in source.tensors:
            raise source.refused("holds no decoder of a T5")
        scanned = "encoder/encoder/pre_mlp_layer_norm/scale" in source.tensors
        tables = {stack: _table(source, stack) for stack in T5X_BLOCKS}
        heads = source.shape(tables["encoder"])[0]
        depths = {stack: _depth(source, stack, scanned) for stack in T5X_BLOCKS}
        first, layers = ("encoder/encoder", depths["encoder"]) if scanned else ("encoder/layers_0", 1)
        gated = f"{first}/mlp/wi_0/kernel" in source.tensors
        tied = T5X_HEAD not in source.tensors
        vocabulary, width = source.shape(T5X_EMBEDDING, 2)
        activation = given.get("activation", "gelu_tanh" if gated else "relu")
        model = {
            "name": "t5",
            "vocabulary_size": vocabulary,
            "width": width,
            "encoder_depth": depths["encoder"],
            "decoder_depth": depths["decoder"],
            "num_heads": heads,
            "head_dim": math.prod(source.shape(f"{first}/attention/query/kernel")) // (layers * width * heads),
            "mlp_dim": source.shape(f"{first}/mlp/wo/kernel")[0],
            "activation": activation,
            "gated_mlp": gated,
            "tied_head": tied,
            "buckets": source.shape(tables["encoder"])[-1],
        }
        return Reading(
            model=model,
            names=_names_t5x(tables, gated, scanned),
            objective={"name": "seq2seq"},
            preprocessing={"length": 512, "source_length": 512},
            tokenizer=t5_tokenizer(source.folder, vocabulary),
            notes=(f"activation {activation}, max_distance 128, start_id 0: t5x's of the published T5s",),
        )


def _names_t5x(tables: Mapping[str, str], gated: bool, scanned: bool) -> NameMap:
    names, layouts = {"embedding/table": T5X_EMBEDDING}, {}
    for stack, parts in T5X_BLOCKS.items():
        names[table := f"{stack}_distance_bias/table"] = tables[stack]
        layouts[table] = FIRST if tables[stack].startswith(f"{stack}/{stack}/") else TRANSPOSED
        one = f"{stack}/{stack}" if scanned else f"{stack}/layers_{{i}}"
        names |= {f"{stack}/blocks/*/{ours}": f"{one}/{theirs}" for ours, theirs in {**parts, "mlp": "mlp"}.items()}
        names[f"{stack}/norm"] = f"{stack}/{stack}_norm"
    inside = {part: part for part in ("query", "key", "value", "out")} | {"down": "wo"}
    inside |= {"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"}
    return NameMap(
        {**names, "head/kernel": T5X_HEAD},
        leaves={f"{ours}/kernel": f"/{theirs}/kernel" for ours, theirs in inside.items()},
        norms={"scale": "/scale"},
        transposed=False,
        layouts=lambda path, shape: layouts.get(path) or _t5x_layout(path, shape),
        axis=1,
    )


def _t5x_layout(path: str, shape: tuple[int, ...]) -> Layout | None:
    """Of a projection to heads, [width, heads · head_dim] or [width, heads, head_dim]; or of the one that joins them,
    the other way round.
    """
    if len(shape) != 3:
        return None
    joins = path.endswith("out/kernel")
    heads = shape[0] if joins else shape[1]
    merged = torch_layout(path, shape, transposed=False)

    def ours(kernel: np.ndarray) -> Arrays:
        if kernel.ndim == 2:
            return merged.ours(kernel)
        if kernel.ndim != 3 or kernel.shape[0 if joins else 1] != heads:
            raise ValueError(f"{heads} heads are right")
        return (kernel,)

    return Layout(ours, merged.theirs, None)


def _table(source: Weights, stack: str) -> str:
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


def _depth(source: Weights, stack: str, scanned: bool) -> int:
    norm = f"{stack}/{stack}/pre_mlp_layer_norm/scale"
    return source.shape(norm, 2)[1] if scanned else source.depth(f"{stack}/layers_", "/")
