"""What an evaluation gives back and writes to `metrics.json`."""

from typing import NotRequired, TypedDict


class Result(TypedDict):
    """What one evaluator, or benchmark, measured: fractions 0 to 1, None where a metric isn't finite; `skipped` says
    why it couldn't run, and `signatures` how a metric was counted.
    """

    dataset: str | None
    split: str
    n: int
    metrics: dict[str, float | None]
    skipped: str | None
    signatures: NotRequired[dict[str, str]]


class Results(TypedDict):
    """The results of a checkpoint by the evaluators' names, or the benchmarks'."""

    checkpoint: str
    step: int
    weights: str
    results: dict[str, Result]
