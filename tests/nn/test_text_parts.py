"""The parts that text adds: masks, vocabulary, distances, rotary positions, sinusoids, gated MLP, shared keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.nn import masks
from vitzoo.nn.attention import Attention, attention
from vitzoo.nn.embeddings import Embedding
from vitzoo.nn.mlp import MLP
from vitzoo.nn.positions import rotate, rotation, sinusoids
from vitzoo.nn.relative import DistanceBias


def test_the_look_ahead_mask_gives_the_worked_example_and_exact_zeros(once):
    scores = np.array(
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]], np.float32
    )
    query, value = scores[None, :, None, :], np.eye(4, dtype=np.float32)[None, :, None, :]
    _, weights = once(lambda: attention(query, value, value, mask=masks.causal(4), weights=True))()
    expected = [[1, 0, 0, 0], [0.3775, 0.6225, 0, 0], [0.2584, 0.3156, 0.4260, 0], [0.2144, 0.2619, 0.2619, 0.2619]]
    np.testing.assert_allclose(weights[0, 0], expected, atol=6e-5)
    assert (np.asarray(weights[0, 0])[np.triu_indices(4, 1)] == 0).all()


def test_logits_are_divided_by_the_root_of_the_size_of_a_head(once):
    """Scores 102 and 99 under d_k = 3 are 58.890 and 57.158, and weigh 0.8497 and 0.1503."""
    query = np.array([102.0, 99.0, 0.0], np.float32)[None, None, None]
    key = np.eye(3, dtype=np.float32)[None, :2, None]
    scaled = query * 3**-0.5
    np.testing.assert_allclose(scaled[0, 0, 0, :2], [58.890, 57.158], atol=1e-3)
    _, weights = once(lambda: attention(scaled, key, key, weights=True))()
    np.testing.assert_allclose(weights[0, 0, 0], [0.8497, 0.1503], atol=5e-5)


def test_texts_of_a_row_do_not_see_each_other_and_padding_sees_padding():
    seen = np.asarray(masks.same_segment(jnp.array([[1, 1, 2, 0]])))[0, 0]
    np.testing.assert_array_equal(seen, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert seen.any(1).all()


def test_a_prefix_is_seen_by_all_and_sees_itself():
    inside = jnp.array([[True, True, False, False]])
    seen = np.asarray(masks.causal(4) | masks.prefix(inside))[0, 0]
    np.testing.assert_array_equal(seen, [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])


def test_the_shared_head_is_the_product_with_the_table_in_float32(once):
    def run():
        embedding = Embedding(7, 4, rngs=nnx.Rngs(0))
        x = embedding(jnp.array([[1, 2, 3]]))
        return embedding.table[...], x, embedding.logits(x)

    table, x, logits = once(run)()
    np.testing.assert_array_equal(x[0], table[1:4])
    np.testing.assert_allclose(logits[0], x[0] @ table.T, atol=1e-6)


@pytest.mark.parametrize(
    ("bidirectional", "offsets", "buckets"),
    [
        (True, [0, -1, -7, -8, -11, -12, -16, -127, -500], [0, 1, 7, 8, 8, 9, 10, 15, 15]),
        (True, [1, 7, 8, 12, 500], [17, 23, 24, 25, 31]),
        (False, [5, 0, -1, -15, -16, -18, -19, -127, -500], [0, 0, 1, 15, 16, 16, 17, 31, 31]),
    ],
)
def test_distances_fall_into_the_buckets_of_t5(bidirectional, offsets, buckets):
    """Values of `_relative_position_bucket` in transformers' T5Attention, 32 buckets up to 128."""
    bias = DistanceBias(2, bidirectional=bidirectional, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(bias.bucket(jnp.array(offsets)), buckets)


def test_the_bias_of_a_pair_is_its_buckets_whatever_the_row_it_stands_in():
    bias = DistanceBias(2, bidirectional=False, rngs=nnx.Rngs(0))
    whole = bias(jnp.arange(6)[None], jnp.arange(6)[None])
    last = bias(jnp.array([[5]]), jnp.arange(6)[None])
    np.testing.assert_array_equal(whole[:, :, 5:], last)
    np.testing.assert_array_equal(whole[0, :, 3, 1], bias.table[...][2])


def test_rotary_products_depend_on_the_distance_alone():
    query, key = np.random.default_rng(0).normal(size=(2, 1, 1, 1, 8)).astype(np.float32)

    def product(p, q):
        turned = rotate(query, rotation(jnp.array([[p]]), 8)), rotate(key, rotation(jnp.array([[q]]), 8))
        return float((turned[0] * turned[1]).sum())

    assert product(3, 1) == pytest.approx(product(102, 100), abs=1e-4)
    assert product(3, 1) != pytest.approx(product(3, 2), abs=1e-2)


def test_sinusoids_are_those_of_the_paper():
    table = np.asarray(sinusoids(jnp.arange(3), 4))
    angles = np.array([[p, p, p / 100, p / 100] for p in range(3)])
    np.testing.assert_allclose(table, np.where([True, False] * 2, np.sin(angles), np.cos(angles)), atol=1e-6)


def test_a_gated_mlp_multiplies_the_activation_with_a_second_product(once):
    def run(x):
        mlp = MLP(4, 6, activation="relu", gated=True, bias=False, rngs=nnx.Rngs(0))
        kernels = [part.kernel[...] for part in (mlp.gate, mlp.up, mlp.down)]
        return mlp(x), (jax.nn.relu(x @ kernels[0]) * (x @ kernels[1])) @ kernels[2]

    result, expected = once(run)(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_shared_keys_are_the_same_as_keys_written_out_for_every_head(once):
    x = np.random.default_rng(0).normal(size=(2, 5, 12)).astype(np.float32)

    def run():
        few, many = (Attention(12, 6, num_kv_heads=n, rngs=nnx.Rngs(0)) for n in (2, 6))
        for name in ("key", "value"):
            of_few, of_many = getattr(few, name), getattr(many, name)
            of_many.kernel[...] = jnp.repeat(of_few.kernel[...], 3, axis=1)
        many.query.kernel[...], many.out.kernel[...] = few.query.kernel[...], few.out.kernel[...]
        return few(x).tokens, many(x).tokens

    few, many = once(run)()
    np.testing.assert_allclose(few, many, atol=1e-6)
