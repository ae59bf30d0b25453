"""The evaluator of what a model is trained for: its objective's loss on other examples."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.errors import UserError
from vitzoo.evaluation.settings import Evaluator, Rows
from vitzoo.nn.state import split
from vitzoo.objectives.base import Memory, Objective, WithEmbeddings

TERM, METRIC = "term ", "metric "


@dataclasses.dataclass(frozen=True)
class ObjectiveEvaluator(Evaluator):
    """The loss that is trained for, as it is on examples that nothing is learned from: `loss`, the sum over the
    objective's terms of weight · sum / count; where there are several, the part of each as `loss_TERM`, as in the
    training's lines; and the objective's own metrics. Sums and counts are those of the whole split.

    Nothing is dropped or mixed, and statistics are the averages of the training. What an objective draws for a row
    (crops, masks) it draws by the example's place in the split, the same in every evaluation. Rows that see each other
    are those of a batch, as in training, so that a contrast's loss, unlike any other, depends on `batch_size`.
    """

    OBJECTIVE: ClassVar[bool] = True
    BETTER: ClassVar[dict[str, Callable]] = {"loss": min}

    def of_objective(self, objective: Objective, sizes: tuple[int, int]) -> "MeasuredObjective":
        """What measures an objective.

        Args:
            objective: bound to its data and model.
            sizes: of a batch, as it is stated and as it fills the devices.

        Raises:
            UserError: the two differ, and the objective's rows see each other.
        """
        stated, filled = sizes
        if isinstance(objective, WithEmbeddings) and stated != filled:
            message = f"doesn't divide over the mesh, and rows that see each other need batches of one size: {filled}"
            raise UserError("batch_size", stated, message)
        return MeasuredObjective(self.split, objective)


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredObjective:
    """`ObjectiveEvaluator` for an objective.

    Args:
        split: its name.
        objective: bound.
    """

    split: str
    objective: Objective

    def outputs(
        self, model: nnx.Module, batch: Mapping[str, jax.Array], *, step: jax.Array, memory: Memory | None
    ) -> dict[str, jax.Array | dict[str, jax.Array]]:
        """What a pass keeps of a batch, computed on device: `example_weight` [batch], and as `sums` a float32 [2], sum
        and count, for each term and metric.
        """
        counts = self.objective.counts(batch)
        if isinstance(self.objective, WithEmbeddings):
            embeddings = self.objective.embeddings(model, batch, None, train=False)
            sums, metrics, _ = self.objective.sums_of(embeddings, split(model)[1], batch, memory=memory, step=step)
        else:
            sums, metrics, _ = self.objective.sums(model, batch, None, train=False, memory=memory, step=step)
        pairs = {TERM + term: (sums[term], counts[term]) for term in self.objective.term_weights}
        pairs |= {METRIC + name: pair for name, pair in metrics.items()}
        found = {name: jnp.stack([jnp.asarray(one, jnp.float32) for one in pair]) for name, pair in pairs.items()}
        return {"example_weight": batch["example_weight"], "sums": found}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: nothing counts.
        """
        weights = self.objective.term_weights
        totals = {name: pairs.sum(0) for name, pairs in rows.items() if name.startswith((TERM, METRIC))}
        if not any(totals[TERM + term][1] for term in weights):
            raise UserError("split", self.split, "holds nothing that the objective counts, so its loss says nothing")
        parts = {term: float(weight) * _mean(totals[TERM + term]) for term, weight in weights.items()}
        found = {"loss": sum(part for term, part in parts.items() if totals[TERM + term][1])}
        found |= {f"loss_{term}": part for term, part in parts.items()} if len(parts) > 1 else {}
        return found | {
            name.removeprefix(METRIC): _mean(total) for name, total in totals.items() if name.startswith(METRIC)
        }


def _mean(total: np.ndarray) -> float:
    """Sum over count; NaN where nothing counts."""
    return float(total[0] / total[1]) if total[1] else float("nan")
