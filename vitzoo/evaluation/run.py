"""One pass over a dataset: every real example once, whatever the batch, the devices or the workers."""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from vitzoo.config.contracts import ObjectiveSettings
from vitzoo.config.experiment import evaluation_data
from vitzoo.data.inputs import Inputs
from vitzoo.data.pipeline import eval_batches
from vitzoo.data.rows import Spread
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo
from vitzoo.errors import UserError
from vitzoo.evaluation import own_evaluators
from vitzoo.evaluation.classes import ClassMapping, match
from vitzoo.evaluation.settings import Evaluator, Measurer, Outputs, WithClasses, WithObjective
from vitzoo.models.base import ModelConfig
from vitzoo.nn.state import Params, Shapes
from vitzoo.objectives.base import Objective
from vitzoo.parallel.mesh import padded_batch_size
from vitzoo.parallel.sharding import put, replicated, rows_of_this_process
from vitzoo.spelling import are_same
from vitzoo.steps.compile import batch_shapes, compile_eval_step, compiled_together, make_eval_step
from vitzoo.steps.state import memory

Rows = dict[str, np.ndarray]
IN_FLIGHT = 3  # batches computed ahead of the one being fetched, so that the device never waits for the host


def collect(
    eval_step: Callable,
    params: Params,
    batches: Iterable[Mapping[str, np.ndarray]],
    mesh: Mesh,
    seen: Callable | None = None,
) -> Rows:
    """Run `eval_step` over all batches and keep the rows of real examples (weight above 0), in the dataset's order.

    Args:
        eval_step: (params, batch) to arrays of `[batch, ...]`, `example_weight` among them, whole on every process; in
            `sums` arrays by name that are of the whole batch.
        batches: what `eval_batches` yields; their tail is padded with rows of weight 0.
        mesh: where batches are put.
        seen: called with the number of examples after each batch.

    Returns:
        The outputs as NumPy arrays of `[n, ...]`, and `position` int64 `[n]` (index in the dataset, unreadable
        examples counted), and `id` int64 `[n]`. Those of `sums` float64 `[batches, ...]`.
    """
    waiting: collections.deque = collections.deque()
    taken, whole = Taken(), whole_ids(mesh)
    for batch in batches:
        waiting.append((eval_step(params, put(batch, mesh)), whole(batch["id"])))
        if len(waiting) > IN_FLIGHT:
            taken.take(*waiting.popleft())
        if seen:
            seen(taken.n)
    while waiting:
        taken.take(*waiting.popleft())
    return taken.rows()


def whole_ids(mesh: Mesh) -> Callable[[np.ndarray], Callable[[], np.ndarray]]:
    """From the ids of this process's rows, int64, to what gives those of the global batch, once they are fetched."""
    if jax.process_count() == 1:
        return lambda ids: lambda: ids
    # devices may have no 64 bits
    joined = compiled_together(jax.jit(lambda halves: halves, out_shardings=replicated(mesh)))

    def whole(ids: np.ndarray) -> Callable[[], np.ndarray]:
        halves = joined(put({"halves": ids.view(np.int32).reshape(-1, 2)}, mesh)["halves"])
        return lambda: np.ascontiguousarray(halves).view(np.int64)[:, 0]

    return whole


@dataclasses.dataclass
class Taken:
    """Rows fetched so far."""

    parts: list[Rows] = dataclasses.field(default_factory=list)
    offset: int = 0
    n: int = 0

    def take(self, outputs: Outputs, ids: Callable[[], np.ndarray]) -> None:
        """Fetch one batch's outputs and keep its real rows."""
        arrays = {key: np.asarray(value) for key, value in outputs.items() if key != "sums"}
        real = arrays.pop("example_weight") > 0
        arrays["id"] = ids()
        kept = {key: value[real] for key, value in arrays.items()}
        kept["position"] = self.offset + np.flatnonzero(real)
        sums = outputs.get("sums", {})
        assert isinstance(sums, Mapping)
        kept |= {name: np.asarray(value, np.float64)[None] for name, value in sums.items()}
        self.parts.append(kept)
        self.offset += len(real)
        self.n += int(real.sum())

    def rows(self) -> Rows:
        """All of them."""
        if not self.parts:
            raise UserError("split", None, "gave no batch, so there is nothing to evaluate")
        return {key: np.concatenate([part[key] for part in self.parts]) for key in self.parts[0]}


