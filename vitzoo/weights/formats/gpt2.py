"""GPT-2 as transformers keeps it: `model.safetensors` or `pytorch_model.bin`, with or without `transformer.` before
the names. Kernels are [in, out]; the head is the embedding."""

from collections.abc import Mapping
from typing import Any

from vitzoo.errors import Refused
from vitzoo.models.gpt import GPTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.rows import Flat, Ignored, Row, dense, fused_projections, layers, norm, table, write_rows
from vitzoo.weights.tokenizers import tokenizer_beside, tokenizer_files

PREFIX = "transformer."
ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu_exact", "relu": "relu"}
IGNORED = (Ignored(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)", "masks, not weights"),)
PLAIN = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False}
"""Settings of its `config.json` that have one value here."""


class GPT2:
    """Of `GPT2LMHeadModel` and `GPT2Model`."""

    name = "gpt2"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By the first block's fused projection and the embedding of places."""
        prefix = _prefix(source)
        return f"{prefix}h.0.attn.c_attn.weight" in source.tensors and f"{prefix}wpe.weight" in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        prefix, config = _prefix(source), source.config
        for name, value in PLAIN.items():
            if config.get(name, value) != value:
                raise source.refused(f"config.json has {name} = {config[name]}; here it can only be {value}")
        vocabulary_size, width = source.shape(f"{prefix}wte.weight")
        heads = given.get("num_heads", config.get("n_head"))
        if heads is None:
            raise source.refused("num_heads can't be known without config.json; give it (GPT-2: width / 64)")
        activation = config.get("activation_function", "gelu_new")
        if activation not in ACTIVATIONS:
            raise source.refused(f"config.json has activation_function = {activation}; known: {', '.join(ACTIVATIONS)}")
        model = {
            "name": "gpt",
            "vocabulary_size": vocabulary_size,
            "context_length": source.shape(f"{prefix}wpe.weight")[0],
            "width": width,
            "depth": source.depth(f"{prefix}h."),
            "num_heads": heads,
            "mlp_dim": source.shape(f"{prefix}h.0.mlp.c_fc.weight")[1],
            "activation": ACTIVATIONS[activation],
            "norm_epsilon": config.get("layer_norm_epsilon", 1e-5),
            "tied_head": "lm_head.weight" not in source.tensors or config.get("tie_word_embeddings", True),
        }
        tied = Ignored(r"lm_head\.weight", "the embedding again")
        return Reading(
            model=model,
            rows=tuple(_rows(prefix, model["depth"], heads, model["tied_head"])),
            ignored=(*IGNORED, tied) if model["tied_head"] else IGNORED,
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": model["context_length"]},
            tokenizer=tokenizer_beside(source.folder, vocabulary_size),
        )

    def write(self, config: GPTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        plain = {
            "pre_norm": True,
            "norm": "layer_norm",
            "positions": "learned",
            "gated_mlp": False,
            "qk_norm": False,
            "bias": True,
        }
        for field, value in plain.items():
            if getattr(config, field) != value:
                raise Refused(f"model.{field}", getattr(config, field), f"has no place in GPT-2's format ({value} has)")
        if config.num_kv_heads not in (None, config.num_heads):
            raise Refused("model.num_kv_heads", config.num_kv_heads, "has no place in GPT-2's format")
        names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
        if config.activation not in names:
            raise Refused("model.activation", config.activation, "has no place in GPT-2's format")
        rows = _rows(PREFIX, config.depth, config.num_heads, config.tied_head)
        content = {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": config.vocabulary_size,
            "n_positions": config.context_length,
            "n_embd": config.width,
            "n_layer": config.depth,
            "n_head": config.num_heads,
            "n_inner": config.mlp_dim,
            "activation_function": names[config.activation],
            "layer_norm_epsilon": config.norm_epsilon,
            "tie_word_embeddings": config.tied_head,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": config.attention_dropout,
        }
        params = {path: leaf[: config.vocabulary_size] if path in VOCABULARY else leaf for path, leaf in params.items()}
        return Writing(write_rows(rows, params), content, tokenizer_files(tokenizer))


VOCABULARY = ("embedding/table",)
"""Leaves of which rows may be added for speed; those don't go out."""


def _prefix(source: Source) -> str:
    return PREFIX if f"{PREFIX}wte.weight" in source.tensors else ""


def _rows(prefix: str, depth: int, heads: int, tied: bool) -> list[Row]:
    block, ours = f"{prefix}h.{{i}}", "decoder/blocks"
    together = (f"{block}.attn.c_attn.weight", f"{block}.attn.c_attn.bias")
    rows = [
        *table(f"{prefix}wte", "embedding"),
        *table(f"{prefix}wpe", "position_embedding"),
        *layers(
            depth,
            [
                *norm(f"{block}.ln_1", f"{ours}/norm1"),
                *fused_projections(together, f"{block}.attn.c_proj", f"{ours}/attention", heads, transposed=False),
                *norm(f"{block}.ln_2", f"{ours}/norm2"),
                *dense(f"{block}.mlp.c_fc", f"{ours}/mlp/up", transposed=False),
                *dense(f"{block}.mlp.c_proj", f"{ours}/mlp/down", transposed=False),
            ],
        ),
        *norm(f"{prefix}ln_f", "decoder/norm"),
    ]
    return rows if tied else [*rows, *dense("lm_head", "head", bias=False)]
