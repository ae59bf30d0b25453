"""A GPT that reads what a text begins with in both directions: who sees whom, packing, gradients, writing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.decoding.generate import generate
from vitzoo.models.gpt import GPT, GPTConfig
from vitzoo.models.text import self_mask
from vitzoo.nn import paths, state
from vitzoo.nn.execution import Execution
from vitzoo.objectives.language_modelling import PrefixLanguageModelling
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.processes import place_all
from vitzoo.parallel.sharding import param_shardings, put, rules_of

LENGTH = 14
CONFIG = GPTConfig(
    vocabulary_size=40, width=16, num_heads=2, mlp_dim=24, depth=2, context_length=LENGTH, prefix_lm=True
)
TEXTS = {"first": (np.array([5, 9, 7, 4, 8]), 3), "second": (np.arange(5) + 20, 2)}
"""Tokens, and how many of them are the prefix; the last token is only said."""

PACKED = (["second", "first"], [])


def row_of(*names):
    """Texts packed into a row of LENGTH."""
    row = {name: np.zeros(LENGTH, np.int32) for name in ("tokens", "targets", "tokens_segments", "tokens_positions")}
    row |= {
        "target_weights": np.zeros(LENGTH, np.float32),
        "tokens_prefix": np.zeros(LENGTH, bool),
        "example_weight": np.float32(1),
    }
    end = 0
    for segment, name in enumerate(names, 1):
        ids, prefix = TEXTS[name]
        places = np.arange(len(ids) - 1)
        at = slice(end, end := end + len(places))
        row["tokens"][at], row["targets"][at] = ids[:-1], ids[1:]
        row["tokens_segments"][at], row["tokens_positions"][at] = segment, places
        row["tokens_prefix"][at], row["target_weights"][at] = places < prefix, places >= prefix - 1
    return row


def batch_of(*rows, length=LENGTH):
    made = [row_of(*names) for names in rows]
    stacked = {name: np.stack([row[name] for row in made]) for name in made[0]}
    return {name: value[:, :length] if value.ndim == 2 else value for name, value in stacked.items()}


class Tiny:
    """A model with random parameters that all count."""

    def __init__(self, custom_gradient=True, config=CONFIG):
        execution, draw = Execution(custom_gradient=custom_gradient), np.random.default_rng(0)
        self.graph, shapes = state.abstract(lambda rngs: GPT(config, rngs=rngs, execution=execution))
        flat = {path: 0.3 * draw.normal(size=leaf.shape) for path, leaf in paths.flatten(shapes).items()}
        self.params = paths.unflatten({path: value.astype(np.float32) for path, value in flat.items()})
        objective = PrefixLanguageModelling()

        def loss(params, batch):
            sums, _, _ = objective.sums(state.merge(self.graph, params), batch)
            return sums["tokens"]

        quickly = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
        self.learn = quickly(jax.value_and_grad(loss))
        self.see = quickly(lambda params, batch: state.merge(self.graph, params).features(**batch))

    def merged(self):
        return state.merge(self.graph, self.params)

    def gradients(self, batch):
        loss, gradients = self.learn(self.params, batch)
        return float(loss), paths.flatten(gradients)

    def features(self, tokens, prefix):
        """Of one text, of which so many tokens are the prefix."""
        tokens = np.asarray(tokens, np.int32)[None]
        inside = np.arange(tokens.shape[1])[None] < prefix
        return {
            name: np.asarray(value[0])
            for name, value in self.see(self.params, {"tokens": tokens, "tokens_prefix": inside}).items()
        }


@pytest.fixture(scope="module")
def tiny():
    return Tiny()


def test_each_text_of_a_row_has_a_prefix_of_its_own():
    tokens, segments = np.zeros((1, 6), np.int32), jnp.array([[1, 1, 1, 2, 2, 0]])
    prefix = jnp.array([[True, True, False, True, False, False]])
    seen = np.asarray(self_mask(tokens, segments, causal=True, prefix=prefix))[0, 0].astype(int)
    expected = [
        [1, 1, 0, 0, 0, 0],  # sees the token after it
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],  # and of another text nothing
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.gate
def test_loss_and_gradients_are_the_same_alone_padded_and_packed(tiny):
    loss, right = tiny.gradients(batch_of(["first"], ["second"], length=4))
    padded = tiny.gradients(batch_of(["first"], ["second"]))
    packed = tiny.gradients(batch_of(*PACKED))
    for name, (other, gradients) in {"padded": padded, "packed": packed}.items():
        assert other == pytest.approx(loss, rel=1e-5), name
        for path, gradient in gradients.items():
            limit = 1e-5 * max(1, abs(right[path]).max())
            np.testing.assert_allclose(gradient, right[path], atol=limit, err_msg=f"{name}: {path}")


@pytest.mark.slow
def test_both_derivatives_and_a_mesh_give_the_same(tiny):
    batch = batch_of(*PACKED)
    loss, gradients = tiny.gradients(batch)
    plain_loss, plain = Tiny(custom_gradient=False).gradients(batch)
    mesh = make_mesh("data:2,tensor:2", jax.devices()[:4])
    placed = place_all(tiny.params, param_shardings(jax.eval_shape(lambda: tiny.params), rules_of(GPT), mesh))
    spread_loss, spread = tiny.learn(placed, put(batch, mesh))
    assert [plain_loss, float(spread_loss)] == pytest.approx([loss] * 2, rel=1e-5)
    for others in (plain, paths.flatten(spread)):
        for path, gradient in gradients.items():
            np.testing.assert_allclose(others[path], gradient, atol=1e-5 * max(1, abs(gradient).max()), err_msg=path)


def test_without_a_prefix_or_with_one_token_of_it_the_model_is_causal(tiny):
    tokens = np.arange(LENGTH) + 3
    causal = np.asarray(tiny.see(tiny.params, {"tokens": tokens[None].astype(np.int32)})["logits"][0])
    for prefix in (0, 1):
        np.testing.assert_allclose(tiny.features(tokens, prefix)["logits"], causal, atol=1e-6)
    assert abs(tiny.features(tokens, 2)["logits"] - causal).max() > 1e-3


def test_a_change_reaches_back_within_the_prefix_and_no_further(tiny):
    tokens = np.arange(LENGTH) + 3
    before = tiny.features(tokens, 4)["tokens"]
    inside, behind = tokens.copy(), tokens.copy()
    inside[3], behind[5] = 33, 33
    assert (abs(tiny.features(inside, 4)["tokens"] - before).max(1) > 1e-3).all()
    changed = abs(tiny.features(behind, 4)["tokens"] - before).max(1)
    assert (changed[:5] == 0).all()
    assert (changed[5:] > 1e-3).all()


@pytest.fixture(scope="module")
def written(tiny):
    """What follows three prompts of other lengths, written together."""
    model, lengths = tiny.merged(), [6, 2, 4]
    prompts = np.random.default_rng(1).integers(3, 40, size=(3, 6))
    how = {"max_new_tokens": 6, "temperature": 0.0}
    return model, prompts, lengths, how, generate(model, prompts, lengths, **how).ids


@pytest.mark.slow
def test_what_is_written_with_a_cache_is_what_the_whole_text_says(tiny, written):
    _, prompts, lengths, how, ids = written
    causal = []
    for prompt, length, right in zip(prompts, lengths, ids, strict=True):
        text = prompt[:length].tolist()
        for _ in range(how["max_new_tokens"]):
            filled = text + [0] * (LENGTH - len(text))  # what stands behind is not seen
            text.append(int(tiny.features(filled, length)["logits"][len(text) - 1].argmax()))
        assert text[length:] == right.tolist()
        causal.append(tiny.features(filled, 0)["logits"][length - 1].argmax())
    assert causal != ids[:, 0].tolist()


def test_a_prompt_is_continued_in_a_batch_as_alone(written):
    model, prompts, lengths, how, ids = written
    alone = generate(model, prompts[1:2, : lengths[1]], **how)
    assert alone.ids[0].tolist() == ids[1].tolist()
