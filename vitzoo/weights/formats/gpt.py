"""GPT-1 (`openai-gpt`) and GPT-2 as transformers keeps them, and nanoGPT's `ckpt.pt`: one table of names.

GPT-2: `model.safetensors` or `pytorch_model.bin`, with or without `transformer.` before the names. Kernels are [in,
out]; the head is the embedding, or one of its own. GPT-1: GPT-2's blocks with norms after each part, under other names.
nanoGPT: GPT-2's names with kernels [out, in], biases or none, and the model's settings beside them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.models.gpt import GPTConfig
from vitzoo.weights.common_rows import dense, fused_projections, layers, norm, table
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.settings import agrees, flag, must_be, same
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows
from vitzoo.weights.tokenizers import special_ids, tokenizer_beside, tokenizer_files

PREFIX = "transformer."
HEAD = "lm_head.weight"
MASKS = Ignored(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)", "masks, not weights")
TIED = Ignored(r"lm_head\.weight", "the embedding again")
PLAIN = {"norm": "layer_norm", "positions": "learned", "gated_mlp": False, "qk_norm": False}
"""Settings of a GPT of ours that have one value in these formats."""
SIZES = {"width": "n_embd", "depth": "n_layer", "context_length": "n_positions", "vocabulary_size": "vocab_size"}
"""Our name of a size → that of `config.json`."""
DROPOUTS = {"dropout": "resid_pdrop", "attention_dropout": "attn_pdrop"}
"""Of those of embedding and blocks, which are one here, the latter."""


@dataclasses.dataclass(frozen=True)
class Names:
    """How a format names the parts of a GPT.

    Attributes:
        prefix: of everything but the head.
        embedding, positions: the tables of ids and of places.
        last_norm: after the last block; GPT-1 has none.
        transposed: kernels are torch's Linear [out, in]; otherwise [in, out].
    """

    prefix: str
    embedding: str
    positions: str
    last_norm: str | None = "ln_f"
    transposed: bool = False

    def rows(self, depth: int, heads: int, *, tied: bool, bias: bool = True, norm_bias: bool = True) -> tuple[Row, ...]:
        """The format's table for a model."""
        block, ours = f"{self.prefix}h.{{i}}", "decoder/blocks/*"
        together = (f"{block}.attn.c_attn.weight", f"{block}.attn.c_attn.bias")
        shared: Any = {"bias": bias, "transposed": self.transposed}
        one = [
            *norm(f"{block}.ln_1", f"{ours}/norm1", bias=norm_bias),
            *fused_projections(together, f"{block}.attn.c_proj", f"{ours}/attention", heads, **shared),
            *norm(f"{block}.ln_2", f"{ours}/norm2", bias=norm_bias),
            *dense(f"{block}.mlp.c_fc", f"{ours}/mlp/up", **shared),
            *dense(f"{block}.mlp.c_proj", f"{ours}/mlp/down", **shared),
        ]
        last = [] if self.last_norm is None else norm(f"{self.prefix}{self.last_norm}", "decoder/norm", bias=norm_bias)
        head = [] if tied else dense("lm_head", "head", bias=False)
        tables = table(f"{self.prefix}{self.embedding}", "embedding")
        tables += table(f"{self.prefix}{self.positions}", "position_embedding")
        return (*tables, *layers(depth, one), *last, *head)


def prefix_of(source: Source, name: str) -> str:
    """What stands before the names of a file: `transformer.` or nothing."""
    return PREFIX if f"{PREFIX}{name}" in source.tensors else ""


def is_tied(source: Source, embedding: str) -> bool:
    """Whether the head is the embedding: not in the file, or there with the same numbers.

    Raises:
        UserError: it isn't in the file, and `config.json` says that it is another; or it is another in the file, and
            `config.json` says that it is the embedding, as it does by saying nothing.
    """
    if HEAD in source.tensors:
        tied = same(source, HEAD, embedding)
        if not tied and source.config and flag(source, "tie_word_embeddings", True):
            stated = "has" if "tie_word_embeddings" in source.config else "leaves it at"
            problem = f"has {HEAD} that isn't {embedding}, and config.json {stated} tie_word_embeddings = True"
            raise source.refused(f"{problem}; false there keeps this head, and without {HEAD} it is the embedding")
        return tied
    if not flag(source, "tie_word_embeddings", True):
        raise source.refused(f"config.json has tie_word_embeddings = False, and there is no {HEAD}")
    return True


