"""AdamW: Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization."""

import dataclasses
from typing import ClassVar

import optax

from vitzoo.optim.base import Optimizer
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay; as `optax.adamw` and torch's AdamW."""

    beta1: float = setting(0.9, "decay of the first moment", minimum=0.0, below=1.0)
    beta2: float = setting(0.999, "decay of the second moment", minimum=0.0, below=1.0)
    epsilon: float = setting(1e-8, "added to the root of the second moment", above=0.0)
    moment_dtype: str = setting(
        "float32", "of the first moment; the second is float32", choices=("float32", "bfloat16")
    )

    per_tensor: ClassVar[bool] = False

    def method(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon, mu_dtype=self.moment_dtype)
