"""Names of parameters, `encoder/blocks/attention/query/kernel`, and rules that decide by name.

Blocks are stacked over depth: leaves below `blocks` have a leading axis of that size. A rule never sees it: paths
are shown as `encoder/blocks/*/...` and shapes are those of one layer.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.errors import Refused

STACK = "blocks"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a/b": 1}`; names sorted, so that the order is the same wherever the tree comes from."""
    flat: dict[str, Any] = {}
    for name in sorted(tree):
        path, value = f"{prefix}{name}", tree[name]
        flat |= flatten(value, f"{path}/") if isinstance(value, Mapping) else {path: value}
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flatten`."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = value
    return tree


def is_stacked(path: str) -> bool:
    """Whether the leaf's leading axis counts layers."""
    return STACK in path.split("/")


def display(path: str) -> str:
    """The path as rules and users see it, `encoder/blocks/*/attention/query/kernel`."""
    return "/".join(f"{part}/*" if part == STACK else part for part in path.split("/"))


def layer_shape(path: str, leaf: Any) -> tuple[int, ...]:
    """The shape of one layer's part of `leaf` (anything with `.shape`)."""
    return tuple(leaf.shape[1:] if is_stacked(path) else leaf.shape)


def match_rules(
    rules: Sequence[tuple[str, Any]],
    tree: Mapping[str, Any],
    what: str,
    *,
    every_leaf: bool = False,
    every_rule: bool = True,
) -> dict[str, Any]:
    """The value each leaf gets from the first rule whose regular expression matches its whole displayed path.

    Args:
        rules: (regular expression, value), first match wins.
        tree: nested parameters.
        what: the setting that holds the rules, for messages.
        every_leaf: refuse a leaf that no rule matches; otherwise it is absent from the result.
        every_rule: refuse a rule that decides no leaf: a typing error, or hidden by one before it.

    Returns:
        Path to value, flat.
    """
    patterns = [(_compiled(pattern, what), value) for pattern, value in rules]
    chosen = {path: _first(patterns, display(path)) for path in flatten(tree)}
    if every_leaf and None in chosen.values():
        path = next(path for path, index in chosen.items() if index is None)
        raise Refused(what, None, f"no rule matches {display(path)}")
    for index in range(len(rules) if every_rule else 0):
        if index not in chosen.values():
            raise Refused(what, rules[index][0], _why_idle(patterns[index][0], chosen))
    return {path: rules[index][1] for path, index in chosen.items() if index is not None}


def _compiled(pattern: str, what: str) -> re.Pattern:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Refused(what, pattern, f"not a regular expression: {error}") from error


def _first(patterns: Sequence[tuple[re.Pattern, Any]], name: str) -> int | None:
    return next((index for index, (pattern, _) in enumerate(patterns) if pattern.fullmatch(name)), None)


def _why_idle(pattern: re.Pattern, chosen: Mapping[str, Any]) -> str:
    if any(pattern.fullmatch(display(path)) for path in chosen):
        return "decides nothing: the rules before it match all its parameters"
    shown = [display(path) for path in chosen]
    return f"matches no parameter; the whole path must match, such as {', '.join(shown[:3])}"
