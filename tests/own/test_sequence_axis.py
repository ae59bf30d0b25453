"""Long texts over several devices: the mesh axis `sequence` gives each a part of every sequence."""

import jax
import numpy as np
import pytest

from vitzoo.config import default, resolve
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import initialise
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put
from vitzoo.steps.state import create
from vitzoo.training import setup

STEPS, TOKENS = 4, 32
SIZES = dict(num_heads=2, mlp_dim=64, width=32)
MODELS = {
    "gpt": dict(name="gpt", depth=1, context_length=TOKENS, **SIZES),
    "bert": dict(name="bert", variant="tiny", depth=1, context_length=TOKENS, **SIZES),
    "t5": dict(name="t5", variant="v1.1-small", encoder_depth=1, decoder_depth=1, head_dim=16, **SIZES),
    "vit": dict(name="vit", patch_size=2, depth=1, pooling="gap", **SIZES),  # 16 patches of digits
    "vit_whole": dict(name="vit", patch_size=2, depth=1, **SIZES),  # 17 tokens, which four devices don't divide
}
OBJECTIVES = dict(gpt="causal_lm", bert="masked_lm", t5="seq2seq", vit="classification", vit_whole="classification")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{'the cat sees a bird and '[: 3 + i % 20]}{i}" for i in range(64)]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    pairs = "".join(f'{{"source": "{line}", "target": "{line[::-1]}"}}\n' for line in lines)
    (folder / "pairs.jsonl").write_text(pairs)
    return folder


def config_of(family, texts):
    config = default()
    config.total_steps = STEPS
    config.objective = dict(name=OBJECTIVES[family])
    config.model = dict(dropout=0.1, **MODELS[family])
    if family.startswith("vit"):
        config.data = dict(name="digits", split="train[:64]", batch_size=8)
    else:
        name = f"jsonl:{texts}/pairs.jsonl" if family == "t5" else f"text:{texts}/lines.txt"
        config.data = dict(name=name, split="train", batch_size=8, document="line")
        config.inputs.tokens.tokenizer = dict(kind="bytes", masking=family == "bert")
        config.inputs.tokens = dict(length=TOKENS, source_length=TOKENS)
    if family == "t5":
        config.model.vocabulary_size = None
    # the trace of SGD is, after the first step, the gradient itself
    config.optimizer = dict(name="sgd", learning_rate=0.1, momentum=0.9, grad_clip=0.0)
    return config


def arrays(tree):
    return {path: np.asarray(leaf) for path, leaf in flatten(tree).items()}


def trained(family, texts, spec):
    """Initial parameters, the first step's gradients, and every step's loss."""
    mesh = make_mesh(spec, jax.devices()[: 1 if spec == "data:1" else 8])
    task = setup.prepare(resolve(config_of(family, texts)), mesh)
    params = initialise(task.assembly, 0, task.shardings["params"])
    before = arrays(params)
    state = create(params, task.chain, 0.0, task.shardings, task.objective)
    losses, gradients, batches = [], {}, task.stream.iterate(0)
    for _ in range(STEPS):
        state, scalars = task.train_step(state, put(next(batches), mesh))
        losses.append(float(scalars["loss"]))
        gradients = gradients or arrays(state["optimizer"]["method"])
    task.stream.close()
    return before, gradients, losses


@pytest.mark.parametrize("family", [pytest.param(name, marks=[pytest.mark.slow] * (name != "gpt")) for name in MODELS])
def test_sequences_in_four_parts_train_as_whole_ones(family, texts):
    before, gradients, losses = trained(family, texts, "data:1")
    others = trained(family, texts, "data:2,sequence:4")
    assert [*before] == [*others[0]]
    assert all(others[0][path].tobytes() == leaf.tobytes() for path, leaf in before.items())
    assert len(gradients) == len(before)
    for path, gradient in gradients.items():
        if not path.endswith("key/bias"):  # its true gradient is zero: softmax doesn't see it
            np.testing.assert_allclose(others[1][path], gradient, atol=1e-5 * abs(gradient).max(), err_msg=path)
    assert others[2] == pytest.approx(losses, rel=1e-5)
