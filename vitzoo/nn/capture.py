"""What a call hands out of a model's inside, by name: `outputs, captured = model(images, capture={"attention"})`.

A `Stack` knows `blocks` and `attention` (a decoder's `cross_attention` too); a model made of one passes `capture` on
and may know more. What isn't asked for is neither kept nor computed.
"""

import abc
from collections.abc import Collection, Mapping

import jax

from vitzoo.errors import UserError

Captured = dict[str, jax.Array]
Outputs = jax.Array | tuple[jax.Array, Captured]
"""What a call returns: its outputs, and what was captured where names were asked for."""


def check(capture: Collection[str], known: Collection[str]) -> frozenset[str]:
    """The names asked for.

    Raises:
        UserError: one isn't among the `known`.
    """
    if isinstance(capture, str):
        raise UserError("capture", capture, f'must be a set of names, {{"{capture}"}}')
    for name in capture:
        if name not in known:
            raise UserError("capture", name, f"no such name; known: {', '.join(known)}")
    return frozenset(capture)


def returned(outputs: jax.Array, seen: Mapping[str, jax.Array], capture: Collection[str]) -> Outputs:
    """What a call returns."""
    return (outputs, {name: value for name, value in seen.items() if name in capture}) if capture else outputs


class Capturing:
    """A model whose call takes `capture`."""

    @property
    @abc.abstractmethod
    def captures(self) -> tuple[str, ...]:
        """The names that `capture` knows."""

    def features(self, *inputs: jax.Array, attention: bool = False, **options: jax.Array | bool | None) -> Captured:
        """All that a call captures, each block's tokens under a name of their own: `block_0`, `block_1`, ...

        Args:
            inputs, options: as for a call.
            attention: the attention weights too, [depth, batch, heads, queries, keys].
        """
        names = [name for name in self.captures if attention or not name.endswith("attention")]
        _, captured = self(*inputs, capture=names, **options)  # type: ignore[operator]
        seen: Captured = {}
        for name, value in captured.items():
            one = {f"{name[:-1]}_{i}": block for i, block in enumerate(value)} if name.endswith("blocks") else {}
            seen |= one or {name: value}
        return seen
