"""The same model on one device and over a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from vitzoo.models.vit import ViT
from vitzoo.nn import paths, state
from vitzoo.parallel.sharding import activations, batch_sharding, param_shardings


def step(model, shape):
    """Loss and gradients of a training step on a mesh of this shape, as NumPy."""
    axes = {"axis_types": (AxisType.Auto,) * 3, "devices": jax.devices()[: int(np.prod(shape))]}
    mesh = jax.make_mesh(shape, ("data", "fsdp", "tensor"), **axes)
    images = jax.device_put(np.resize(model.images, (8, *model.config.image_shape)), batch_sharding(mesh))
    params = jax.device_put(model.params, param_shardings(model.params, ViT.SHARDING_RULES, mesh))

    def loss(params):
        with activations(mesh):
            logits = state.merge(model.graph, params)(images, train=True, key=jax.random.key(1))
        return jnp.square(logits + jnp.arange(5)).mean()

    compiled = jax.jit(jax.value_and_grad(loss), compiler_options={"xla_backend_optimization_level": 0})
    return jax.tree.map(np.asarray, compiled(params))


RANDOM = {"registers": 1, "drop_path": 0.3, "dropout": 0.1, "patch_dropout": 0.25}


@pytest.mark.parametrize(
    ("shape", "fields"), [((1, 2, 1), {"depth": 1}), pytest.param((2, 2, 2), RANDOM, marks=pytest.mark.slow)]
)
def test_many_devices_give_loss_and_gradients_of_one_within_1e_5_randomness_on(tiny, shape, fields):
    model = tiny(**fields)
    (loss, gradients), (other_loss, others) = step(model, (1, 1, 1)), step(model, shape)
    np.testing.assert_allclose(other_loss, loss, rtol=1e-5)
    others = paths.flatten(others)
    for path, gradient in paths.flatten(gradients).items():
        if not path.endswith("key/bias"):  # its true gradient is zero: softmax doesn't see it
            np.testing.assert_allclose(others[path], gradient, atol=1e-5 * abs(gradient).max(), err_msg=path)
