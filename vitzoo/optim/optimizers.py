"""The optimizers, each with its settings and the chain of Optax that it stands for."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax

from vitzoo.errors import UserError
from vitzoo.optim.base import Optimizer, peak
from vitzoo.optim.transforms import of_matrices
from vitzoo.schema import setting

LEAST_SCALE = 1e-3
"""The least root mean square of a tensor that Adafactor's update is scaled by."""


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019); as `optax.adamw` and torch's AdamW."""

    beta1: float = setting(0.9, "decay of the first moment", minimum=0.0, below=1.0)
    beta2: float = setting(0.999, "decay of the second moment", minimum=0.0, below=1.0)
    epsilon: float = setting(1e-8, "added to the root of the second moment", above=0.0)
    moment_dtype: str = setting(
        "float32", "of the first moment; the second is float32", choices=("float32", "bfloat16")
    )

    per_tensor: ClassVar[bool] = False

    def method(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon, mu_dtype=self.moment_dtype)


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with momentum as in torch: the trace is g + momentum · trace, without damping. Weight
    decay stays decoupled.
    """

    learning_rate: float = peak(0.01)
    momentum: float = setting(0.9, "0 is off", minimum=0.0, below=1.0)
    nesterov: bool = setting(False, "look ahead along the momentum (Nesterov 1983)")
    moment_dtype: str = setting("float32", "of the momentum", choices=("float32", "bfloat16"))

    per_tensor: ClassVar[bool] = False

    def check(self) -> None:
        super().check()
        if self.nesterov and not self.momentum:
            raise UserError("nesterov", True, "needs momentum above 0")

    def method(self) -> optax.GradientTransformation:
        if not self.momentum:
            return optax.identity()
        return optax.trace(self.momentum, self.nesterov, accumulator_dtype=self.moment_dtype)


@dataclasses.dataclass(frozen=True)
class LAMB(AdamW):
    """Adam whose update of each tensor, weight decay included, gets the length of the tensor itself: learning rates are
    relative changes of weights.

    That trust ratio acts on the tensors that `weight_decay_rules` name, kernels by default, also where `weight_decay`
    is 0; biases, norms and tokens get Adam's update as it is, as in DeiT III (https://arxiv.org/abs/2204.07118).

    You et al. 2019, Large Batch Optimization for Deep Learning, https://arxiv.org/abs/1904.00962.
    """

    learning_rate: float = peak(3e-3)
    epsilon: float = setting(1e-6, "added to the root of the second moment", above=0.0)

    adapts_decayed: ClassVar[bool] = True

    def trust_ratio(self, update: jax.Array, weights: jax.Array) -> jax.Array:
        """The weights' norm over the update's; 1 where either is 0."""
        own, change = optax.tree.norm(weights), optax.tree.norm(update)
        return jnp.where((own > 0) & (change > 0), own / jnp.where(change > 0, change, 1), 1)


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """The sign of momentum and gradient mixed: one moment in memory, and every weight moves by the learning rate.

    The paper's learning rates are 3 to 10 times lower than AdamW's, its weight decay as many times higher.

    Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, https://arxiv.org/abs/2302.06675.
    """

    learning_rate: float = peak(1e-4)
    beta1: float = setting(0.9, "fraction of the momentum in what the sign is taken of", minimum=0.0, below=1.0)
    beta2: float = setting(0.99, "decay of the momentum", minimum=0.0, below=1.0)
    moment_dtype: str = setting("float32", "of the momentum", choices=("float32", "bfloat16"))

    per_tensor: ClassVar[bool] = False

    def method(self) -> optax.GradientTransformation:
        return optax.scale_by_lion(self.beta1, self.beta2, mu_dtype=self.moment_dtype)


@dataclasses.dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adam's memory at about half its price: the second moment factored into rows and columns, momentum in bfloat16
    (Shazeer & Stern 2018), as Zhai et al. 2022 (Scaling Vision Transformers) train with it.

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
