"""Published text models at full size with random weights: transformers writes, vitzoo reads, both compute.

Two environments, one model at a time:

    /tmp/peer/bin/python scripts/check_weights_text.py write FOLDER gpt2    # torch and transformers
    python scripts/check_weights_text.py read FOLDER                        # vitzoo

`read` prints the largest difference of the logits of real tokens, beside their largest absolute value.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

MODELS = ("gpt2", "t5-small", "t5-v1.1-small", "bert-base")
LENGTHS, VOCABULARY = (48, 31), 30_000


def write(folder: Path, name: str) -> None:
    """A model of the published size, with what it computes."""
    import torch
    import transformers as hf

    v1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    v1_1 |= {"d_model": 512, "d_ff": 1024, "num_heads": 6, "num_layers": 8}
    kinds: dict[str, Any] = {
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
        "t5-small": lambda: hf.T5ForConditionalGeneration(hf.T5Config(decoder_start_token_id=0)),
        "t5-v1.1-small": lambda: hf.T5ForConditionalGeneration(hf.T5Config(decoder_start_token_id=0, **v1_1)),
        "bert-base": lambda: hf.BertForPreTraining(hf.BertConfig()),
    }
    torch.manual_seed(0)
    model = kinds[name]().eval()
    if name == "t5-v1.1-small":  # the head of its own that a published file brings
        model.lm_head.weight = torch.nn.Parameter(0.05 * torch.randn(model.lm_head.weight.shape))
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases and norms, which begin at 0 and 1
            parameter.data += 0.1 * torch.randn(parameter.shape)
    segments = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    tokens = torch.randint(3, VOCABULARY, segments.shape) * segments
    more: dict[str, Any] = {"token_type_ids": segments * (torch.arange(48) > 9)} if name == "bert-base" else {}
    more |= {"decoder_input_ids": tokens.flip(0)} if name.startswith("t5") else {}
    with torch.no_grad():
        output = model(tokens, attention_mask=segments, **more)
    logits = output.prediction_logits if name == "bert-base" else output.logits
    model.save_pretrained(folder)
    given = {"tokens": tokens, "tokens_segments": segments, **more, "logits": logits}
    np.savez(folder / "expected.npz", **{key: value.numpy() for key, value in given.items()})
    print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters")


def read(folder: Path) -> None:
    """The largest difference of vitzoo's logits."""
    import jax
    import jax.numpy as jnp

    from vitzoo.config.assembly import assemble
    from vitzoo.config.model import ModelChoice
    from vitzoo.nn import paths, state
    from vitzoo.weights.files.open import open_weights_file
    from vitzoo.weights.formats.registry import recognise
    from vitzoo.weights.mapping import read_mapping

    source = open_weights_file(str(folder))
    form = recognise(source)
    reading = form.read(source, {})  # without a tokenizer, which random weights have no use for
    leaves, _ = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
    fields = {key: value for key, value in reading.model.items() if key != "name"}
    graph, _ = assemble(ModelChoice(reading.model["name"], "", fields)).abstract
    with np.load(folder / "expected.npz") as file:
        given = {name: jnp.asarray(file[name]) for name in file.files}

    def compute(params: Any) -> Any:
        model = state.merge(graph, params)
        if "decoder_input_ids" in given:
            return model(given["tokens"], given["decoder_input_ids"], source_segments=given["tokens_segments"])
        types = {"tokens_types": given["token_type_ids"]} if "token_type_ids" in given else {}
        return model(given["tokens"], tokens_segments=given["tokens_segments"], **types)

    logits = np.asarray(jax.jit(compute)(paths.unflatten({path: jnp.asarray(leaf) for path, leaf in leaves.items()})))
    real = np.ones(logits.shape[:2], bool) if "decoder_input_ids" in given else np.asarray(given["tokens_segments"]) > 0
    wanted = np.asarray(given["logits"])
    difference, largest = np.abs(logits - wanted)[real].max(), np.abs(wanted)[real].max()
    print(f"{form.name}: largest difference {difference:.2e}, largest logit {largest:.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"] and len(sys.argv) == 4 and sys.argv[3] in MODELS:
        write(Path(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["read"] and len(sys.argv) == 3:
        read(Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
