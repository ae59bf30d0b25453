"""What each parameter gets: its factors of weight decay and learning rate, and whether it trains."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.nn.paths import display, flatten, is_stacked, layer_shape, match_rules
from vitzoo.optim.base import Optimizer

EMBEDDINGS = re.compile(r"(\w*embedding|\w*token|registers|positions)(/.*)?")
"""Parameters below the first block, for layer-wise decay: patches, tokens, positions."""


@dataclasses.dataclass(frozen=True)
class LeafRule:
    """Of one leaf, which may hold a stack of layers.

    Args:
        decay: its weight decay.
        multiplier: factors of the learning rate, of shape `[depth, 1, ...]` for a stack with layer-wise decay.
        frozen: it doesn't train.
    """

    decay: float
    multiplier: np.ndarray
    frozen: bool


def leaf_rules(optimizer: Optimizer, shapes: Mapping[str, Any]) -> dict[str, LeafRule]:
    """The rule of every leaf, by path.

    Args:
        optimizer: the settings.
        shapes: nested dict of arrays or `ShapeDtypeStruct`s.

    Raises:
        Refused: a rule that matches nothing, or layer-wise decay without stacked blocks.
    """
    leaves = flatten(shapes)
    decay = {}
    if optimizer.weight_decay:
        decay = match_rules(optimizer.weight_decay_rules, shapes, "optimizer.weight_decay_rules")
    rates = match_rules(optimizer.learning_rate_rules, shapes, "optimizer.learning_rate_rules")
    layers = _layer_multipliers(optimizer.layer_decay, leaves)
    frozen = _frozen(optimizer.freeze, shapes)
    return {
        path: LeafRule(
            optimizer.weight_decay * decay.get(path, 0.0), layers[path] * rates.get(path, 1.0), path in frozen
        )
        for path in leaves
    }


def _frozen(patterns: tuple[str, ...], shapes: Mapping[str, Any]) -> set[str]:
    return {path for pattern in patterns for path in match_rules([(pattern, True)], shapes, "optimizer.freeze")}


def _layer_multipliers(decay: float, leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """BEiT's: 1 above the blocks, decay^(depth − i) for block i counted from 0, decay^(depth + 1) below them."""
    if decay == 1:
        return dict.fromkeys(leaves, np.ones(()))
    depth = max((leaf.shape[0] for path, leaf in leaves.items() if is_stacked(path)), default=0)
    if not depth:
        raise Refused("optimizer.layer_decay", decay, "the model has no stack of blocks")

    def multiplier(path: str, leaf: Any) -> np.ndarray:
        if is_stacked(path):
            powers = decay ** np.arange(leaf.shape[0], 0, -1.0)
            return powers.reshape(-1, *(1,) * (len(leaf.shape) - 1))
        return np.asarray(decay ** (depth + 1) if EMBEDDINGS.fullmatch(path) else 1.0)

    return {path: multiplier(path, leaf) for path, leaf in leaves.items()}


def describe(optimizer: Optimizer, shapes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each leaf, for people: `parameter`, `shape` (of one layer), `weight_decay`, `learning_rate`, `trains`.

    `learning_rate` is the factor; for a stack with layer-wise decay, a pair: the first block's and the last's.
    """
    rules, leaves = leaf_rules(optimizer, shapes), flatten(shapes)
    return [_row(path, leaves[path], rule) for path, rule in rules.items()]


def _row(path: str, leaf: Any, rule: LeafRule) -> dict[str, Any]:
    factors = rule.multiplier.ravel().tolist()
    return {
        "parameter": display(path),
        "shape": layer_shape(path, leaf),
        "weight_decay": 0.0 if rule.frozen else rule.decay,
        "learning_rate": factors[0] if len(factors) == 1 else (factors[0], factors[-1]),
        "trains": not rule.frozen,
    }
