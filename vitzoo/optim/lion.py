"""Lion: Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, https://arxiv.org/abs/2302.06675."""

import dataclasses
from typing import ClassVar

import optax

from vitzoo.optim.base import Optimizer, peak
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """The sign of momentum and gradient mixed: one moment in memory, and every weight moves by the learning rate.

    The paper's learning rates are 3 to 10 times lower than AdamW's, its weight decay as many times higher.
    """

    learning_rate: float = peak(1e-4)
    beta1: float = setting(0.9, "share of the momentum in what the sign is taken of", minimum=0.0, below=1.0)
    beta2: float = setting(0.99, "decay of the momentum", minimum=0.0, below=1.0)
    moment_dtype: str = setting("float32", "of the momentum", choices=("float32", "bfloat16"))

    per_tensor: ClassVar[bool] = False

    def method(self) -> optax.GradientTransformation:
        return optax.scale_by_lion(self.beta1, self.beta2, mu_dtype=self.moment_dtype)
