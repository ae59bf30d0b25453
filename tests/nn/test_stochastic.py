"""Random removal from explicit keys."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from vitzoo.nn.stochastic import drop_path, dropout, fold, kept_patches, kept_tokens

KEY = jax.random.key(0)


def test_without_a_key_or_a_rate_nothing_is_removed():
    x = jnp.ones((4, 3))
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, KEY) is x
    assert fold(None, 3) is None


def test_what_stays_is_scaled_so_that_the_mean_stays():
    y = np.asarray(jax.jit(dropout)(jnp.ones(100_000), 0.2, KEY))
    assert set(np.unique(y)) == {0, 1.25}
    np.testing.assert_allclose((y == 0).mean(), 0.2, atol=0.005)  # four deviations


def test_drop_path_removes_whole_rows_each_by_its_own_draw():
    y = np.asarray(jax.jit(drop_path)(jnp.ones((1000, 2, 3)), jnp.float32(0.3), KEY))
    assert ((y == y[:, :1, :1]).all(axis=(1, 2))).all()
    np.testing.assert_allclose((y[:, 0, 0] == 0).mean(), 0.3, atol=0.06)


def test_draws_do_not_depend_on_how_the_batch_is_sharded():
    x = jnp.ones((16, 4, 8))
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))

    def draws(x):
        return dropout(x, 0.5, KEY), drop_path(x, 0.5, KEY), kept_patches(0.5, jax.random.split(KEY, 16), 32)

    draws = jax.jit(draws, compiler_options={"xla_backend_optimization_level": 0})
    jax.tree.map(np.testing.assert_array_equal, draws(x), draws(spread))


def test_each_row_keeps_another_subset_of_the_asked_size_in_order():
    keys = jax.random.split(KEY, 8)
    kept = np.asarray(kept_patches(0.4, keys, 20))
    assert kept.shape == (8, 12)
    assert (np.diff(kept, axis=1) > 0).all()
    assert len({tuple(row) for row in kept}) == 8
    np.testing.assert_array_equal(kept_patches(0.4, keys[3:], 20), kept[3:])  # whatever rows are beside it
    assert kept_patches(0.99, keys[:2], 4).shape == (2, 1)


def test_kept_tokens_are_the_prefix_and_the_kept_patches():
    x = jnp.arange(14).reshape(2, 7, 1)
    y = kept_tokens(x, jnp.array([[0, 5], [2, 3]]), 1)[..., 0]
    np.testing.assert_array_equal(y, [[0, 1, 6], [7, 10, 11]])
