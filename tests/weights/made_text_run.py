"""A run folder with a checkpoint of a tiny language model whose weights are random but not zero, and its config."""

import json

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.store import Store
from vitzoo.data.processors.text import described_text
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.nn import state
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.registry import find
from vitzoo.schema import to_json

TOKENIZER, MASKING = ByteTokenizer(), ByteTokenizer(masking=True)
SIZES = {"vocabulary_size": 272, "width": 16, "num_heads": 2, "mlp_dim": 24}  # a few ids beyond the tokenizer's
MODELS = {
    "gpt": {"depth": 1, "context_length": 64, **SIZES},
    "t5": {"encoder_depth": 1, "decoder_depth": 1, "head_dim": 8, **SIZES},
    "bert": {"depth": 1, "context_length": 64, "dropout": 0.0, "attention_dropout": 0.0, **SIZES},
}
OBJECTIVES = {"gpt": {"name": "causal_lm", "rows": "answers"}, "t5": {"name": "seq2seq", "rows": "pairs"}}


def made_model(name, seed=0, scale=0.5, **changes):
    """The config, the structure and random parameters of a tiny model."""
    model = find("model", name)
    config = model.Config(**MODELS[name] | changes)
    graph, shapes = state.abstract(lambda rngs: model(config, rngs=rngs))
    random = np.random.default_rng(seed)
    drawn = {path: scale * random.normal(size=leaf.shape) for path, leaf in flatten(shapes).items()}
    return config, graph, unflatten({path: value.astype(np.float32) for path, value in drawn.items()})


def make_text_run(
    folder, name, data, *, text=None, evaluate=None, objective=None, classes=None, tokenizer=None, **changes
):
    """A run at step 3 of `gpt`, `t5` or `bert` (with `objective`, its name or settings, and `head`) on `data`, a name;
    its parameters.
    """
    folder.mkdir(exist_ok=True)
    config, _, params = made_model(name, **changes)
    objective = {"name": objective} if isinstance(objective, str) else objective or OBJECTIVES[name]
    tokenizer = tokenizer or (MASKING if name == "bert" else TOKENIZER)
    saved = {"params": jax.tree.map(jnp.asarray, params), "optimizer": {"count": jnp.int32(3)}}
    saved |= {"step": jnp.int32(3), "updates": jnp.int32(3), "skipped": jnp.int32(0)}
    text = Text(**{"length": 48, "source_length": 48, **(text or {})})
    model = {"name": name, "variant": "", **to_json(config)}
    content = metadata.describe(
        version="0",
        model=model,
        objective=objective,
        inputs={"tokens": described_text(text, tokenizer.save(folder / "tokenizer"))},
        classes=classes,
        data={"name": data, "split": "train", "fingerprint": "f"},
        step=3,
        examples=12,
    )
    store = Store(folder / "checkpoints")
    store.save(3, saved, content, {}, folder / "tokenizer")
    store.close()
    values = {"total_steps": 3, "model": model, "objective": objective, "data": {"name": data, "batch_size": 8}}
    values |= {"inputs": {"tokens": to_json(text)}, "evaluate": evaluate or {}}
    (folder / "config.json").write_text(json.dumps(values))
    return params
