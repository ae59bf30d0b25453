"""Model soups: the mean of the weights of several trainings of one model (Wortsman et al. 2022,
https://arxiv.org/abs/2203.05482)."""

import dataclasses
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypedDict

import jax
import numpy as np

from vitzoo.checkpoints.arrays import chosen_weights, read_params
from vitzoo.checkpoints.average import check_finite, check_has_mean, write_mean
from vitzoo.checkpoints.locate import Located, run_values
from vitzoo.config.layers import Overrides, nested
from vitzoo.errors import UserError
from vitzoo.evaluation.checkpoint import make_ready, state_beside
from vitzoo.evaluation.evaluate import bound
from vitzoo.nn.state import HostParams
from vitzoo.objectives.base import WithMemory
from vitzoo.outputs import checked_new_folder
from vitzoo.parallel.processes import place_all
from vitzoo.spelling import nearest
from vitzoo.weights.open import locate_own

ALIKE = {"model": "another model", "classes": "other classes", "inputs": "other inputs"}
"""What all ingredients must share, of a checkpoint's description, and what one has that doesn't."""
IN_TRAINING = ("variant", "dropout", "attention_dropout", "drop_path", "drop_path_schedule", "patch_dropout")
"""Settings of a model that its outputs don't depend on."""

Score = Callable[[HostParams], float]


@dataclasses.dataclass
class WeightSum:
    """Parameters added up in float64.

    Attributes:
        total: the nested sums; None before the first.
        count: of how many.
    """

    total: HostParams | None = None
    count: int = 0

    def plus(self, params: HostParams) -> "WeightSum":
        """The sum with one more."""
        wide = jax.tree.map(lambda leaf: leaf.astype(np.float64), params)
        total = wide if self.total is None else jax.tree.map(np.add, self.total, wide)
        return WeightSum(total, self.count + 1)

    def mean(self, like: HostParams) -> HostParams:
        """The mean, in the types of `like`."""
        return jax.tree.map(lambda sums, leaf: (sums / self.count).astype(leaf.dtype), self.total, like)


class Ingredient(TypedDict):
    """A checkpoint of a soup: which of its weights, what it scores alone, and whether it is in the mean."""

    checkpoint: str
    weights: str
    score: float | None
    taken: bool


class Soup(TypedDict):
    """Where the mean was written, of what it is, and what it scores, if it was asked for."""

    output: str
    ingredients: list[Ingredient]
    score: float | None


def soup(
    checkpoints: Sequence[str | Path],
    output: str | Path,
    *,
    greedy: str = "",
    weights: str = "auto",
    overrides: Overrides = (),
    out: TextIO | None = None,
) -> Soup:
    """Writes a run folder with one checkpoint, the mean of the weights of several.

    Uniform: the mean of all. Greedy: from the best one on, in the order of their scores, each is added if the mean
    with it scores at least as well as without it. Choose by data that is neither trained on nor reported.

    Args:
        checkpoints: two or more, of one model trained several times.
        output: a folder that doesn't exist yet, or is empty.
        greedy: `EVALUATOR/METRIC` of the first one's run, `val/accuracy`; empty for the uniform soup.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        overrides: config settings for the evaluation, of a greedy soup.
        out: where progress goes; standard output by default.

    Returns:
        `output`, `ingredients` (`checkpoint`, `weights` of it that are meant, `ema` or `raw`, `score` alone, `taken`),
        and the soup's `score` (None if uniform).

    Raises:
        UserError: they are of unlike models or the same one twice, hold what is not finite, or there is no such
            evaluator or metric.
        RunError: the soup couldn't be written.
    """
    out, names = out or sys.stdout, [str(checkpoint) for checkpoint in checkpoints]
    target = checked_new_folder("--output", output, checkpoint=True)
    if len(names) < 2:
        raise UserError("CKPT", ", ".join(names) or None, "a soup is of two checkpoints or more")
    located = [locate_own(name) for name in names]
    _check_alike(names, located)
    if overrides and not greedy:
        raise UserError("--config", None, "settings are for the evaluation of a greedy soup; give --greedy too")
    for name, one in zip(names, located, strict=True):
        check_has_mean("CKPT", name, one.description)
    _warn_of_starts(names, located)
    which = [chosen_weights(one, weights) for one in located]
    scores: list[float | None] = [None] * len(names)
    score: float | None = None
    if greedy:
        mean, taken, alone, score = _greedy(names, located, greedy, weights, overrides, out)
        scores = list(alone)
    else:
        mean, taken = _uniform(names, located, weights), [True] * len(names)
    chosen = [name for name, is_taken in zip(names, taken, strict=True) if is_taken]
    write_mean(located[taken.index(True)], mean, chosen, target)
    rows: list[Ingredient] = [
        {"checkpoint": name, "weights": own, "score": one, "taken": is_taken}
        for name, own, one, is_taken in zip(names, which, scores, taken, strict=True)
    ]
    return {"output": str(output), "ingredients": rows, "score": score}


