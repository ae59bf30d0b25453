"""Bits per byte of models whose answer is known: what n equally probable tokens say is log2(n) bits a token."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.evaluation.language_modelling import Perplexity


def found(vocabulary, byte_lengths, targets, weights, counted=None, favour=0.0):
    """The metrics of a model that gives each token the same logit, but the right one `favour` more."""
    targets, weights = np.asarray(targets), np.asarray(weights, np.float32)
    evaluator = Perplexity("test", np.asarray(byte_lengths), lambda: counted)

    def model(tokens, **how):
        return favour * (jnp.arange(vocabulary) == jnp.asarray(targets)[..., None]).astype(jnp.float32)

    positions = np.broadcast_to(np.arange(targets.shape[1]), targets.shape)
    batch = {"tokens": targets, "tokens_positions": positions, "targets": targets, "target_weights": weights}
    batch["example_weight"] = np.ones(len(targets))
    rows = evaluator.outputs(model, {name: jnp.asarray(value) for name, value in batch.items()})
    return evaluator.metrics({name: np.asarray(value) for name, value in rows.items()})


@pytest.mark.parametrize(("vocabulary", "bits"), [(256, 8), (16, 4), (2, 1)])
def test_equally_probable_bytes_take_as_many_bits_as_name_them(vocabulary, bits):
    targets = np.arange(12).reshape(3, 4) % vocabulary
    metrics = found(vocabulary, np.ones(vocabulary, int), targets, np.ones((3, 4)))
    assert metrics["bits_per_byte"] == pytest.approx(bits, rel=1e-6)
    assert metrics["loss"] == pytest.approx(bits * math.log(2), rel=1e-6)  # in nats
    assert metrics["perplexity"] == pytest.approx(vocabulary, rel=1e-5)


def test_tokens_of_several_bytes_share_their_bits_and_what_is_not_scored_has_none():
    lengths = [1, 2, 3, 4]
    # of tokens 0, 3, 1, 2 the third isn't scored: three times 2 bits over 1 + 4 + 3 bytes
    metrics = found(4, lengths, [[0, 3], [1, 2]], [[1, 1], [0, 1]])
    assert metrics["bits_per_byte"] == pytest.approx(3 * 2 / 8, rel=1e-6)
    assert metrics["tokens"] == 3
    # where the text itself was counted, its bytes are those that count
    metrics = found(4, lengths, [[0, 3], [1, 2]], [[1, 1], [0, 1]], counted=12)
    assert metrics["bits_per_byte"] == pytest.approx(3 * 2 / 12, rel=1e-6)


def test_a_probable_token_takes_few_bits():
    # of two tokens, the right one 3/4 probable: log2(4/3) bits
    metrics = found(2, [1, 1], [[0, 1, 1]], [[1, 1, 1]], favour=math.log(3))
    assert metrics["bits_per_byte"] == pytest.approx(math.log2(4 / 3), rel=1e-5)
