"""LAMB: You et al. 2019, Large Batch Optimization for Deep Learning, https://arxiv.org/abs/1904.00962."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax

from vitzoo.optim.adamw import AdamW
from vitzoo.optim.base import peak
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class LAMB(AdamW):
    """Adam whose update of each tensor, weight decay included, gets the length of the tensor itself: learning rates are
    relative changes of weights.

    That trust ratio acts on the tensors that `weight_decay_rules` name, kernels by default, also where `weight_decay`
    is 0; biases, norms and tokens get Adam's update as it is, as in DeiT III (https://arxiv.org/abs/2204.07118).
    """

    learning_rate: float = peak(3e-3)
    epsilon: float = setting(1e-6, "added to the root of the second moment", above=0.0)

    adapts_decayed: ClassVar[bool] = True

    def trust_ratio(self, update: jax.Array, weights: jax.Array) -> jax.Array:
        """The weights' norm over the update's; 1 where either is 0."""
        own, change = optax.tree.norm(weights), optax.tree.norm(update)
        return jnp.where((own > 0) & (change > 0), own / jnp.where(change > 0, change, 1), 1)
