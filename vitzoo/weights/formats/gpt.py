"""GPT-1 (`openai-gpt`) and GPT-2 as transformers keeps them, and nanoGPT's `ckpt.pt`: one table of names.

GPT-2: `model.safetensors` or `pytorch_model.bin`, with or without `transformer.` before the names. Kernels are [in,
out]; the head is the embedding, or one of its own. GPT-1: GPT-2's blocks with norms after each part, under other names.
nanoGPT: GPT-2's names with kernels [out, in], biases or none, and the model's settings beside them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.models.base import Flat
from vitzoo.models.gpt import GPTConfig
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.registry import Given, Reading, Writing
from vitzoo.weights.formats.settings import agrees, flag, must_be, same
from vitzoo.weights.mapping import TRANSPOSED, Ignored, NameMap, block
from vitzoo.weights.tokenizers import special_ids, tokenizer_beside, tokenizer_files

PREFIX = "transformer."
HEAD, CLASSES = "lm_head.weight", "score.weight"
BLOCK = {
    "norm1": "ln_1",
    "attention/query|key|value": "attn.c_attn",
    "attention/out": "attn.c_proj",
    "norm2": "ln_2",
    "mlp/up": "mlp.c_fc",
    "mlp/down": "mlp.c_proj",
}
MASKS = Ignored(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)", "masks, not weights")
TIED = Ignored(r"lm_head\.weight", "the embedding again")
POSITION_IDS = Ignored(r"(transformer\.)?position_ids", "0, 1, 2 ..., not weights")
PLAIN: dict[str, JSON] = {"norm": "layer_norm", "positions": "learned", "gated_mlp": False, "qk_norm": False}
"""Settings of a GPT of ours that have one value in these formats."""
ONLY = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "multi_query": False,
}
"""Settings of `config.json` that have one value here. (`reorder_and_upcast_attn` says in which order and precision.)"""
SIZES = {"width": "n_embd", "depth": "n_layer", "context_length": "n_positions", "vocabulary_size": "vocab_size"}
"""Our name of a size → that of `config.json`."""
DROPOUTS = {"dropout": "resid_pdrop", "attention_dropout": "attn_pdrop"}
"""Of those of embedding and blocks, which are one here, the latter."""


class GPT2:
    """Of `GPT2LMHeadModel` and `GPT2Model`.

    Attributes:
        where: the format, for messages.
        tables: names of the embeddings of ids and of positions.
        marks: names by which it is recognised.
        transposed: kernels are torch's Linear [out, in]; otherwise [in, out].
        fixed: settings that have one value here.
        activation: the setting of `config.json`, and its value where the file doesn't say it.
        activations: its values → ours.
        ignored: names that are left aside.
        without_config: a note where there is no `config.json`.
        architecture: the class in transformers.
    """

    name: ClassVar[str] = "gpt2"
    model: ClassVar[str] = "gpt"
    where: ClassVar[str] = "GPT-2's format"
    tables: ClassVar[tuple[str, str]] = ("wte", "wpe")
    marks: ClassVar[tuple[str, ...]] = ("h.0.attn.c_attn.weight", "wpe.weight")
    transposed: ClassVar[bool] = False
    fixed: ClassVar[Mapping[str, JSON]] = {"pre_norm": True}
    activation: ClassVar[tuple[str, str]] = ("activation_function", "gelu_new")
    activations: ClassVar[Mapping[str, str]] = {"gelu_new": "gelu_tanh", **settings.GELUS}
    ignored: ClassVar[tuple[Ignored, ...]] = (MASKS,)
    without_config: ClassVar[str] = "taken for a GPT-2, with the tanh form of GELU and epsilon 1e-5"
    architecture: ClassVar[str] = "GPT2LMHeadModel"

    def recognises(self, source: Weights) -> bool:
        """By the first block's fused projection and the embedding of positions, or in GPT-1 both tables."""
        prefix = self._prefix(source)
        return all(f"{prefix}{mark}" in source.tensors for mark in self.marks)

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        settings.only(source, ONLY)
        if CLASSES in source.tensors:
            raise source.refused(f"has a head of classes of texts ({CLASSES}), which no GPT here has")
        prefix = self._prefix(source)
        found = self._sizes(source, prefix)
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = _is_tied(source, f"{prefix}{self.tables[0]}.weight")
        more, notes = self._more(source, prefix, given)
        model = {"name": "gpt", **found, "num_heads": heads, **self.fixed, **more, "tied_head": tied}
        model["norm_epsilon"] = settings.epsilon(source, "layer_norm_epsilon", 1e-5)
        return Reading(
            model=model | settings.shares(source, DROPOUTS),
            names=self._names(prefix),
            ignored=(*self.ignored, TIED) if tied else self.ignored,
            objective={"name": "causal_lm"},
            preprocessing={"length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
            notes=notes,
        )

    def write(
        self, config: GPTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
        """See `Writer.write`."""
        must_be(config, {**PLAIN, "bias": True, "norm_bias": True, **self.fixed}, self.where)
        if config.prefix_lm:
            must_be(config, {"prefix_lm": False}, self.where)
        if config.num_kv_heads != config.num_heads:
            must_be(config, {"num_kv_heads": None}, self.where)
        content = {
            "architectures": [self.architecture],
            "model_type": self.name,
            **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
            "n_head": config.num_heads,
            "layer_norm_epsilon": config.norm_epsilon,
            "tie_word_embeddings": config.tied_head,
            "embd_pdrop": config.dropout,
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            **special_ids(tokenizer, "bos", "eos", "pad"),
            **self._inner(config),
            self.activation[0]: settings.theirs_of("activation", config.activation, self.activations, self.where),
        }
        # without the rows that `vocabulary_multiple` adds for speed
        count = config.vocabulary_size
        cut: dict[str, Any] = {"embedding/table": np.s_[:count], "head/kernel": np.s_[:, :count]}
        params = {path: leaf[cut[path]] if path in cut else leaf for path, leaf in params.items()}
        return Writing(self._names(PREFIX).write(params), content, tokenizer_files(tokenizer))

    def _prefix(self, source: Weights) -> str:
        """What stands before the names of a file: `transformer.` or nothing."""
        return PREFIX if f"{PREFIX}{self.tables[0]}.weight" in source.tensors else ""

    def _names(self, prefix: str) -> NameMap:
        names = {
            "embedding": f"{prefix}{self.tables[0]}",
            "position_embedding": f"{prefix}{self.tables[1]}",
            **block("decoder/blocks/*", f"{prefix}h.{{i}}", BLOCK),
            "decoder/norm": f"{prefix}ln_f",
            "head": "lm_head",
        }
        head = {"head/kernel": TRANSPOSED}
        return NameMap(names, transposed=self.transposed, layouts=lambda path, shape: head.get(path))

    def _sizes(self, source: Weights, prefix: str) -> dict[str, Any]:
        """Fields of our Config that the shapes tell, which `config.json` may not contradict."""
        vocabulary, width = source.shape(f"{prefix}{self.tables[0]}.weight", 2)
        hidden = source.shape(f"{prefix}h.0.mlp.c_fc.weight", 2)
        found = {
            "vocabulary_size": vocabulary,
            "context_length": source.shape(f"{prefix}{self.tables[1]}.weight", 2)[0],
            "width": width,
            "depth": source.depth(f"{prefix}h."),
            "mlp_dim": hidden[0 if self.transposed else 1],
        }
        agrees(source, {theirs: found[ours] for ours, theirs in SIZES.items()} | {"n_inner": found["mlp_dim"]})
        return found

    def _more(self, source: Weights, prefix: str, given: Given) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Fields that differ between the formats, and notes."""
        without = not source.config and self.without_config
        notes = (f"there is no config.json: {self.without_config}",) if without else ()
        return {"activation": settings.named(source, *self.activation, self.activations)}, notes

    def _inner(self, config: GPTConfig) -> dict[str, Any]:
        """Settings of `config.json` for the MLP's size."""
        return {"n_inner": config.mlp_dim}


class GPT1(GPT2):
    """Of `OpenAIGPTLMHeadModel` and `OpenAIGPTModel`."""

    name = "openai-gpt"
    where = "GPT-1's format"
    tables = ("tokens_embed", "positions_embed")
    marks = ("tokens_embed.weight", "positions_embed.weight")
    fixed: ClassVar = {"pre_norm": False}
    activation = ("afn", "gelu")
    activations: ClassVar = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}  # not exact here
    ignored = (MASKS, POSITION_IDS)
    without_config = ""
    architecture = "OpenAIGPTLMHeadModel"

    def _inner(self, config: GPTConfig) -> dict[str, Any]:
        must_be(config, {"mlp_dim": 4 * config.width}, self.where)
        return {}


class NanoGPT(GPT2):
    """Read only. Its vocabulary is often 50,304: GPT-2's 50,257 ids, rounded up."""

    name = "nanogpt"
    transposed = True

    def recognises(self, source: Weights) -> bool:
        """By GPT-2's names, and `model_args` beside them or a fused projection that is [out, in]."""
        if not all(f"{PREFIX}{mark}" in source.tensors for mark in self.marks):
            return False
        shape = source.shape(f"{PREFIX}{self.marks[0]}")
        return "model_args" in source.besides or (len(shape) == 2 and shape[0] == 3 * shape[1])

    def read(self, source: Weights, given: Given) -> Reading:
        """See `Format.read`. Without `model_args` the number of heads must be given."""
        arguments = source.besides.get("model_args")
        if isinstance(arguments, Mapping):
            source = dataclasses.replace(source, config=arguments, config_name="model_args")
        return super().read(source, given)

    def _prefix(self, source: Weights) -> str:
        return PREFIX

    def _sizes(self, source: Weights, prefix: str) -> dict[str, Any]:
        found = super()._sizes(source, prefix)
        agrees(source, {"block_size": found["context_length"]})
        return found

    def _more(self, source: Weights, prefix: str, given: Given) -> tuple[dict[str, Any], tuple[str, ...]]:
        biases = {"bias": "h.0.attn.c_attn.bias", "norm_bias": "h.0.ln_1.bias"}
        found: dict[str, Any] = {field: f"{prefix}{name}" in source.tensors for field, name in biases.items()}
        stated = source.config.get("activation_function") is not None
        said = settings.named(source, "activation_function", "gelu", settings.GELUS)
        activation = said if stated else given.get("activation", "gelu_exact")
        notes = () if stated else (f"activation {activation}: nanoGPT's of 2023 and later; before, gelu_tanh",)
        return found | {"activation": activation}, notes


def _is_tied(source: Weights, embedding: str) -> bool:
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
