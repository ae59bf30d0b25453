"""nanoGPT's `ckpt.pt`: GPT-2's names with kernels [out, in], biases or none, and the model's settings beside them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import gpt_rows, settings
from vitzoo.weights.formats.base import Reading
from vitzoo.weights.formats.gpt2 import ONLY
from vitzoo.weights.formats.gpt_rows import PREFIX, Names
from vitzoo.weights.tokenizers import tokenizer_beside

NAMES = Names(PREFIX, "wte", "wpe", transposed=True)
FIRST = f"{PREFIX}h.0.attn.c_attn"


class NanoGPT:
    """Read only. Its vocabulary is often 50,304: GPT-2's 50,257 ids, rounded up."""

    name = "nanogpt"
    model = "gpt"

    def recognises(self, source: Source) -> bool:
        """By GPT-2's names, and `model_args` beside them or a fused projection that is [out, in]."""
        if f"{FIRST}.weight" not in source.tensors or f"{PREFIX}wpe.weight" not in source.tensors:
            return False
        shape = source.shape(f"{FIRST}.weight")
        return "model_args" in source.besides or (len(shape) == 2 and shape[0] == 3 * shape[1])

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `model_args` the number of heads must be given."""
        arguments = source.besides.get("model_args")
        if isinstance(arguments, Mapping):
            source = dataclasses.replace(source, config=arguments, config_name="model_args")
        settings.only(source, {**ONLY, "multi_query": False})
        found = gpt_rows.shapes(source, NAMES)
        settings.agrees(source, {"block_size": found["context_length"]})
        heads = settings.heads_of(source, "n_head", given, found["width"])
        tied = gpt_rows.is_tied(source, f"{PREFIX}wte.weight")
        biases = {"bias": f"{FIRST}.bias" in source.tensors, "norm_bias": f"{PREFIX}h.0.ln_1.bias" in source.tensors}
        stated = source.config.get("activation_function") is not None
        said = settings.named(source, "activation_function", "gelu", settings.GELUS)
        activation = said if stated else given.get("activation", "gelu_exact")
        model = {"name": "gpt", **found, "num_heads": heads, **biases, "activation": activation, "tied_head": tied}
        model["norm_epsilon"] = settings.epsilon(source, "layer_norm_epsilon", 1e-5)
        return Reading(
            model=model,
            rows=NAMES.rows(found["depth"], heads, tied=tied, **biases),
            ignored=(gpt_rows.MASKS, gpt_rows.TIED) if tied else (gpt_rows.MASKS,),
            objective={"name": "causal_lm"},
            preprocessing={"sequence_length": found["context_length"]},
            tokenizer=tokenizer_beside(source.folder, found["vocabulary_size"]),
            notes=() if stated else (f"activation {activation}: nanoGPT's of 2023 and later; before, gelu_tanh",),
        )
