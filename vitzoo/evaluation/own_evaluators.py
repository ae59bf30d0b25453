"""What a user's own evaluator gives, checked; vitzoo's are known to be right. See `Evaluator` in `evaluation.settings`.

Each function takes the evaluator's settings, and raises UserError where what its method gave is something else.
"""

from collections.abc import Mapping
from typing import Any

from vitzoo import own_values
from vitzoo.evaluation.settings import Evaluator
from vitzoo.own_values import fault, is_array, is_number, is_numbers
from vitzoo.registry import name_of

TAKEN = ("id", "position")
"""Names that a pass itself gives for each example."""

LINE = ("step", "split", "weights", "n")
"""Names that a line of the log has itself."""


def check_bound(evaluator: Evaluator, method: str, made: Any) -> None:
    """Checks what `bind` or `of_classes` gave."""
    if name_of(evaluator) and not all(callable(getattr(made, one, None)) for one in ("outputs", "metrics")):
        raise own_values.refusal(evaluator, method, made, "what has `outputs` and `metrics`, such as `self`")


def check_outputs(evaluator: Evaluator, outputs: Any, rows: int) -> None:
    """Checks what `outputs` gave, as it is traced.

    Args:
        evaluator: the settings.
        outputs: what it gave.
        rows: of the batch.
    """
    if not name_of(evaluator):
        return
    wanted = f"a dict of arrays [batch, ...], here with {rows} rows"

    def is_right(value: Any) -> bool:
        return own_values.has_rows(value, rows) and is_numbers(value)

    each = {name: one for name, one in outputs.items() if name != "sums"} if isinstance(outputs, Mapping) else outputs
    if (wrong := fault(each, is_right)) is not None:
        raise own_values.refusal(evaluator, "outputs", wrong, wanted)
    if "sums" in outputs and (wrong := fault(outputs["sums"], lambda one: is_array(one) and is_numbers(one))):
        raise own_values.refusal(evaluator, "outputs", wrong, "a dict of arrays of the whole batch as `sums`")
    weight = outputs.get("example_weight")
    if weight is None or weight.ndim != 1:
        raise own_values.refusal(evaluator, "outputs", outputs, "example_weight [batch] besides: batch's own")
    if evaluator.CLASSES and (missing := [name for name in _of_classes(outputs) if name not in outputs]):
        wanted = f"{missing[0]} besides, as ClassificationEvaluator gives it, since its CLASSES is true"
        raise own_values.refusal(evaluator, "outputs", outputs, wanted)
    if taken := [name for name in TAKEN if name in outputs]:
        raise own_values.refusal(evaluator, "outputs", outputs, f"another name for {taken[0]}, which each row has")


def _of_classes(outputs: Mapping[str, Any]) -> tuple[str, ...]:
    """What the report of an evaluator of classes is made of."""
    several = is_array(outputs.get("label")) and outputs["label"].ndim == 2
    return ("label", "loss", "probability", *(("logit",) if several else ("prediction", "rank")))


def checked_metrics(evaluator: Evaluator, metrics: Any) -> Any:
    """What `metrics` gave, as plain numbers."""
    if not name_of(evaluator):
        return metrics
    if (wrong := fault(metrics, is_number)) is not None:
        raise own_values.refusal(evaluator, "metrics", wrong, 'a dict of numbers, {"accuracy": 0.9}')
    if taken := [name for name in LINE if name in metrics]:
        raise own_values.refusal(evaluator, "metrics", metrics, f"another name for {taken[0]}, which each line has")
    return {name: value.item() if is_array(value) else value for name, value in metrics.items()}


def check_signatures(evaluator: Evaluator, signatures: Any) -> None:
    """Checks what `signatures` gave."""
    if name_of(evaluator) and (wrong := fault(signatures, lambda one: isinstance(one, str))) is not None:
        raise own_values.refusal(evaluator, "signatures", wrong, "a dict of texts by metric")


def check_predictions(evaluator: Evaluator, predictions: Any) -> None:
    """Checks what `predictions` gave."""
    if not name_of(evaluator):
        return
    rows = predictions if isinstance(predictions, list | tuple) else [predictions]
    if other := [row for row in rows if not isinstance(row, Mapping)]:
        raise own_values.refusal(evaluator, "predictions", other[0], "a list of dicts, one for each example")


def check_examples(evaluator: Evaluator, examples: Any) -> None:
    """Checks what `examples` gave."""
    if name_of(evaluator) and (wrong := fault(examples, is_array)) is not None:
        raise own_values.refusal(evaluator, "examples", wrong, "a dict of arrays, an entry for each example")
