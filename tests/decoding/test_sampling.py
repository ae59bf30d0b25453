"""How a next token is drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.decoding.generate import how_of
from vitzoo.decoding.sampling import NEVER, Sampling, best, draw, nucleus

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
