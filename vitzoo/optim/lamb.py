"""LAMB: You et al. 2019, Large Batch Optimization for Deep Learning, https://arxiv.org/abs/1904.00962."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax

from vitzoo.optim.base import Optimizer
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class LAMB(Optimizer):
    """Adam whose update of each tensor, weight decay included, gets the length of the tensor itself: learning rates are
    relative changes of weights.

    That trust ratio acts on the tensors that `weight_decay_rules` name, kernels by default, also where `weight_decay`
    is 0; biases, norms and tokens get Adam's update as it is, as in DeiT III (https://arxiv.org/abs/2204.07118).
    """

    learning_rate: float = setting(3e-3, "peak of the schedule", minimum=0.0)
    beta1: float = setting(0.9, "decay of the first moment", minimum=0.0, below=1.0)
    beta2: float = setting(0.999, "decay of the second moment", minimum=0.0, below=1.0)
    epsilon: float = setting(1e-6, "added to the root of the second moment", above=0.0)
    moment_dtype: str = setting(
        "float32", "of the first moment; the second is float32", choices=("float32", "bfloat16")
    )

    per_tensor: ClassVar[bool] = False
    adapts_decayed: ClassVar[bool] = True

    def method(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon, mu_dtype=self.moment_dtype)

    def trust_ratio(self, update: jax.Array, weights: jax.Array) -> jax.Array:
        """The weights' norm over the update's; 1 where either is 0."""
        own, change = optax.tree.norm(weights), optax.tree.norm(update)
        return jnp.where((own > 0) & (change > 0), own / jnp.where(change > 0, change, 1), 1)