def shapes_of(source: Source, names: Names) -> dict[str, Any]:
    """Fields of our Config that the shapes tell, which `config.json` may not contradict."""
    vocabulary, width = source.shape(f"{names.prefix}{names.embedding}.weight", 2)
    hidden = source.shape(f"{names.prefix}h.0.mlp.c_fc.weight", 2)
    found = {
        "vocabulary_size": vocabulary,
        "context_length": source.shape(f"{names.prefix}{names.positions}.weight", 2)[0],
        "width": width,
        "depth": source.depth(f"{names.prefix}h."),
        "mlp_dim": hidden[0 if names.transposed else 1],
    }
    agrees(source, {theirs: found[ours] for ours, theirs in SIZES.items()} | {"n_inner": found["mlp_dim"]})
    return found


def written(config: GPTConfig, tokenizer: Any) -> dict[str, Any]:
    """Settings of `config.json` that GPT-1 and GPT-2 share."""
    return {
        **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
        "n_head": config.num_heads,
        "layer_norm_epsilon": config.norm_epsilon,
        "tie_word_embeddings": config.tied_head,
        "embd_pdrop": config.dropout,
        **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
        **special_ids(tokenizer, "bos", "eos", "pad"),
    }


def checked(config: GPTConfig, where: str, **fields: Any) -> None:
    """Refuses a GPT that the format has no place for."""
    must_be(config, {**PLAIN, "bias": True, "norm_bias": True, **fields}, where)
    if config.prefix_lm:
        must_be(config, {"prefix_lm": False}, where)
    if config.num_kv_heads != config.num_heads:
        must_be(config, {"num_kv_heads": None}, where)


def without_added_ids(config: GPTConfig, params: Flat) -> Flat:
    """The leaves without the rows that `vocabulary_multiple` adds for speed."""
    count = config.vocabulary_size
    cut: dict[str, Any] = {"embedding/table": np.s_[:count], "head/kernel": np.s_[:, :count]}
    return {path: leaf[cut[path]] if path in cut else leaf for path, leaf in params.items()}


GPT2_ONLY = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
"""Settings of `config.json` that have one value here. (`reorder_and_upcast_attn` says in which order and precision.)"""
CLASSES = "score.weight"
WITHOUT_CONFIG = "there is no config.json: taken for a GPT-2, with the tanh form of GELU and epsilon 1e-5"


