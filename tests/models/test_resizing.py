"""A model's parameters at another image size."""

import dataclasses

import numpy as np
import pytest

from vitzoo.models.resizing import resize_positions
from vitzoo.models.vit import POSITIONS, ViT
from vitzoo.nn import paths, state


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_of_every_kind_fit_the_new_grid_and_nothing_else_changes(tiny, positions):
    model = tiny(positions=positions, registers=1)
    new = dataclasses.replace(model.config, image_size=(16, 20))
    _, shapes = state.abstract(lambda rngs: ViT(new, rngs=rngs))
    resized, before = paths.flatten(resize_positions(model.params, model.config, new)), paths.flatten(model.params)
    for path, leaf in paths.flatten(shapes).items():
        assert (resized[path].shape, resized[path].dtype) == (leaf.shape, leaf.dtype), path
        if "positions" not in path and "relative" not in path:
            np.testing.assert_array_equal(resized[path], before[path])


def test_the_class_tokens_row_stays_bit_for_bit(tiny):
    model = tiny()
    new = dataclasses.replace(model.config, image_size=(16, 24))
    resized = resize_positions(model.params, model.config, new)["positions"]["embedding"]
    np.testing.assert_array_equal(resized[:, 0], model.params["positions"]["embedding"][:, 0])
    corners = model.params["positions"]["embedding"][0, [1, 3, 4, 6]]
    np.testing.assert_allclose(resized[0, [1, 6, 19, 24]], corners, rtol=1e-6)


def test_the_same_grid_is_the_same_parameters(tiny):
    model = tiny()
    finer = dataclasses.replace(model.config, image_size=(16, 24), patch_size=8)
    assert resize_positions(model.params, model.config, finer) is model.params
