"""Wrappers for what looks at whole tensors, so that it sees the layers of a stack singly; and plain dicts as state."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from vitzoo.nn.attention import matrix_shape
from vitzoo.nn.paths import flatten, is_stacked, unflatten

Tree = dict[str, Any]


def per_layer(method: optax.GradientTransformation) -> optax.GradientTransformation:
    """`method`, seeing each layer of a stacked leaf as a tensor of its own (`jax.vmap` over the leading axis).

    The state is a dict: `single` for leaves that aren't stacked, `layers_12` for stacks of twelve.
    """

    def init(params: Tree) -> Tree:
        return {name: _over(name, method.init)(leaves) for name, leaves in _groups(params).items()}

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
        grouped = _groups(updates)
        weights = _groups(params) if params is not None else dict.fromkeys(grouped)
        results = {n: _over(n, method.update)(leaves, state[n], weights[n]) for n, leaves in grouped.items()}
        flat: Tree = {}
        for new, _ in results.values():
            flat |= flatten(new)
        return unflatten(flat), {name: kept for name, (_, kept) in results.items()}

    return optax.GradientTransformation(init, update)


def of_matrices(factored: optax.GradientTransformation) -> optax.GradientTransformation:
    """`optax.scale_by_factored_rms`, seeing each kernel as the matrix that it is, [inputs, outputs], in whatever
    dimensions it is kept. Moments that are not factored have the parameter's own shape, so that they are sharded alike.
    """

    def matrices(tree: Tree) -> Tree:
        return unflatten({path: leaf.reshape(matrix_shape(path, leaf.shape)) for path, leaf in flatten(tree).items()})

    def shaped(tree: Tree, like: Tree) -> Tree:  # what is factored has a placeholder of another size
        return jax.tree.map(lambda leaf, own: leaf.reshape(own.shape) if leaf.size == own.size else leaf, tree, like)

    def init(params: Tree) -> Any:
        state: Any = factored.init(matrices(params))
        return state._replace(v=shaped(state.v, params))

    def update(updates: Tree, state: Any, params: Tree | None = None) -> tuple[Tree, Any]:
        weights = matrices(updates if params is None else params)
        new, kept = factored.update(matrices(updates), state._replace(v=shaped(state.v, weights)), weights)
        return shaped(new, updates), kept._replace(v=shaped(kept.v, updates))

    return optax.GradientTransformation(init, update)


def over_layers(number: Callable[..., jax.Array], path: str) -> Callable[..., jax.Array]:
    """`number`, of arrays that are tensors, for each layer of a stacked leaf: shape `[depth, 1, ...]` there, else `[]`.

    Args:
        number: tensors of one shape to a number.
        path: of the leaf.
    """
    if not is_stacked(path):
        return number

    def each(*leaves: jax.Array) -> jax.Array:
        return jax.vmap(number)(*leaves).reshape(-1, *(1,) * (leaves[0].ndim - 1))

    return each


def _groups(tree: Tree) -> dict[str, Tree]:
    groups: dict[str, Tree] = {}
    for path, leaf in flatten(tree).items():
        groups.setdefault(f"layers_{leaf.shape[0]}" if is_stacked(path) else "single", {})[path] = leaf
    return {name: unflatten(leaves) for name, leaves in groups.items()}


def _over(group: str, function: Any) -> Any:
    return function if group == "single" else jax.vmap(function)


def plain(method: optax.GradientTransformation) -> optax.GradientTransformation:
    """`method` with its state as nested dicts of arrays, which have stable paths on disk and in sharding rules.

    Named tuples become dicts of their fields, other tuples dicts of their positions; empty parts are left out.
    """

    def init(params: Tree) -> Tree:
        return _to_plain(method.init(params)) or {}

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> tuple[Tree, Tree]:
        like = jax.eval_shape(method.init, updates if params is None else params)
        new, kept = method.update(updates, _from_plain(state, like), params)
        return new, _to_plain(kept) or {}

    return optax.GradientTransformation(init, update)


def _children(node: Any) -> dict[str, Any] | None:
    if isinstance(node, Mapping):
        return dict(node)
    if not isinstance(node, tuple | list):
        return None
    fields = getattr(node, "_fields", None)
    return dict(zip(fields if fields is not None else map(str, range(len(node))), node, strict=True))


def _to_plain(node: Any) -> Any:
    children = _children(node)
    if children is None:
        return node if node is None else jnp.asarray(node)
    kept = {name: _to_plain(child) for name, child in children.items()}
    return {name: child for name, child in kept.items() if child is not None} or None


def _from_plain(state: Any, like: Any) -> Any:
    children = _children(like)
    if children is None:
        return state
    parts = {name: _from_plain((state or {}).get(name), child) for name, child in children.items()}
    if isinstance(like, Mapping):
        return parts
    return type(like)(**parts) if hasattr(like, "_fields") else type(like)(parts.values())