def _uniform(names: Sequence[str], located: Sequence[Located], weights: str) -> HostParams:
    total, like = WeightSum(), None
    for name, one in zip(names, located, strict=True):
        like = _params(name, one, weights)
        total = total.plus(like)
    assert like is not None  # there are two or more
    return total.mean(like)


def _params(name: str, located: Located, weights: str) -> HostParams:
    """The parameters of an ingredient; UserError where they are not finite."""
    params = read_params(located, weights)[0]
    check_finite("CKPT", name, params)
    return params


def _greedy(
    names: Sequence[str], located: Sequence[Located], metric: str, weights: str, overrides: Overrides, out: TextIO
) -> tuple[HostParams, list[bool], list[float], float]:
    """The mean, which are in it, each one's score alone and the mean's."""
    score, better = _scorer(names[0], metric, weights, overrides)
    alone = []
    for name, one in zip(names, located, strict=True):
        alone.append(score(_params(name, one, weights)))
        print(
            f"alone    {name}, weights {chosen_weights(one, weights)}: {metric} {alone[-1]:.4f}", file=out, flush=True
        )
    if all(math.isnan(value) for value in alone):
        raise UserError("--greedy", metric, "is not a number for any of the checkpoints; take another metric")
    sign = -1 if better is max else 1
    order = sorted(range(len(names)), key=lambda index: (math.isnan(alone[index]), sign * alone[index]))
    like = read_params(located[order[0]], weights)[0]
    total, best, taken = WeightSum().plus(like), alone[order[0]], [index == order[0] for index in range(len(names))]
    for index in order[1:]:
        tried = total.plus(read_params(located[index], weights)[0])
        value = score(tried.mean(like))
        if better(value, best) == value:
            total, best, taken[index] = tried, value, True
        said = "taken" if taken[index] else "left out"
        print(f"with     {names[index]}: {metric} {value:.4f}, {said}", file=out, flush=True)
    return total.mean(like), taken, alone, best


def _scorer(checkpoint: str, metric: str, weights: str, overrides: Overrides) -> tuple[Score, Callable]:
    """What measures parameters by an evaluator of a checkpoint's run, and whether more is better: `max` or `min`."""
    if "model" in nested(overrides):
        raise UserError("--config.model", None, "a soup is of the models as they are; leave it out")
    ready = make_ready(checkpoint, overrides, weights)
    name, _, key = metric.partition("/")
    if name not in ready.evaluators:
        raise UserError("--greedy", metric, f"is EVALUATOR/METRIC; {nearest(name, list(ready.evaluators))}")
    directions = ready.evaluators[name].BETTER
    if key not in directions:
        raise UserError("--greedy", metric, f"{name} has no metric {key!r}; {nearest(key, list(directions))}")
    evaluation, places = bound(ready, name), jax.tree.map(lambda leaf: leaf.sharding, ready.params)
    if isinstance(evaluation.objective, WithMemory):
        raise UserError("--greedy", metric, "is of an objective that remembers, and a mean of weights has no memory")
    state = state_beside(ready, evaluation)

    def score(params: HostParams) -> float:
        values = evaluation.metrics(evaluation.rows(place_all(params, places), state=state))
        if key not in values:
            raise UserError("--greedy", metric, f"these data give no {key}; take one of {', '.join(values)}")
        return float(values[key])

    return score, directions[key]


def _check_alike(names: Sequence[str], located: Sequence[Located]) -> None:
    for index, (name, one) in enumerate(zip(names, located, strict=True)):
        if one.folder.resolve() in {other.folder.resolve() for other in located[:index]}:
            raise UserError("CKPT", name, "is given twice; name it once")
        for part in ALIKE:
            here, there = (_compared(part, other) for other in (one, located[0]))
            if here != there:
                raise UserError("CKPT", name, f"has {ALIKE[part]} than {names[0]}: {_differing(here, there)}")


def _warn_of_starts(names: Sequence[str], located: Sequence[Located]) -> None:
    """A line on standard error where the runs of two ingredients began with other weights."""
    starts = [(name, start) for name, one in zip(names, located, strict=True) if (start := _start(one))]
    if other := next((one for one in starts if one[1] != starts[0][1]), None):
        began = f"{starts[0][0]} began with {starts[0][1]}, {other[0]} with {other[1]}"
        print(f"warning: {began}: a mean of trainings from different weights is good for nothing", file=sys.stderr)


def _start(located: Located) -> str:
    """What a checkpoint's run began with; empty where nobody knows."""
    values = run_values(located.run)
    if not values:
        return ""
    start = values.get("init_from")
    if not isinstance(start, str) or not start:
        return f"random parameters of seed {values.get('seed', 0)}"
    return os.path.realpath(start) if os.path.exists(start) else start


def _compared(part: str, one: Located) -> Any:
    if part != "model":
        return one.description.get(part)
    return {key: value for key, value in one.description["model"].items() if key not in IN_TRAINING}


def _differing(here: Any, there: Any) -> str:
    if isinstance(here, dict) and isinstance(there, dict):
        keys = [key for key in {**here, **there} if here.get(key) != there.get(key)]
        return ", ".join(f"{key} {here.get(key)} and {there.get(key)}" for key in keys[:3])
    return f"{here} and {there}"
