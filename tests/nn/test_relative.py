"""Positions inside attention: relative ones and rotary ones."""

import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.nn.positions import axial_rotation, rotate
from vitzoo.nn.relative import RelativeBias, RelativeEmbedding, resize_bias, resize_embedding

QUERY = np.random.default_rng(0).normal(size=(2, 7, 3, 4)).astype(np.float32)  # one prefix token, 2 x 3 patches
PLACES = jnp.arange(6)[None]


def embedding(query, places):
    """What joins the logits, and the table it is made from."""
    module = RelativeEmbedding(6, 4, rngs=nnx.Rngs(0))
    return module(query, places), module.embedding[...]


def scalar(query, places):
    module = RelativeBias((2, 3), 3, rngs=nnx.Rngs(0))
    return module(query, places), module.table[...]


def test_the_query_multiplies_the_embedding_of_the_offset(once):
    bias, table = map(np.asarray, once(embedding)(QUERY, PLACES))
    assert bias.shape == (2, 3, 7, 7)
    for q, k in [(0, 0), (0, 5), (5, 0), (2, 3)]:
        right = QUERY[:, 1 + q] @ table[q - k + 5]
        np.testing.assert_allclose(bias[:, :, 1 + q, 1 + k], right, atol=1e-6)


def test_the_bias_is_the_number_of_the_offset_in_rows_and_columns(once):
    bias, table = map(np.asarray, once(scalar)(QUERY, PLACES))
    assert bias.shape == (1, 3, 7, 7)
    # patch 5 is (row 1, column 2), patch 1 is (0, 1): one down, one to the right
    np.testing.assert_array_equal(bias[0, :, 1 + 5, 1 + 1], table[1 + 1, 1 + 2])
    np.testing.assert_array_equal(bias[0, :, 1 + 1, 1 + 5], table[-1 + 1, -1 + 2])


def test_pairs_with_a_prefix_token_get_nothing(once):
    bias = np.asarray(once(embedding)(QUERY, PLACES)[0])
    assert (bias[:, :, 0] == 0).all()
    assert (bias[:, :, :, 0] == 0).all()
    assert (bias[:, :, 1:, 1:] != 0).all()


def test_patches_left_out_keep_their_places(once):
    kept = jnp.array([[0, 4], [3, 5]])
    for kind in (embedding, scalar):
        module = once(lambda query, places, kind=kind: kind(query, places)[0])
        whole = np.broadcast_to(module(QUERY, PLACES), (2, 3, 7, 7))
        for row in range(2):
            places = [0, *(1 + np.asarray(kept[row]))]
            part = module(QUERY[row : row + 1, places], kept[row : row + 1])
            np.testing.assert_allclose(part[0], whole[row][:, places][:, :, places], atol=1e-6)


def test_a_resized_bias_keeps_its_largest_offsets():
    table = np.random.default_rng(1).normal(size=(3, 5, 2)).astype(np.float32)
    resized = resize_bias(table, (4, 6))
    assert resized.shape == (7, 11, 2)
    np.testing.assert_array_equal(resized[[0, 3, -1]][:, [0, 5, -1]], table[[0, 1, -1]][:, [0, 2, -1]])


def test_a_resized_embedding_keeps_its_middle_and_ends():
    table = np.random.default_rng(1).normal(size=(2, 11, 4)).astype(np.float32)  # two layers, six patches
    resized = resize_embedding(table, 24)
    assert resized.shape == (2, 47, 4)
    np.testing.assert_array_equal(resized[:, [0, 23, -1]], table[:, [0, 5, -1]])


def test_rotated_products_depend_on_the_distance_alone():
    rng = np.random.default_rng(2)
    query, key = rng.normal(size=(2, 1, 1, 1, 8))
    rotation = axial_rotation((4, 5), 0, 8)
    turned = [np.asarray(rotate(jnp.broadcast_to(x, (1, 20, 1, 8)), rotation))[0, :, 0] for x in (query, key)]
    products = turned[0] @ turned[1].T
    np.testing.assert_allclose(products[1, 13], products[6, 18], atol=1e-5)  # both two rows up, two columns left
    assert abs(products[1, 13] - products[1, 12]) > 1e-3


def test_prefix_tokens_do_not_turn_and_the_first_pair_turns_one_radian_a_row():
    x = np.ones((1, 1 + 6, 1, 8), np.float32)
    y = np.asarray(rotate(x, axial_rotation((2, 3), 1, 8)))
    np.testing.assert_array_equal(y[0, 0], x[0, 0])
    np.testing.assert_array_equal(y[0, 1], x[0, 1])  # row 0, column 0
    np.testing.assert_allclose(y[0, 1 + 3, 0, [0, 4]], [np.cos(1) - np.sin(1), np.cos(1) + np.sin(1)], atol=1e-6)
