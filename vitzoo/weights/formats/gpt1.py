"""GPT-1 as transformers keeps it (`openai-gpt`): GPT-2's blocks with norms after each part, under other names."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.gpt import GPTConfig
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import gpt_rows, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.gpt_rows import Names
from vitzoo.weights.rows import Flat, Ignored, write_rows
from vitzoo.weights.tokenizers import tokenizer_beside, tokenizer_files

ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
"""Of `config.json`; `gelu` is the tanh form here, unlike anywhere else."""
PLACES = Ignored(r"(transformer\.)?position_ids", "0, 1, 2 ..., not weights")


class GPT1:
    """Of `OpenAIGPTLMHeadModel` and `OpenAIGPTModel`."""

    name = "openai-gpt"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By the names of its two tables."""
        prefix = gpt_rows.prefix_of(source, "tokens_embed.weight")
        return {f"{prefix}tokens_embed.weight", f"{prefix}positions_embed.weight"} <= set(source.tensors)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        names = _names(gpt_rows.prefix_of(source, "tokens_embed.weight"))
        found = gpt_rows.shapes(source, names)
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = gpt_rows.is_tied(source, f"{names.prefix}tokens_embed.weight")
        model = {
            "name": "gpt",
            **found,
            "num_heads": heads,
            "pre_norm": False,
            "activation": settings.named(source, "afn", "gelu", ACTIVATIONS),
            "norm_epsilon": settings.epsilon(source, "layer_norm_epsilon", 1e-5),
            "tied_head": tied,
            **settings.shares(source, gpt_rows.DROPOUTS),
        }
        ignored = (gpt_rows.MASKS, PLACES)
        return Reading(
            model=model,
            rows=names.rows(found["depth"], heads, tied=tied),
            ignored=(*ignored, gpt_rows.TIED) if tied else ignored,
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
        )

    def write(self, config: GPTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`."""
        gpt_rows.checked(config, "GPT-1's format", pre_norm=False)
        settings.must_be(config, {"mlp_dim": 4 * config.width}, "GPT-1's format")
        content = {
            "architectures": ["OpenAIGPTLMHeadModel"],
            "model_type": "openai-gpt",
            **gpt_rows.written(config, tokenizer),
            "afn": settings.theirs_of("activation", config.activation, ACTIVATIONS, "GPT-1's format"),
        }
        rows = _names(gpt_rows.PREFIX).rows(config.depth, config.num_heads, tied=config.tied_head)
        params = gpt_rows.without_added_ids(config, params)
        return Writing(write_rows(rows, params), content, tokenizer_files(tokenizer))


def _names(prefix: str) -> Names:
    return Names(prefix, "tokens_embed", "positions_embed", last_norm=None)
