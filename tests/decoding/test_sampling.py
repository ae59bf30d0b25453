"""How a next token is drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.decoding.generate import how_of
from vitzoo.decoding.sampling import NEVER, Sampling, best, draw, nucleus, prompt_keys
from vitzoo.errors import UserError

LOGITS = jnp.log(jnp.array([[0.5, 0.25, 0.15, 0.1]]))
NOTHING = jnp.zeros((1, 4), bool)


def drawn(how, logits=LOGITS, seen=NOTHING, count=2000):
    keys = jax.random.split(jax.random.key(0), count)
    ids = draw(jnp.repeat(logits, count, 0), jnp.repeat(seen, count, 0), keys, how)
    return np.bincount(np.asarray(ids), minlength=logits.shape[1]) / count


def test_tokens_come_as_often_as_they_are_probable():
    np.testing.assert_allclose(drawn(Sampling()), [0.5, 0.25, 0.15, 0.1], atol=0.045)  # four deviations


def test_temperature_sharpens_and_zero_takes_the_most_probable():
    sharp = np.array([0.25, 0.0625, 0.0225, 0.01])
    np.testing.assert_allclose(drawn(Sampling(temperature=0.5)), sharp / sharp.sum(), atol=0.045)
    assert drawn(Sampling(temperature=0.0))[0] == 1
    assert drawn(Sampling(top_k=1))[0] == 1


@pytest.mark.parametrize(("k", "left"), [(2, 2), (4, 4), (100, 4), (0, 4)])
def test_top_k_leaves_k_tokens_or_all(k, left):
    assert int((best(LOGITS, k) > NEVER).sum()) == left


@pytest.mark.parametrize(("p", "left"), [(0.4, 1), (0.5, 1), (0.6, 2), (0.76, 3), (1.0, 4)])
def test_top_p_leaves_the_fewest_that_reach_it(p, left):
    assert int((nucleus(LOGITS, p) > NEVER).sum()) == left


def test_a_repeated_token_is_penalised_whichever_sign_its_logit_has():
    seen = jnp.array([[True, True, False, False]])
    logits = jnp.array([[2.0, -2.0, 1.5, -3.0]])
    ids = draw(logits, seen, jax.random.split(jax.random.key(0), 1), Sampling(temperature=0.0, repetition_penalty=2.0))
    assert int(ids[0]) == 2  # 2 becomes 1, -2 becomes -4


@pytest.mark.parametrize(
    ("settings", "temperature"),
    [({}, 0.0), ({"repetition_penalty": 2.0}, 0.0), ({"top_k": 3}, None), ({"top_p": 0.9}, None)],
)
def test_an_encoder_decoder_answers_unless_draws_are_asked_for(settings, temperature):
    assert how_of(settings, encodes=True).temperature == temperature
    assert how_of(settings).temperature is None
    assert how_of(settings | {"temperature": 0.7}, encodes=True).temperature == 0.7


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-46, 1e-39, 1.2e-38, 1e-37])
@pytest.mark.parametrize("more", [{}, {"top_k": 3}, {"top_p": 0.9}], ids=str)
def test_the_smallest_temperatures_take_the_most_probable(temperature, more):
    for logits, best_id in (([-2.0, 30.0, 29.0, -50.0], 1), ([-9.0, -8.0, -7.5, -7.0], 3)):
        assert drawn(how_of(more | {"temperature": temperature}), jnp.array([logits]))[best_id] == 1


@pytest.mark.parametrize("temperature", [1e30, 3e38])
def test_the_largest_temperatures_make_all_that_may_be_written_alike_and_nothing_else(temperature):
    logits = jnp.array([[5.0, NEVER, -5.0, NEVER]])
    np.testing.assert_allclose(drawn(how_of({"temperature": temperature}), logits), [0.5, 0, 0.5, 0], atol=0.045)


@pytest.mark.parametrize("p", [5e-324, 1e-46, 1e-39, 0.3])
def test_the_smallest_top_p_takes_the_most_probable(p):
    logits = jnp.log(jnp.array([[0.1, 0.25, 0.15, 0.5]]))
    assert drawn(how_of({"top_p": p}), logits)[3] == 1


@pytest.mark.parametrize("more", [{"top_p": 1 - 1e-9}, {"top_p": 1.0}, {"top_k": 10**9}, {"top_k": 4}], ids=str)
def test_the_largest_top_p_and_top_k_leave_all(more):
    np.testing.assert_array_equal(drawn(how_of(more)), drawn(Sampling()))


@pytest.mark.parametrize("penalty", [1e-45, 3e38])
def test_no_penalty_makes_an_id_come_that_may_not_be_written(penalty):
    logits, seen = jnp.array([[0.0, 2.0, NEVER, -1.0]]), jnp.array([[True, True, True, False]])
    assert drawn(how_of({"repetition_penalty": penalty}), logits, seen)[2] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": float("nan")}, "temperature = nan: must be a finite number"),
        ({"temperature": float("inf")}, "temperature = inf: must be a finite number"),
        ({"temperature": -1e-9}, "temperature = -1e-09: must be"),
        ({"top_p": 0.0}, "top_p = 0.0: must be"),
        ({"top_p": 1.5}, "top_p = 1.5: must be"),
        ({"top_p": float("nan")}, "top_p = nan: must be a finite number"),
        ({"top_k": -1}, "top_k = -1: must be"),
        ({"top_k": 2.5}, "top_k = 2.5: must be an integer"),
        ({"repetition_penalty": 0.0}, "repetition_penalty = 0.0: must be"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        how_of(settings)


KEYS = jax.jit(prompt_keys)


def keys_of(prompts, seed=0, width=4):
    """A key for each prompt, as numbers."""
    filler = 7  # what stands behind a prompt is anything
    rows = np.array([prompt + [filler] * (width - len(prompt)) for prompt in prompts])
    found = KEYS(np.uint32(seed), jnp.asarray(rows), jnp.array([len(prompt) for prompt in prompts]))
    return [tuple(key) for key in jax.random.key_data(found).tolist()]


def test_a_prompts_draws_are_its_own_in_any_batch_order_and_width():
    prompts = [[1, 2], [1], [2, 1], [1, 2, 7], [1, 2], [7, 7, 7], [1, 2]]
    together = keys_of(prompts)
    assert len(set(together)) == len(prompts)  # equal prompts differ too
    assert [keys_of([prompt], width=9)[0] for prompt in prompts[:4]] == together[:4]
    assert keys_of(prompts[::-1])[::-1][1:4] == together[1:4]
    assert keys_of([[1, 2]] * 7)[:3] == [together[0], together[4], together[6]]  # by how many stand before
    assert not set(keys_of(prompts, seed=1)) & set(together)
