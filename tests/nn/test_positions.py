"""Positions added to the tokens, and their resizing."""

from functools import partial

import jax
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.positions import METHODS, Learned2D, SinCos2D, resize_axis, resize_table

RAMP = (14 * np.arange(14)[:, None] + np.arange(14)).reshape(1, 196, 1).astype(np.float32)


def test_corner_linear_puts_corners_on_corners():
    image = resize_table(RAMP, (14, 14), (24, 24)).reshape(24, 24)
    np.testing.assert_allclose(image[0, :3], [0, 0.5652, 1.1304], atol=1e-4)  # 13 i / 23
    assert image[-1, -1] == 195


def test_bilinear_puts_pixel_edges_on_edges():
    image = resize_table(RAMP, (14, 14), (24, 24), method="bilinear").reshape(24, 24)
    np.testing.assert_allclose(image[0, [0, 2]], [0, 0.9583], atol=1e-4)
    np.testing.assert_allclose(image[0, 1], 0.375, atol=1e-6)
    assert image[-1, -1] == 195


def test_bicubic_with_antialias_is_that_of_pil_and_timm():
    image = resize_table(RAMP, (14, 14), (24, 24), method="bicubic", antialias=True).reshape(24, 24)
    np.testing.assert_allclose(image[0, 0], -1.166, atol=1e-3)


@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(24, 20), (7, 9), (3, 5)])
def test_with_antialias_the_values_are_jax_own(method, size):
    table = np.random.default_rng(0).normal(size=(1, 14 * 14, 2)).astype(np.float32)
    ours = resize_table(table, (14, 14), size, method=method, antialias=True).reshape(*size, 2)
    np.testing.assert_allclose(ours, jax.image.resize(table.reshape(14, 14, 2), (*size, 2), method), atol=1e-5)


def test_bicubic_without_antialias_repeats_the_border_with_a_of_minus_three_quarters():
    # by hand for 2 -> 4: the first new place lies at -0.25, weights of -2 ... 1 with a = -0.75 (torch)
    def cubic(d, a=-0.75):
        d = abs(d)
        return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0

    weights = [cubic(-0.25 - place) for place in (-2, -1, 0, 1)]
    first = resize_axis(np.array([10.0, 20.0]), 4, 0, "bicubic")[0]
    np.testing.assert_allclose(first, 10 * sum(weights[:3]) + 20 * weights[3])


@pytest.mark.parametrize(("prefix", "rows"), [(0, 196), (1, 197), (5, 201)])
def test_prefix_rows_stay_bit_for_bit(prefix, rows):
    table = np.concatenate([np.full((1, prefix, 1), 1 / 3, np.float32), RAMP], axis=1)
    assert table.shape[1] == rows
    resized = resize_table(table, (14, 14), (24, 24), prefix)
    assert resized.shape == (1, prefix + 576, 1)
    assert resized.dtype == np.float32
    np.testing.assert_array_equal(resized[:, :prefix], table[:, :prefix])
    np.testing.assert_array_equal(resized[:, prefix:], resize_table(RAMP, (14, 14), (24, 24)))


@pytest.mark.parametrize(("old", "new"), [(28, 14), (16, 30), (24, 42)])
def test_the_last_row_and_column_are_never_zero(old, new):
    # scipy.ndimage.zoom(order=1) gives zeros there for these sizes: the last coordinate is rounded beyond the table
    table = np.ones((1, old * old, 1), np.float32)
    image = resize_table(table, (old, old), (new, new)).reshape(new, new)
    np.testing.assert_allclose(image, 1, atol=1e-6)


def test_grids_need_not_be_square():
    ramp = (10 * np.arange(4)[:, None] + np.arange(6)).reshape(1, 24, 1).astype(np.float32)
    image = resize_table(ramp, (4, 6), (7, 11)).reshape(7, 11)
    np.testing.assert_allclose(image, 10 * np.arange(7)[:, None] / 2 + np.arange(11) / 2, atol=1e-5)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_table_is_resized_inside_jit_as_it_is_by_numpy(method, antialias):
    table = np.random.default_rng(0).normal(size=(1, 2 + 7 * 5, 4)).astype(np.float32)
    for size in ((9, 11), (3, 4)):
        resize = partial(resize_table, old_grid=(7, 5), new_grid=size, prefix_tokens=2, method=method)
        resized, right = jax.jit(partial(resize, antialias=antialias))(table), resize(table, antialias=antialias)
        assert resized.dtype == np.float32
        np.testing.assert_allclose(resized, right, atol=1e-6)
        np.testing.assert_array_equal(resized[:, :2], table[:, :2])


def test_the_same_grid_is_the_same_table():
    assert resize_table(RAMP, (14, 14), (14, 14)) is RAMP


def test_a_table_of_another_size_is_refused():
    with pytest.raises(UserError, match="196: rows, where 14x14 patches and 1 prefix tokens need 197"):
        resize_table(RAMP, (14, 14), (24, 24), 1)


def test_learned_2d_puts_the_columns_half_beside_the_rows_half():
    graph, _ = state.abstract(lambda rngs: Learned2D((2, 3), 4, rngs=rngs))
    x, y = np.arange(6.0).reshape(3, 2), np.arange(10.0, 14.0).reshape(2, 2)
    right = [[*x[column], *y[row]] for row in range(2) for column in range(3)]
    np.testing.assert_array_equal(state.merge(graph, {"x": x, "y": y})()[0], right)


def test_sincos_2d_has_sines_and_cosines_of_x_then_of_y():
    table = np.asarray(SinCos2D((2, 3), 8)())[0]
    x, y = 2, 1  # the last patch; speeds 1 and 1 / 10000
    right = [f(v * speed) for v in (x, y) for f in (np.sin, np.cos) for speed in (1, 1e-4)]
    np.testing.assert_allclose(table[5], right, atol=1e-7)
