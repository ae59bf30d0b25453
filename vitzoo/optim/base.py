"""What every optimizer has: the settings of the chain around its method."""

import abc
import dataclasses
import re
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from vitzoo import own_values
from vitzoo.errors import UserError
from vitzoo.registry import name_of
from vitzoo.schema import setting

LARGEST_PEAK = 1e4  # far above any learning rate with which something was learned


def peak(default: float) -> float:
    """The setting of a learning rate."""
    return setting(default, "peak of the schedule", minimum=0.0, maximum=LARGEST_PEAK)


@dataclasses.dataclass(frozen=True)
class Optimizer(abc.ABC):
    """Settings of the chain that `build` makes: clip, scale by `method`, decay, trust ratio, multipliers, schedule.

    A new optimizer is a subclass with a `method`. Rules see each block by its number, `encoder/blocks/0/...`; one that
    names the star, `encoder/blocks/\\*/...`, takes all.
    """

    learning_rate: float = peak(1e-3)
    weight_decay: float = setting(0.0, "decoupled; multiplied by the learning rate, as in torch and optax", minimum=0.0)
    weight_decay_end: float | None = setting(
        None,
        "weight_decay moves to this along half a cosine, reached at the end of training (DINO: 0.04 to 0.4); None: it "
        "stays",
        minimum=0.0,
    )
    independent_weight_decay: bool = setting(
        False,
        "weight_decay isn't multiplied by the learning rate, only by the schedule's part of the peak (big_vision): as "
        "weight_decay / learning_rate without this",
    )
    weight_decay_rules: tuple[tuple[str, float], ...] = setting(
        ((r".*kernel", 1.0),),
        "(regular expression on the whole path, factor of weight_decay): first match wins; no match, no decay. By "
        "default kernels only: not biases, norms, tokens, positions, LayerScale",
    )
    grad_clip: float = setting(0.0, "largest norm of the gradients that aren't frozen; 0 is off", minimum=0.0)
    grad_clip_scope: str = setting(
        "global",
        "whose norm: of all gradients together, or of each tensor by itself (DINO)",
        choices=("global", "per_tensor"),
    )
    learning_rate_rules: tuple[tuple[str, float], ...] = setting(
        (), "(regular expression on the whole path, factor of the learning rate): first match wins; no match, 1"
    )
    layer_decay: float = setting(
        1.0,
        "factor of the learning rate from each block to the one below (BEiT's convention: head 1, last block "
        "layer_decay, embeddings layer_decay^(depth + 1)); 1 is off",
        above=0.0,
        maximum=1.0,
    )
    freeze: tuple[str, ...] = setting(
        (),
        "paths of parameters that don't train; `(?!head/).*` is all but the head, `.*blocks/[01]/.*` two blocks",
    )

    per_tensor: ClassVar[bool] = True
    """Whether `method` looks at whole tensors, so that it must see each layer of a stack by itself."""
    adapts_decayed: ClassVar[bool] = False
    """Whether `trust_ratio` acts, on the tensors that `weight_decay_rules` name."""

    @property
    def decay_per_rate(self) -> float:
        """The weight decay that is multiplied by the learning rate, of the first batch."""
        return self._per_rate(self.weight_decay)

    @property
    def decay_per_rate_end(self) -> float:
        """The same at the end of training."""
        return self._per_rate(self.weight_decay if self.weight_decay_end is None else self.weight_decay_end)

    @property
    def decays(self) -> bool:
        """Whether weights decay at any step."""
        return bool(self.weight_decay or self.weight_decay_end)

    def _per_rate(self, decay: float) -> float:
        return decay / (self.learning_rate if self.independent_weight_decay else 1)

    def check(self) -> None:
        if self.independent_weight_decay and not self.learning_rate:
            raise UserError("independent_weight_decay", True, "needs a learning_rate above 0")
        named = [("weight_decay_rules", self.weight_decay_rules), ("learning_rate_rules", self.learning_rate_rules)]
        for field, rules in named:
            for pattern, factor in rules:
                _check_pattern(field, pattern)
                if not 0 <= factor < float("inf"):
                    raise UserError(field, f"{pattern}: {factor}", "the factor must be a number from 0 on")
        for pattern in self.freeze:
            _check_pattern("freeze", pattern)

    @abc.abstractmethod
    def method(self) -> optax.GradientTransformation:
        """Gradients to updates, of size about 1 and in the gradients' direction; the chain does the rest."""

    def trust_ratio(self, update: jax.Array, weights: jax.Array) -> jax.Array:
        """What the update of one tensor (of one layer) is multiplied by, once weight decay is in it."""
        return jnp.ones((), update.dtype)


def method_of(optimizer: Optimizer) -> optax.GradientTransformation:
    """An optimizer's `method`; one of a user's own is checked, and what it gives as it is traced.

    Raises:
        UserError: it is no transformation of gradients, or it gives no updates of their shapes, or a state that changes
            its own.
    """
    method = optimizer.method()
    if not name_of(optimizer):
        return method
    if not all(callable(getattr(method, part, None)) for part in ("init", "update")):
        wanted = "an optax.GradientTransformation, such as optax.scale_by_adam()"
        raise own_values.refusal(optimizer, "method", method, wanted)

    def init(params: Any) -> Any:
        state = method.init(params)
        if other := [leaf for leaf in jax.tree.leaves(state) if not own_values.is_numbers(leaf)]:
            raise own_values.refusal(optimizer, "method().init", other[0], "a state of arrays")
        return state

    def update(gradients: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        given = method.update(gradients, state, params)
        if not (isinstance(given, tuple) and len(given) == 2):
            raise own_values.refusal(optimizer, "method().update", given, "the updates and the new state")
        if (wrong := own_values.unlike(given[0], gradients)) is not None:
            raise own_values.refusal(optimizer, "method().update", wrong, "an update for each gradient, of its shape")
        if (wrong := own_values.unlike(given[1], state)) is not None:
            raise own_values.refusal(optimizer, "method().update", wrong, "a state that is shaped as it was")
        return given

    _check_direction(optimizer, method)
    return optax.GradientTransformation(init, update)


def _check_direction(optimizer: Optimizer, method: optax.GradientTransformation) -> None:
    """Refuses what goes against a gradient, as whole optimizers do: the chain subtracts what a method gives."""
    ones = {"kernel": jnp.ones((2, 2))}
    try:
        updates, _ = jax.jit(lambda: method.update(ones, method.init(ones), ones))()
        negative = bool(updates["kernel"].sum() < 0)
    except Exception:  # one for parameters of other names or shapes; what else is wrong shows as the step is traced
        return
    if negative:
        wanted = "a scaling that keeps their direction, such as optax.scale_by_adam(): the learning rate is vitzoo's"
        raise own_values.refusal(optimizer, "method", own_values.Wrong("updates against the gradients"), wanted)


def trust_ratio_of(optimizer: Optimizer) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """An optimizer's `trust_ratio`; one of a user's own is checked as it is traced.

    Raises:
        UserError: it gives something else than a number.
    """
    if not name_of(optimizer):
        return optimizer.trust_ratio

    def ratio(update: jax.Array, weights: jax.Array) -> jax.Array:
        value = optimizer.trust_ratio(update, weights)
        if not own_values.is_number(value):
            raise own_values.refusal(optimizer, "trust_ratio", value, "a number for each tensor")
        return jnp.asarray(value)

    return ratio


def _check_pattern(field: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UserError(field, pattern, f"not a regular expression: {error}") from error
