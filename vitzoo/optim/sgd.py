"""Stochastic gradient descent."""

import dataclasses
from typing import ClassVar

import optax

from vitzoo.errors import UserError
from vitzoo.optim.base import Optimizer, peak
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """With momentum as in torch: the trace is g + momentum · trace, without damping. Weight decay stays decoupled."""

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
