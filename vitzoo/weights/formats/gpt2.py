"""GPT-2 as transformers keeps it: `model.safetensors` or `pytorch_model.bin`, with or without `transformer.` before
the names. Kernels are [in, out]; the head is the embedding, or one of its own."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.gpt import GPTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import gpt_rows, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.gpt_rows import Names
from vitzoo.weights.rows import Flat, write_rows
from vitzoo.weights.tokenizers import tokenizer_beside, tokenizer_files

ONLY = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
CLASSES = "score.weight"
WITHOUT_CONFIG = "there is no config.json: taken for a GPT-2, with the tanh form of GELU and epsilon 1e-5"
"""Settings of `config.json` that have one value here. (`reorder_and_upcast_attn` says in which order and precision.)"""


class GPT2:
    """Of `GPT2LMHeadModel` and `GPT2Model`."""

    name = "gpt2"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By the first block's fused projection and the embedding of places."""
        prefix = gpt_rows.prefix_of(source, "wte.weight")
        return f"{prefix}h.0.attn.c_attn.weight" in source.tensors and f"{prefix}wpe.weight" in source.tensors

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        settings.only(source, ONLY)
        if CLASSES in source.tensors:
            raise source.refused(f"has a head of classes of texts ({CLASSES}), which no GPT here has")
        names = _names(gpt_rows.prefix_of(source, "wte.weight"))
        found = gpt_rows.shapes(source, names)
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = gpt_rows.is_tied(source, f"{names.prefix}wte.weight")
        model = {
            "name": "gpt",
            **found,
            "num_heads": heads,
            "activation": settings.named(source, "activation_function", "gelu_new", settings.GELUS),
            "norm_epsilon": settings.epsilon(source, "layer_norm_epsilon", 1e-5),
            "tied_head": tied,
            **settings.shares(source, gpt_rows.DROPOUTS),
        }
        return Reading(
            model=model,
            rows=names.rows(found["depth"], heads, tied=tied),
            ignored=(gpt_rows.MASKS, gpt_rows.TIED) if tied else (gpt_rows.MASKS,),
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
            notes=() if source.config else (WITHOUT_CONFIG,),
        )

    def write(self, config: GPTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        gpt_rows.checked(config, "GPT-2's format", pre_norm=True)
        content = {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            **gpt_rows.written(config, tokenizer),
            "n_inner": config.mlp_dim,
            "activation_function": settings.theirs_of("activation", config.activation, WRITTEN, "GPT-2's format"),
        }
        rows = _names(gpt_rows.PREFIX).rows(config.depth, config.num_heads, tied=config.tied_head)
        params = gpt_rows.without_added_ids(config, params)
        return Writing(write_rows(rows, params), content, tokenizer_files(tokenizer))


WRITTEN = {"gelu_new": "gelu_tanh", **settings.GELUS}


def _names(prefix: str) -> Names:
    return Names(prefix, "wte", "wpe")
