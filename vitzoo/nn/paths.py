"""Names of parameters, `encoder/blocks/*/attention/query/kernel`, and rules that decide by name.

Layers that are stacked stand below a `*` (`nn.state.stacked`): their leaves have a leading axis of depth. A rule never
sees it: shapes are those of one layer. One that may tell layers apart sees each by its number, `encoder/blocks/0/...`.
"""

import contextlib
import re
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Protocol, TypeAlias, TypeVar

from vitzoo.errors import UserError

Leaf = TypeVar("Leaf")
Value = TypeVar("Value")
Tree: TypeAlias = Mapping[str, Leaf | "Tree[Leaf]"]
"""Leaves by name, nested as the attributes of a module."""


class Shaped(Protocol):
    """An array, or what is known of one before it is computed."""

    @property
    def shape(self) -> tuple[int, ...]: ...


LAYERS = "*"
"""Stands in a path for the number of a stacked layer."""

LONGEST_MATCH = 5.0  # seconds for all the rules of a setting; usual ones take milliseconds


def flatten(tree: Tree[Leaf], prefix: str = "") -> dict[str, Leaf]:
    """`{"a": {"b": 1}}` as `{"a/b": 1}`; names sorted, so that the order is the same wherever the tree comes from."""
    flat: dict[str, Leaf] = {}
    for name in sorted(tree):
        path, value = f"{prefix}{name}", tree[name]
        flat |= flatten(value, f"{path}/") if isinstance(value, Mapping) else {path: value}
    return flat


def unflatten(flat: Mapping[str, Leaf]) -> dict[str, Leaf | Tree[Leaf]]:
    """The inverse of `flatten`."""
    tree: dict[str, Leaf | Tree[Leaf]] = {}
    nodes: dict[tuple[str, ...], dict[str, Leaf | Tree[Leaf]]] = {(): tree}

    def node(names: tuple[str, ...]) -> dict[str, Leaf | Tree[Leaf]]:
        """What lies below these names, made where it isn't there yet."""
        if names not in nodes:
            nodes[names] = node(names[:-1])[names[-1]] = {}
        return nodes[names]

    for path, value in flat.items():
        *parents, name = path.split("/")
        node(tuple(parents))[name] = value
    return tree


def is_stacked(path: str) -> bool:
    """Whether the leaf's leading axis counts layers."""
    return LAYERS in path.split("/")


def numbered(path: str, layer: int) -> str:
    """The path of one layer's part, `encoder/blocks/0/attention/query/kernel`; others as they are."""
    return "/".join(str(layer) if name == LAYERS else name for name in path.split("/"))


def layer_shape(path: str, leaf: Shaped) -> tuple[int, ...]:
    """The shape of one layer's part of `leaf`."""
    return tuple(leaf.shape[1:] if is_stacked(path) else leaf.shape)


def match_rules(
    rules: Sequence[tuple[str, Value]],
    tree: Tree[Leaf],
    what: str,
    *,
    every_leaf: bool = False,
    every_rule: bool = True,
) -> dict[str, Value]:
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
    patterns = [_compiled(pattern, what) for pattern, _ in rules]
    with _in_time(what, patterns):
        chosen = {path: _first(patterns, [path] * len(patterns)) for path in flatten(tree)}
    if every_leaf and None in chosen.values():
        path = next(path for path, index in chosen.items() if index is None)
        raise UserError(what, None, f"no rule matches {path}")
    if every_rule:
        with _in_time(what, patterns):
            _refuse_idle(patterns, chosen.values(), {path: [path] for path in chosen}, what)
    return {path: rules[index][1] for path, index in chosen.items() if index is not None}


def match_layers(
    rules: Sequence[tuple[str, Value]], tree: Tree[Shaped], what: str
) -> dict[str, tuple[Value | None, ...]]:
    """The value each layer of each leaf gets from the first rule that matches its whole path.

    A layer of a stack is matched by its number, `encoder/blocks/0/...`; a rule that names the star,
    `encoder/blocks/\\*/...`, takes all of them.

    Args:
        rules: (regular expression, value), first match wins. One that decides nothing is refused.
        tree: nested parameters.
        what: the setting that holds the rules, for messages.

    Returns:
        Path to a value for each layer (one where there is no stack), None where no rule matches.
    """
    patterns = [_compiled(pattern, what) for pattern, _ in rules]
    names = {path: _layer_names(path, leaf) for path, leaf in flatten(tree).items()}
    with _in_time(what, patterns):
        chosen = {path: [_first(patterns, _seen(patterns, path, name)) for name in names[path]] for path in names}
        _refuse_idle(patterns, {index for layers in chosen.values() for index in layers}, names, what)
    return {path: tuple(None if i is None else rules[i][1] for i in layers) for path, layers in chosen.items()}


def _layer_names(path: str, leaf: Shaped) -> list[str]:
    return [numbered(path, layer) for layer in range(leaf.shape[0])] if is_stacked(path) else [path]


def _seen(patterns: Sequence[re.Pattern], path: str, name: str) -> list[str]:
    """What each pattern is matched with: the path with a star if it names that, else with the layer's number."""
    return [path if re.search(r"\\\*|\[\*\]", pattern.pattern) else name for pattern in patterns]


def _compiled(pattern: str, what: str) -> re.Pattern:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(what, pattern, f"not a regular expression: {error}") from error


@contextlib.contextmanager
def _in_time(what: str, patterns: Sequence[re.Pattern]) -> Iterator[None]:
    """Refuses patterns that would try for ever, as `(a*)*b` does: Python looks for signals while it matches. (They come
    to the main thread alone; in another nothing is watched.)
    """
    if not patterns or threading.current_thread() is not threading.main_thread():
        yield
        return
    message = f"takes more than {LONGEST_MATCH:g} s: a repetition within another, as in (a*)*, tries too many ways"
    refusal = UserError(what, ",".join(pattern.pattern for pattern in patterns), message)

    def refuse(number: int, frame: FrameType | None) -> None:
        raise refusal

    before, timer = signal.signal(signal.SIGALRM, refuse), signal.setitimer(signal.ITIMER_REAL, LONGEST_MATCH)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


def _first(patterns: Sequence[re.Pattern], names: Sequence[str]) -> int | None:
    """The first pattern that matches its name."""
    pairs = enumerate(zip(patterns, names, strict=True))
    return next((index for index, (pattern, name) in pairs if pattern.fullmatch(name)), None)


def _refuse_idle(
    patterns: Sequence[re.Pattern], chosen: Iterable[int | None], names: Mapping[str, Sequence[str]], what: str
) -> None:
    """Refuses a rule that decides nothing.

    Args:
        chosen: the indices of the rules that decide something.
        names: of each leaf, the names of its layers.
    """
    used = set(chosen)
    for pattern in (pattern for index, pattern in enumerate(patterns) if index not in used):
        seen = [name for path, layers in names.items() for layer in layers for name in _seen([pattern], path, layer)]
        if any(pattern.fullmatch(name) for name in seen):
            raise UserError(what, pattern.pattern, "decides nothing: the rules before it match all its parameters")
        shown = ", ".join(layers[0] for layers in list(names.values())[:3])
        raise UserError(what, pattern.pattern, f"matches no parameter; the whole path must match, such as {shown}")