class GPT2:
    """Of `GPT2LMHeadModel` and `GPT2Model`."""

    name = "gpt2"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By the first block's fused projection and the embedding of places."""
        prefix = prefix_of(source, "wte.weight")
        return f"{prefix}h.0.attn.c_attn.weight" in source.tensors and f"{prefix}wpe.weight" in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        settings.only(source, GPT2_ONLY)
        if CLASSES in source.tensors:
            raise source.refused(f"has a head of classes of texts ({CLASSES}), which no GPT here has")
        names = _names_gpt2(prefix_of(source, "wte.weight"))
        found = shapes_of(source, names)
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = is_tied(source, f"{names.prefix}wte.weight")
        model = {
            "name": "gpt",
            **found,
            "num_heads": heads,
            "activation": settings.named(source, "activation_function", "gelu_new", settings.GELUS),
            "norm_epsilon": settings.epsilon(source, "layer_norm_epsilon", 1e-5),
            "tied_head": tied,
            **settings.shares(source, DROPOUTS),
        }
        return Reading(
            model=model,
            rows=names.rows(found["depth"], heads, tied=tied),
            ignored=(MASKS, TIED) if tied else (MASKS,),
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
            notes=() if source.config else (WITHOUT_CONFIG,),
        )

    def write(self, config: GPTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        checked(config, "GPT-2's format", pre_norm=True)
        content = {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            **written(config, tokenizer),
            "n_inner": config.mlp_dim,
            "activation_function": settings.theirs_of("activation", config.activation, WRITTEN, "GPT-2's format"),
        }
        rows = _names_gpt2(PREFIX).rows(config.depth, config.num_heads, tied=config.tied_head)
        params = without_added_ids(config, params)
        return Writing(write_rows(rows, params), content, tokenizer_files(tokenizer))


WRITTEN = {"gelu_new": "gelu_tanh", **settings.GELUS}


def _names_gpt2(prefix: str) -> Names:
    return Names(prefix, "wte", "wpe")


GPT1_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
"""Of `config.json`; `gelu` is the tanh form here, unlike anywhere else."""
POSITION_IDS = Ignored(r"(transformer\.)?position_ids", "0, 1, 2 ..., not weights")


class GPT1:
    """Of `OpenAIGPTLMHeadModel` and `OpenAIGPTModel`."""

    name = "openai-gpt"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By the names of its two tables."""
        prefix = prefix_of(source, "tokens_embed.weight")
        return {f"{prefix}tokens_embed.weight", f"{prefix}positions_embed.weight"} <= set(source.tensors)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        names = _names_gpt1(prefix_of(source, "tokens_embed.weight"))
        found = shapes_of(source, names)
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = is_tied(source, f"{names.prefix}tokens_embed.weight")
        model = {
            "name": "gpt",
            **found,
            "num_heads": heads,
            "pre_norm": False,
            "activation": settings.named(source, "afn", "gelu", GPT1_ACTIVATIONS),
            "norm_epsilon": settings.epsilon(source, "layer_norm_epsilon", 1e-5),
            "tied_head": tied,
            **settings.shares(source, DROPOUTS),
        }
        ignored = (MASKS, POSITION_IDS)
        return Reading(
            model=model,
            rows=names.rows(found["depth"], heads, tied=tied),
            ignored=(*ignored, TIED) if tied else ignored,
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
        )

    def write(self, config: GPTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        checked(config, "GPT-1's format", pre_norm=False)
        settings.must_be(config, {"mlp_dim": 4 * config.width}, "GPT-1's format")
        content = {
            "architectures": ["OpenAIGPTLMHeadModel"],
            "model_type": "openai-gpt",
            **written(config, tokenizer),
            "afn": settings.theirs_of("activation", config.activation, GPT1_ACTIVATIONS, "GPT-1's format"),
        }
        rows = _names_gpt1(PREFIX).rows(config.depth, config.num_heads, tied=config.tied_head)
        params = without_added_ids(config, params)
        return Writing(write_rows(rows, params), content, tokenizer_files(tokenizer))


def _names_gpt1(prefix: str) -> Names:
    return Names(prefix, "tokens_embed", "positions_embed", last_norm=None)


NANOGPT_NAMES = Names(PREFIX, "wte", "wpe", transposed=True)
NANOGPT_FIRST = f"{PREFIX}h.0.attn.c_attn"


class NanoGPT:
    """Read only. Its vocabulary is often 50,304: GPT-2's 50,257 ids, rounded up."""

    name = "nanogpt"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By GPT-2's names, and `model_args` beside them or a fused projection that is [out, in]."""
        if f"{NANOGPT_FIRST}.weight" not in source.tensors or f"{PREFIX}wpe.weight" not in source.tensors:
            return False
        shape = source.shape(f"{NANOGPT_FIRST}.weight")
        return "model_args" in source.besides or (len(shape) == 2 and shape[0] == 3 * shape[1])

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `model_args` the number of heads must be given."""
        arguments = source.besides.get("model_args")
        if isinstance(arguments, Mapping):
            source = dataclasses.replace(source, config=arguments, config_name="model_args")
        settings.only(source, {**GPT2_ONLY, "multi_query": False})
        found = shapes_of(source, NANOGPT_NAMES)
        settings.agrees(source, {"block_size": found["context_length"]})
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = is_tied(source, f"{PREFIX}wte.weight")
        biases = {
            "bias": f"{NANOGPT_FIRST}.bias" in source.tensors,
            "norm_bias": f"{PREFIX}h.0.ln_1.bias" in source.tensors,
        }
        stated = source.config.get("activation_function") is not None
        said = settings.named(source, "activation_function", "gelu", settings.GELUS)
        activation = said if stated else given.get("activation", "gelu_exact")
        model = {"name": "gpt", **found, "num_heads": heads, **biases, "activation": activation, "tied_head": tied}
        model["norm_epsilon"] = settings.epsilon(source, "layer_norm_epsilon", 1e-5)
        return Reading(
            model=model,
            rows=NANOGPT_NAMES.rows(found["depth"], heads, tied=tied, **biases),
            ignored=(MASKS, TIED) if tied else (MASKS,),
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
            notes=() if stated else (f"activation {activation}: nanoGPT's of 2023 and later; before, gelu_tanh",),
        )
