"""How a model is computed, as opposed to what it computes."""

import dataclasses

import jax
import jax.numpy as jnp

from vitzoo.errors import UserError

_CHOICES = {"remat": ("none", "full", "dots"), "derivatives": ("auto", "plain", "own")}


@dataclasses.dataclass(frozen=True)
class Execution:
    """The same function on other hardware, or with another trade of time against memory.

    Args:
        dtype: type of the matrix products and of the residual stream. Parameters, norms' statistics, softmax, pooling
            and logits stay float32.
        scan: run the blocks as one `lax.scan` (compiles 1.5 to 2.8 times sooner) rather than unrolled.
        remat: what the backward pass computes anew: `none`, `full` (each block from its input) or `dots` (all but
            the products with weights).
        derivatives: `own` takes the hand-written derivatives of dense, norm, GELU and attention, which use less time
            and memory on CPUs but have no forward mode; `plain` leaves them to JAX; `auto` is `own` on CPUs only.

    Raises:
        UserError: a value outside its choices.
    """

    dtype: str = "float32"
    scan: bool = True
    remat: str = "none"
    derivatives: str = "auto"

    def __post_init__(self):
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise UserError(field, getattr(self, field), f"one of {', '.join(choices)}")
        if self.dtype not in ("float32", "bfloat16", "float16"):
            raise UserError("dtype", self.dtype, "one of float32, bfloat16, float16")

    @property
    def own(self) -> bool:
        """Whether the hand-written derivatives are taken; asks for the platform only under `auto`."""
        return self.derivatives == "own" or (self.derivatives == "auto" and jax.default_backend() == "cpu")

    @property
    def compute(self) -> jnp.dtype:
        """The type of the matrix products."""
        return jnp.dtype(self.dtype)


DEFAULT = Execution()
"""Float32, scanned, everything kept for the backward pass."""
