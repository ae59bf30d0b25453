"""The whole update, spelled out: clip, scale by method, decoupled decay, trust ratio, multipliers, schedule."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vitzoo.errors import UserError
from vitzoo.models.base import EMBEDDINGS
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.state import Params, Shapes
from vitzoo.optim.base import Optimizer, method_of, trust_ratio_of
from vitzoo.optim.rules import UNTRAINED, LeafRule, leaf_rules
from vitzoo.optim.schedules import Rate, half_cosine
from vitzoo.optim.transforms import over_layers, per_layer, plain

Tree = dict[str, Any]


class Update(Protocol):
    def __call__(
        self, gradients: Params, state: Tree, params: Params, *, step: jax.Array | int
    ) -> tuple[Tree, Tree]: ...


@dataclasses.dataclass(frozen=True)
class Chain:
    """An optax transformation with extra argument `step`, over the parameters that train.

    Args:
        init: parameters to state: nested dict of arrays, `updates` (steps applied) and the method's.
        update: gradients, state, parameters and `step=` (batches consumed before this one: the schedule's argument)
            to what is added to the parameters, and the new state. Trees hold the trained parameters only.
        partition: a tree over all variables to those that train and the others, frozen or statistics. `init` and
            `update` take the first part. A stack of which some layers are frozen is in both, with its layers parted.
        join: the inverse of `partition`.
        rules: what each leaf gets.
        statistics: the paths of leaves that aren't the optimizer's: the model's calls change them.
        weight_decay: step to weight decay, where that has a schedule; for the metric.
    """

    init: Callable[[Params], Tree]
    update: Update
    partition: Callable[[Params], tuple[Tree, Tree]]
    join: Callable[[Params, Params], Tree]
    rules: dict[str, LeafRule]
    statistics: frozenset[str] = frozenset()
    weight_decay: Rate | None = None


def build(
    optimizer: Optimizer,
    schedule: Rate,
    shapes: Shapes,
    statistics: Collection[str] = (),
    total_steps: int | None = None,
    embeddings: str = EMBEDDINGS,
) -> Chain:
    """The optimizer for parameters of these shapes.

    Args:
        optimizer: the settings.
        schedule: step to learning rate, with the peak in it (`Schedule.make`).
        shapes: nested dict of all variables, arrays or `ShapeDtypeStruct`s.
        statistics: the paths of those that the model's calls change (`nn.state.statistics_of`): no rule is for them.
        total_steps: length of the training; needed where weight decay has a schedule.
        embeddings: a regular expression of the leaves below the first block, the model's `EMBEDDINGS`.

    Raises:
        UserError: a rule that matches nothing, or a schedule of weight decay without a length.
    """
    end = optimizer.weight_decay_end
    if end is not None and total_steps is None:
        raise UserError("optimizer.weight_decay_end", end, "needs total_steps, at which it is reached")
    leaves = flatten(shapes)
    trained = unflatten({path: leaf for path, leaf in leaves.items() if path not in statistics})
    rules = leaf_rules(optimizer, trained, embeddings)
    rules |= dict.fromkeys(statistics, UNTRAINED)
    own, trust_ratio = method_of(optimizer), trust_ratio_of(optimizer)
    method = plain(per_layer(own) if optimizer.per_tensor else own)

    def init(params: Params) -> Tree:
        kept = method.init(params)
        return {"updates": jnp.zeros((), jnp.int32)} | ({"method": kept} if kept else {})

    def update(gradients: Params, state: Tree, params: Params, *, step: jax.Array | int) -> tuple[Tree, Tree]:
        clipped = clip(gradients, optimizer.grad_clip, optimizer.grad_clip_scope)
        scaled, kept = method.update(clipped, state.get("method", {}), params)
        rate, weights = schedule(step), flatten(params)
        left = None if end is None else half_cosine(jnp.asarray(step, jnp.float32), total_steps or 1)

        def change(path: str, value: jax.Array) -> jax.Array:
            rule = rules[path].trained
            decay = _of_step(rule, left)
            value = value if decay is None else value + decay * weights[path]
            if rule.adapted.any():
                ratio = over_layers(trust_ratio, path)(value, weights[path])
                value = jnp.where(rule.adapted, ratio, 1) * value
            return -rate * rule.multiplier.astype("float32") * value

        changes = unflatten({path: change(path, value) for path, value in flatten(scaled).items()})
        return changes, {"updates": state["updates"] + 1} | ({"method": kept} if kept else {})

    partition, join = functools.partial(_partition, rules), functools.partial(_join, rules)
    return Chain(init, update, partition, join, rules, frozenset(statistics), _weight_decay(optimizer, total_steps))


def _weight_decay(optimizer: Optimizer, total_steps: int | None) -> Rate | None:
    """Step to the setting's value, where that has a schedule."""
    start, end = optimizer.weight_decay, optimizer.weight_decay_end
    if end is None or total_steps is None:
        return None

    def decay(step: jax.Array | int) -> jax.Array:
        left = half_cosine(jnp.asarray(step, jnp.float32), total_steps)
        return start * left + end * (1 - left)

    return decay


def _of_step(rule: LeafRule, left: Any) -> Any:
    """The rule's weight decay where `left` of its way is left, 1 to 0; None where there is none at any step."""
    start, end = rule.decay, rule.decay if rule.decay_end is None else rule.decay_end
    if not start.any() and not end.any():
        return None
    if rule.decay_end is None:
        return start.astype("float32")
    return start.astype("float32") * left + end.astype("float32") * (1 - left)


def _partition(rules: Mapping[str, LeafRule], tree: Mapping[str, Any]) -> tuple[Tree, Tree]:
    trained, frozen = {}, {}
    for path, leaf in flatten(tree).items():
        layers = rules[path].trained_layers
        if layers is not None:
            trained[path], frozen[path] = leaf[layers], leaf[~np.isin(np.arange(len(leaf)), layers)]
        elif rules[path].frozen:
            frozen[path] = leaf
        else:
            trained[path] = leaf
    return unflatten(trained), unflatten(frozen)


def _join(rules: Mapping[str, LeafRule], trained: Tree, frozen: Tree) -> Tree:
    leaves, still = flatten(trained), flatten(frozen)
    for path, leaf in still.items():
        if path in leaves:  # the trained layers stand first; where each layer is by then, in the layers' order
            order = np.argsort(np.argsort(rules[path].frozen, kind="stable"))
            leaf = jnp.concatenate([leaves[path], leaf])[order]
        leaves[path] = leaf
    return unflatten(leaves)


def clip(gradients: Params, largest: float, scope: str = "global") -> Params:
    """Gradients scaled so that their norm is at most `largest`; untouched, bit by bit, where it is; 0 is off.

    Args:
        gradients: nested dict of arrays.
        largest: norm.
        scope: `global` for the norm of all of them, `per_tensor` for each tensor's own, layer by layer in a stack.
    """
    if not largest:
        return gradients

    def scaled(gradient: jax.Array, norm: jax.Array) -> jax.Array:
        return largest / jnp.maximum(norm, largest) * gradient

    if scope == "global":
        norm = optax.tree.norm(gradients)
        return jax.tree.map(lambda gradient: scaled(gradient, norm), gradients)
    norms = {path: over_layers(optax.tree.norm, path)(leaf) for path, leaf in flatten(gradients).items()}
    return unflatten({path: scaled(leaf, norms[path]) for path, leaf in flatten(gradients).items()})
