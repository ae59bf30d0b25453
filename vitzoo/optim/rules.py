"""What each parameter gets: its factors of weight decay and learning rate, and whether it trains."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.base import EMBEDDINGS
from vitzoo.nn.paths import flatten, match_layers
from vitzoo.optim.base import Optimizer


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """Of one leaf. A part that differs among the layers of a stack has a value for each.

    Args:
        decay: weight decay of the first batch, of shape `[]`, or `[depth, 1, ...]` to be multiplied with the leaf.
        multiplier: factor of the learning rate, of shape `[]` or `[depth, 1, ...]`.
        frozen: doesn't train, bool `[]` or `[depth]`.
        adapted: its update is multiplied by a trust ratio, bool of shape `[]` or `[depth, 1, ...]`.
        decay_end: weight decay at the end of training, shaped as `decay`; None where that stays.
    """

    decay: np.ndarray
    multiplier: np.ndarray
    frozen: np.ndarray
    adapted: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((), bool))
    decay_end: np.ndarray | None = None

    @property
    def trained_layers(self) -> np.ndarray | None:
        """The numbers of the layers that train, where some do and some don't."""
        return np.flatnonzero(~self.frozen) if self.frozen.ndim else None

    @property
    def trained(self) -> "LeafRule":
        """The rule of the layers that train."""
        layers = self.trained_layers
        if layers is None:
            return self
        parts = (self.decay, self.multiplier, self.adapted)
        decay, multiplier, adapted = (part[layers] if part.ndim else part for part in parts)
        end = self.decay_end
        end = end[layers] if end is not None and end.ndim else end
        return LeafRule(decay, multiplier, np.zeros((), bool), adapted, end)


UNTRAINED = LeafRule(np.zeros(()), np.zeros(()), np.ones((), bool))
"""Of what no gradient changes."""


def leaf_rules(optimizer: Optimizer, shapes: Mapping[str, Any], embeddings: str = EMBEDDINGS) -> dict[str, LeafRule]:
    """The rule of every leaf, by path.

    Args:
        optimizer: the settings.
        shapes: nested dict of arrays or `ShapeDtypeStruct`s.
        embeddings: the model's `EMBEDDINGS`.

    Raises:
        UserError: a rule that matches nothing, everything frozen, or layer-wise decay without blocks.
    """
    leaves = flatten(shapes)
    decay = {}
    if optimizer.decays or optimizer.adapts_decayed:
        decay = match_layers(optimizer.weight_decay_rules, shapes, "optimizer.weight_decay_rules")
    rates = match_layers(optimizer.learning_rate_rules, shapes, "optimizer.learning_rate_rules")
    layers = _layer_multipliers(optimizer.layer_decay, leaves, embeddings)
    frozen = _frozen(optimizer.freeze, shapes)
    decayed = {path: _factors(decay.get(path, (None,)), 0.0, leaf) for path, leaf in leaves.items()}
    return {
        path: LeafRule(
            optimizer.decay_per_rate * decayed[path],
            layers[path] * _factors(rates[path], 1.0, leaf),
            frozen[path],
            (decayed[path] > 0) & optimizer.adapts_decayed,
            None if optimizer.weight_decay_end is None else optimizer.decay_per_rate_end * decayed[path],
        )
        for path, leaf in leaves.items()
    }


def _factors(found: Sequence[float | None], otherwise: float, leaf: Any) -> np.ndarray:
    """A factor for each layer `[depth, 1, ...]`, or one `[]` for all."""
    factors = np.array([otherwise if factor is None else factor for factor in found])
    return _along_layers(factors, leaf) if len(set(factors)) > 1 else factors[:1].reshape(())


def _along_layers(values: np.ndarray, leaf: Any) -> np.ndarray:
    return values.reshape(-1, *(1,) * (len(leaf.shape) - 1))


def _frozen(patterns: tuple[str, ...], shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Whether each layer of each leaf is frozen, bool `[depth]`, or `[]` where all its layers are alike."""
    found = [match_layers([(pattern, True)], shapes, "optimizer.freeze") for pattern in patterns]
    frozen = dict.fromkeys(flatten(shapes), np.zeros((), bool))
    for path in frozen if found else ():
        layers = np.array([any(layer) for layer in zip(*(one[path] for one in found), strict=True)])
        frozen[path] = layers if len(set(layers)) > 1 else layers[:1].reshape(())
    if all(layers.all() for layers in frozen.values()):
        raise UserError("optimizer.freeze", ",".join(patterns), "freezes every parameter, so nothing would be trained")
    return frozen


def _layer_multipliers(decay: float, leaves: Mapping[str, Any], embeddings: str) -> dict[str, np.ndarray]:
    """BEiT's: 1 above the blocks, decay^(depth − i) for block i counted from 0, decay^(depth + 1) below them."""
    if decay == 1:
        return dict.fromkeys(leaves, np.ones(()))
    depths = _depths(leaves)
    if not depths:
        message = "the model has no blocks to count: a stack of them, or a list `blocks`; 1 is off"
        raise UserError("optimizer.layer_decay", decay, message)

    def multiplier(path: str, leaf: Any) -> np.ndarray:
        place, number = _block(path)
        if place not in depths:
            return np.asarray(decay ** (max(depths.values()) + 1) if re.fullmatch(embeddings, path) else 1.0)
        if number is None:
            return _along_layers(decay ** np.arange(depths[place], 0, -1.0), leaf)
        return np.asarray(decay ** (depths[place] - number))

    return {path: multiplier(path, leaf) for path, leaf in leaves.items()}


def _depths(leaves: Mapping[str, Any]) -> dict[str, int]:
    """The number of blocks at each place where there are some, stacked or in a list."""
    depths: dict[str, int] = {}
    for path, leaf in leaves.items():
        place, number = _block(path)
        if place:
            depths[place] = max(depths.get(place, 0), leaf.shape[0] if number is None else number + 1)
    return depths


def _block(path: str) -> tuple[str, int | None]:
    """Where a leaf's blocks are (`encoder/blocks`), stacked or in a list of this name, where with the block's number;
    `""` for any other leaf.
    """
    place = re.match(r"(.*?)/[*]/|((?:.*?/)?blocks)/(\d+)/", path)
    return ("", None) if place is None else (place[1] or place[2], None if place[3] is None else int(place[3]))


def describe(rules: Mapping[str, LeafRule], shapes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each leaf, as plain values.

    Returns:
        Dicts of `path` (as users see it), `shape`, `weight_decay` and `learning_rate` (the factor), each one number or,
        where layers differ, a list of one for each, and `frozen`: whether it is, or a list of the layers that are.
        What is frozen has 0 for both. Where weight decay has a schedule, `weight_decay_end` besides.
    """
    return [_row(path, leaf, rules[path]) for path, leaf in flatten(shapes).items()]


def _row(path: str, leaf: Any, rule: LeafRule) -> dict[str, Any]:
    trains = ~rule.frozen
    end = {} if rule.decay_end is None else {"weight_decay_end": _plain(rule.decay_end.ravel() * trains)}
    return {
        "path": path,
        "shape": list(leaf.shape),
        "weight_decay": _plain(rule.decay.ravel() * trains),
        "learning_rate": _plain(rule.multiplier.ravel() * trains),
        "frozen": np.flatnonzero(rule.frozen).tolist() if rule.frozen.ndim else bool(rule.frozen),
        **end,
    }


def _plain(values: np.ndarray) -> float | list[float]:
    return float(values[0]) if len(values) == 1 else values.tolist()