class Evaluation:
    """An evaluator bound to its data and to a model's structure: compiled once, run as often as wanted.

    Args:
        evaluator: the part of the config (`split`, a patch of `data`, `outputs`, `metrics`).
        graph: the model's static structure.
        inputs: how examples become what the model is given.
        config: the model's settings.
        data: the config's data section, which the evaluator patches.
        classes: the names of the model's classes, if known.
        mesh: where batches are put.
        objective: of the training; its `loss` is the evaluator's where that says `auto`.
        bound_objective: gives it bound to its data and model; for evaluators of it.

    Raises:
        UserError: the data is missing, empty, or of classes that aren't the model's.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        graph: nnx.GraphDef,
        *,
        inputs: Inputs,
        config: ModelConfig,
        data: Data,
        classes: tuple[str, ...] | None,
        mesh: Mesh,
        objective: ObjectiveSettings | None = None,
        bound_objective: Callable[[SourceInfo], Objective] | None = None,
    ):
        self.mesh, self.data, inputs = mesh, evaluation_data(data, evaluator), inputs.evaluating(evaluator)
        self.source = evaluator.examples_of(inputs, self.data)
        self.settings = evaluator
        bound = with_loss(evaluator, objective).bind(inputs=inputs, source=self.source, config=config)
        self.evaluator = cast(Measurer, bound)  # or what is told of classes, or of an objective, first
        own_evaluators.check_bound(evaluator, "bind", self.evaluator)
        self.left_out, self._label = evaluator.LEFT_OUT, evaluator.LABEL
        info = self.source.info
        self.classes: ClassMapping | None = None
        if evaluator.CLASSES:
            logits = getattr(config, "num_classes", None)
            if not logits:
                raise UserError("name", type(evaluator).__name__, "measures classes, and the model tells none apart")
            restrict = not getattr(evaluator, "all_classes", False)
            count = len(info.classes or ()) or logits
            self.classes = match(classes, logits, info.classes, count, restrict=restrict)
            self.evaluator = cast(WithClasses, self.evaluator).of_classes(self.classes.names)
            own_evaluators.check_bound(evaluator, "of_classes", self.evaluator)
        self.examples = inputs.rows(self.source, self.data, config, train=False)
        if (most := getattr(evaluator, "max_rows", None)) is not None:
            self.examples = Spread(self.examples, most)
        self.objective: Objective | None = None
        if evaluator.OBJECTIVE:
            assert bound_objective is not None
            _check_numbers(classes, info)
            sizes = self.data.batch_size, padded_batch_size(self.data.batch_size, mesh)
            self.objective = bound_objective(self.examples.info)
            self.evaluator = cast(WithObjective, self.evaluator).of_objective(self.objective, sizes)
        prepare = inputs.prepare(config, info, train=False)
        # where the parameters lie is left to the parameters: one compilation serves raw and averaged ones
        self._step = compile_eval_step(make_eval_step(graph, self._outputs, prepare), mesh)

    def _outputs(self, model: Callable, batch: Mapping[str, jax.Array], **beside: Any) -> Outputs:
        if self.classes is not None:
            label = self.classes.relabel(batch[self._label])
            model, batch = self.classes.select(model), {**batch, self._label: label}
        outputs = self.evaluator.outputs(model, batch, **beside)
        own_evaluators.check_outputs(self.settings, outputs, len(batch["example_weight"]))
        return outputs

    def _beside(self, state: Params | Shapes | None) -> dict[str, Any]:
        if self.objective is None:
            return {}
        known = {"step": np.int32(0)} if state is None else state
        return {"step": known["step"], "memory": memory(known)}

    def rows(self, params: Params, seen: Callable | None = None, state: Params | None = None) -> Rows:
        """What the evaluator keeps of each real example, in the dataset's order.

        Args:
            params: the parameters.
            seen: called with the number of examples after each batch.
            state: the training's, for an evaluator of the objective; without one, the step is 0.
        """
        batch_size = padded_batch_size(self.data.batch_size, self.mesh)
        part = rows_of_this_process(batch_size, self.mesh)
        batches = eval_batches(self.examples, self.data, batch_size=batch_size, part=part)
        beside, firsts = self._beside(state), itertools.count(0, batch_size)
        return collect(
            lambda params, batch: self._step(params, batch, next(firsts), beside), params, batches, self.mesh, seen
        )

    def trace(self, params: Shapes, state: Shapes | None = None) -> None:
        """Goes through one batch without computing it, so that what is wrong with the evaluator or the model shows.

        Args:
            params: the parameters' shapes.
            state: as in `rows`, its shapes.
        """
        size = padded_batch_size(self.data.batch_size, self.mesh)
        shapes = batch_shapes(self.examples.padding(), size)
        jax.eval_shape(
            lambda params, batch, beside: self._step(params, batch, 0, beside),
            params,
            shapes,
            self._beside(state),
        )

    def metrics(self, rows: Rows) -> dict[str, float]:
        """The evaluator's metrics of those rows."""
        found = self.evaluator.metrics(rows, 0 if self.classes is None else self.classes.count)
        return own_evaluators.checked_metrics(self.settings, found)

    def __call__(self, params: Params) -> dict[str, float]:
        """One pass: `n` (real examples) and the metrics."""
        rows = self.rows(params)
        return {"n": len(rows["position"]), **self.metrics(rows)}


def _check_numbers(model: tuple[str, ...] | None, info: SourceInfo) -> None:
    """Refuses labels that aren't numbered as the model's classes are: an objective takes them as they stand."""
    if model is not None and info.classes is not None and not are_same(model, info.classes):
        message = "has other classes than the model, or in another order, and an objective takes labels by number"
        raise UserError("data.name", info.name, message)


def with_loss(evaluator: Evaluator, objective: ObjectiveSettings | None) -> Evaluator:
    """The evaluator with the objective's kind of loss, where it leaves that open and both know one."""
    if objective is None or getattr(evaluator, "loss", None) != "auto" or not hasattr(objective, "loss"):
        return evaluator
    changes: dict[str, Any] = {"loss": objective.loss}
    return dataclasses.replace(evaluator, **changes)
