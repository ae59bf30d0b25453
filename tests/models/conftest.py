"""A tiny ViT with random parameters, quickly made."""

import jax
import numpy as np
import pytest

from vitzoo.models.vit import ViT, ViTConfig
from vitzoo.nn import paths, state
from vitzoo.nn.execution import DEFAULT

SIZES = {"patch_size": 4, "width": 16, "depth": 2, "mlp_dim": 32, "num_heads": 2, "num_classes": 5}


class Tiny:
    """A model's config, parameters and images, and its compiled functions."""

    def __init__(self, execution=DEFAULT, **changes):
        self.config = ViTConfig(**{**SIZES, "image_size": (8, 12), **changes})
        self.graph, shapes = state.abstract(lambda rngs: ViT(self.config, rngs=rngs, execution=execution))
        rng = np.random.default_rng(0)
        flat = paths.flatten(shapes)
        # scales near 1, the rest small: every part counts, nothing saturates
        draw = {name: 0.2 * rng.normal(size=leaf.shape) + name.endswith("scale") for name, leaf in flat.items()}
        self.params = paths.unflatten({name: value.astype(np.float32) for name, value in draw.items()})
        self.compiled = {}
        self.images = rng.normal(size=(3, *self.config.image_shape)).astype(np.float32)

    def run(self, method, *args, **kwargs):
        """The model's method, compiled without optimising: it hardly runs."""
        static = {name: kwargs.pop(name) for name in ("train", "attention", "capture") if name in kwargs}

        def call(params, args, kwargs):
            return getattr(state.merge(self.graph, params), method)(*args, **static, **kwargs)

        compiled = self.compiled.setdefault(
            (method, *static.items()), jax.jit(call, compiler_options={"xla_backend_optimization_level": 0})
        )
        return compiled(self.params, args, kwargs)

    def logits(self, images=None, **kwargs):
        return self.run("__call__", self.images if images is None else images, **kwargs)


@pytest.fixture(scope="session")
def tiny():
    return Tiny
