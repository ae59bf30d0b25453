"""Adafactor: Shazeer & Stern 2018, as Zhai et al. 2022 (Scaling Vision Transformers) train with it."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax

from vitzoo.optim.base import Optimizer
from vitzoo.optim.transforms import of_matrices
from vitzoo.schema import setting

LEAST_SCALE = 1e-3


@dataclasses.dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adam's memory at about half its price: the second moment factored into rows and columns, momentum in bfloat16.

    Unlike the first paper's: learning rates like Adam's, no scaling by the parameters' size, momentum on and without
    bias correction, the second moment's decay 1 − step^−0.8 capped at `beta2`. The first paper's is `T5Adafactor`.

    Kernels of attention are factored in the dimensions in which big_vision keeps them too: those of a query, [width,
    heads, head_dim], over the two largest of the three.
    """

    beta1: float = setting(0.9, "decay of the momentum, which has no bias correction; 0 is off", minimum=0.0, below=1.0)
    beta2: float = setting(0.999, "cap of the second moment's decay", above=0.0, maximum=1.0)
    decay_exponent: float = setting(0.8, "the second moment's decay is 1 − step^−this, up to the cap", above=0.0)
    update_clip: float = setting(
        0.0, "largest root mean square of one tensor's update (paper: 1); 0 is off", minimum=0.0
    )
    scale_by_parameter: bool = setting(
        False, "a tensor's update is multiplied by the root mean square of its values, at least 1e-3"
    )
    min_factored_size: int = setting(32, "factor a tensor whose second largest dimension has this size", minimum=1)
    epsilon: float = setting(1e-30, "added to the squared gradient", minimum=0.0)
    moment_dtype: str = setting("bfloat16", "of the momentum", choices=("float32", "bfloat16"))

    factors_matrices: ClassVar[bool] = False
    """Whether a kernel is factored as the matrix [inputs, outputs] that it is, whatever dimensions it is kept in."""

    def method(self) -> optax.GradientTransformation:
        def decay(count: jax.typing.ArrayLike, exponent: jax.typing.ArrayLike) -> jax.Array:
            return jnp.minimum(self.beta2, 1 - (jnp.asarray(count, jnp.float32) + 1) ** -jnp.asarray(exponent))

        factored = optax.scale_by_factored_rms(
            decay_rate=self.decay_exponent,
            min_dim_size_to_factor=self.min_factored_size,
            epsilon=self.epsilon,
            decay_rate_fn=decay,
        )
        return optax.chain(
            of_matrices(factored) if self.factors_matrices else factored,
            optax.clip_by_block_rms(self.update_clip) if self.update_clip else optax.identity(),
            optax.scale_by_param_block_rms(LEAST_SCALE) if self.scale_by_parameter else optax.identity(),
            optax.ema(self.beta1, debias=False, accumulator_dtype=self.moment_dtype)
            if self.beta1
            else optax.identity(),
        )


@dataclasses.dataclass(frozen=True)
class T5Adafactor(Adafactor):
    """Adafactor of the first paper, as T5 trains with it (Raffel et al. 2020, 3.1.2): learning rates are relative to a
    tensor's size, updates are clipped one by one, and there is no momentum. Kernels of attention are factored as the
    matrices that T5 keeps, [width, heads · head_dim] and [heads · head_dim, width].
    """

    beta1: float = setting(0.0, "decay of the momentum, which has no bias correction; 0 is off", minimum=0.0, below=1.0)
    beta2: float = setting(1.0, "cap of the second moment's decay", above=0.0, maximum=1.0)
    update_clip: float = setting(1.0, "largest root mean square of one tensor's update; 0 is off", minimum=0.0)
    scale_by_parameter: bool = setting(
        True, "a tensor's update is multiplied by the root mean square of its values, at least 1e-3"
    )
    min_factored_size: int = setting(128, "factor a tensor whose second largest dimension has this size", minimum=1)

    factors_matrices: ClassVar[bool] = True
