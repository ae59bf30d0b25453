"""How a model is computed, as opposed to what it computes."""

import dataclasses

import jax
import jax.numpy as jnp

from vitzoo.errors import UserError

_CHOICES = {"remat": ("none", "full", "dots"), "dtype": ("float32", "bfloat16", "float16")}


@dataclasses.dataclass(frozen=True)
class Execution:
    """The same function on other hardware, or with another trade of time against memory.

    Args:
        dtype: type of the matrix products and of the residual stream. Parameters, norms' statistics, softmax, pooling
            and logits stay float32.
        scan: run the blocks as one `lax.scan` (compiles 1.5 to 2.8 times sooner) rather than unrolled.
        remat: what the backward pass computes anew: `none`, `full` (each block from its input) or `dots` (all but
            the products with weights).
        custom_gradient: take the hand-written gradients of dense, norm, GELU and attention, which use less time and
            memory on CPUs but have no forward mode, rather than JAX's; None: on CPUs only.

    Raises:
        UserError: a value outside its choices.
    """

    dtype: str = "float32"
    scan: bool = True
    remat: str = "none"
    custom_gradient: bool | None = None

    def __post_init__(self):
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise UserError(field, getattr(self, field), f"one of {', '.join(choices)}")

    @classmethod
    def on(cls, platform: str, precision: str = "auto", scan: bool | None = None, remat: str = "none") -> "Execution":
        """How a model is computed on a platform, `cpu`, `gpu` or `tpu`, by the settings of a config.

        Args:
            platform: of the devices.
            precision: a dtype; `auto` is float32 on CPUs and bfloat16 elsewhere.
            scan, remat: as of the class; None is its default.
        """
        dtype = precision if precision != "auto" else "float32" if platform == "cpu" else "bfloat16"
        return cls(dtype, cls.scan if scan is None else scan, remat, custom_gradient=platform == "cpu")

    @property
    def uses_custom_gradient(self) -> bool:
        """Whether the hand-written gradients are taken; asks for the platform only where that isn't stated."""
        return jax.default_backend() == "cpu" if self.custom_gradient is None else self.custom_gradient

    @property
    def compute(self) -> jnp.dtype:
        """The type of the matrix products."""
        return jnp.dtype(self.dtype)


DEFAULT = Execution()
"""Float32, scanned, everything kept for the backward pass."""
