"""What GPT-1, GPT-2 and nanoGPT share: the names of their blocks, and what of a GPT of ours these can hold."""

import dataclasses
from typing import Any

import numpy as np

from vitzoo.models.gpt import GPTConfig
from vitzoo.weights.common_rows import dense, fused_projections, layers, norm, table
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.settings import agrees, flag, must_be, same
from vitzoo.weights.rows import Flat, Ignored, Row
from vitzoo.weights.tokenizers import special_ids

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


def shapes(source: Source, names: Names) -> dict[str, Any]:
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
