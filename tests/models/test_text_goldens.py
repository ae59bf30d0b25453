"""The same numbers as transformers' GPT-2, GPT-1, T5 and BERT, and as torch's Transformer with the paper's norms.

The files are made by scripts/make_text_goldens.py; their beams are for the tests of generation.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import peer_names
import pytest

from vitzoo.models.bert import BERT, BERTConfig
from vitzoo.models.gpt import GPT, GPTConfig
from vitzoo.models.t5 import T5, T5Config
from vitzoo.models.transformer import Transformer, TransformerConfig
from vitzoo.nn import paths, state
from vitzoo.nn.execution import Execution

FOLDER = pathlib.Path(__file__).parents[1] / "goldens"
HEADS = 2
SIZES = {"vocabulary_size": 60, "width": 16, "num_heads": HEADS, "mlp_dim": 24}
T5_SIZES = {**SIZES, "encoder_depth": 2, "decoder_depth": 2, "head_dim": 6, "buckets": 8, "max_distance": 7}
GPT1 = {**SIZES, "mlp_dim": 64, "context_length": 12, "pre_norm": False}
V1_1 = {**T5_SIZES, "activation": "gelu_tanh", "gated_mlp": True, "tied_head": False}
CASES = {
    "gpt2": (GPT, GPTConfig(depth=2, context_length=24, **SIZES), peer_names.from_gpt2),
    "gpt1": (GPT, GPTConfig(depth=2, **GPT1), peer_names.from_gpt1),
    "t5": (T5, T5Config(**T5_SIZES), peer_names.from_t5),
    "t5_v1_1": (T5, T5Config(**V1_1), peer_names.from_t5),
    "bert": (BERT, BERTConfig(depth=2, context_length=12, **SIZES), peer_names.from_bert),
    "transformer": (Transformer, TransformerConfig(depth=2, **SIZES), peer_names.from_torch),
}
INPUTS = ("tokens", "source", "tokens_segments", "source_segments", "tokens_types")


class Golden:
    """A peer's recorded values, its parameters and gradients under our names, and our model."""

    def __init__(self, case, custom_gradient=False):
        model, config, convert = CASES[case]
        with np.load(FOLDER / f"text_{case}.npz") as file:
            self.known = dict(file)
        self.params, self.gradients = (convert(self._under(kind), HEADS) for kind in ("parameter/", "gradient/"))
        self.graph, self.shapes = state.abstract(
            lambda rngs: model(config, rngs=rngs, execution=Execution(custom_gradient=custom_gradient))
        )
        self.inputs = {name: self.known[name] for name in INPUTS if name in self.known}

    def _under(self, kind):
        return {name.removeprefix(kind): value for name, value in self.known.items() if name.startswith(kind)}


def score(logits, targets):
    """The mean loss of the targets that aren't -100."""
    each = -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    return (each * (targets >= 0)).sum() / (targets >= 0).sum()


def compiled(function):
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@pytest.mark.parametrize(
    ("case", "custom_gradient"),
    [
        ("gpt2", True),
        pytest.param("gpt1", False, marks=pytest.mark.slow),
        pytest.param("t5", False, marks=pytest.mark.slow),  # its logits are compared in tests/weights too
        pytest.param("t5_v1_1", True, marks=pytest.mark.slow),
        ("bert", True),
        ("transformer", False),
    ],
)
def test_logits_loss_and_every_gradient_are_the_peers(case, custom_gradient):
    golden = Golden(case, custom_gradient)
    known = golden.known
    jax.tree.map(lambda leaf, shape: np.testing.assert_equal(leaf.shape, shape.shape), golden.params, golden.shapes)

    def loss(params, inputs):
        model = state.merge(golden.graph, params)
        if case != "bert":
            logits = model(**inputs)
            return score(logits, known["targets"]), {"logits": logits}
        x = model.encode(**inputs)
        made = {"logits": model.masked_logits(x), "next_sentence_logits": model.next_sentence_logits(x)}
        made |= {"pooled": model.pooled(x)}
        both = score(made["logits"], known["targets"]) + score(made["next_sentence_logits"], known["next_sentence"])
        return both, made

    (value, made), ours = compiled(jax.value_and_grad(loss, has_aux=True))(golden.params, golden.inputs)
    real = golden.inputs["tokens_segments"] > 0  # what stands in padding is nobody's business
    np.testing.assert_allclose(made["logits"][real], known["logits"][real], atol=1e-5)
    for name in made.keys() - {"logits"}:
        np.testing.assert_allclose(made[name], known[name], atol=1e-5, err_msg=name)
    np.testing.assert_allclose(value, known["loss"], atol=1e-5)
    ours, theirs = paths.flatten(ours), paths.flatten(golden.gradients)
    assert ours.keys() == theirs.keys()
    for path, right in theirs.items():
        np.testing.assert_allclose(ours[path], right, atol=1e-5 * max(1, abs(right).max()), err_msg=path)


@pytest.mark.gate
@pytest.mark.parametrize("case", ["gpt2", "t5", pytest.param("t5_v1_1", marks=pytest.mark.slow)])
def test_greedy_decoding_of_prompts_of_different_lengths_gives_what_the_peer_gives_each_alone(case):
    golden = Golden(case)
    prompts = [golden.known[f"prompt_{index}"] for index in range(3)]
    rows = np.stack([np.pad(prompt, (0, 5 - len(prompt))) for prompt in prompts])
    ids = rows if case == "gpt2" else np.zeros((3, 1), np.int32)
    lengths = np.array([len(prompt) for prompt in prompts]) if case == "gpt2" else np.ones(3, int)
    segments = np.stack([np.arange(5) < len(prompt) for prompt in prompts]).astype(np.int32)

    @compiled
    def begin(params):
        model = state.merge(golden.graph, params)
        return model.begin(3, 17) if case == "gpt2" else model.begin(model.encode(rows, segments), 17)

    @compiled
    def extend(params, ids, positions, cache):
        more = {} if case == "gpt2" else {"source_segments": segments}
        return state.merge(golden.graph, params).extend(ids, positions, cache, **more)

    logits, cache = extend(golden.params, ids, np.arange(ids.shape[1])[None].repeat(3, 0), begin(golden.params))
    best = np.asarray(logits).argmax(-1)[np.arange(3), lengths - 1]
    results = [list(row[:length]) for row, length in zip(ids, lengths, strict=True)]
    for step in range(12):
        for result, new in zip(results, best, strict=True):
            result.append(new)
        logits, cache = extend(golden.params, best[:, None], (lengths + step)[:, None], cache)
        best = np.asarray(logits).argmax(-1)[:, 0]
    for index, result in enumerate(results):
        right = golden.known[f"greedy_{index}"]
        np.testing.assert_array_equal(result[: len(right)], right)
        assert len(right) == lengths[index] + 12 or right[-1] == golden.known["end"]
