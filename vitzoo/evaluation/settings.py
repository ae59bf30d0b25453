"""What all evaluators share: which examples, and when; and their faults, named by the setting as a user writes it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, cast, runtime_checkable

import jax
import numpy as np

from vitzoo.data.inputs import Inputs
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.base import Objective
from vitzoo.schema import setting
from vitzoo.strict_json import JSON

Rows = Mapping[str, np.ndarray]
"""What a pass keeps: by name, an array with an entry for each example."""

Outputs = Mapping[str, jax.Array | Mapping[str, jax.Array]]
"""What is computed of a batch: by name, `[batch, ...]`; in `sums`, by name, of the whole batch."""


class Measurer(Protocol):
    """An evaluator bound to its data and to a model."""

    @property
    def outputs(self) -> Callable[..., Outputs]:
        """What a pass keeps, computed on device; of an objective's evaluator, given `step` and `memory` besides.

        Args:
            model: with its variables.
            batch: by name.
        """

    def metrics(self, rows: Rows, num_classes: int) -> dict[str, float]:
        """The metrics of a pass, on the host.

        Args:
            rows: what `outputs` gave of the real examples.
            num_classes: how many the logits distinguish; 0 where they are of no classes.
        """
        ...


@runtime_checkable
class WithClasses(Protocol):
    """What measures classes, whose names it is told."""

    def of_classes(self, names: tuple[str, ...] | None) -> Measurer:
        """See `Evaluator.of_classes`."""
        ...


@runtime_checkable
class WithObjective(Protocol):
    """What measures what is trained for, which it is told."""

    def of_objective(self, objective: Objective, sizes: tuple[int, int]) -> Measurer:
        """See `evaluation.objective`."""
        ...


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """The settings of any evaluator."""

    split: str = setting("validation", "which examples, in TFDS's syntax", execution=True)
    data: dict = setting(factory=dict, help="what differs from config.data, for instance another name", execution=True)
    inputs: dict = setting(factory=dict, help="what differs from config.inputs, by input", execution=True)
    every_steps: int | None = setting(None, "evaluate after this many steps", minimum=1, execution=True)
    every_epochs: float | None = setting(None, "evaluate after this many epochs", above=0, execution=True)
    every_examples: int | None = setting(None, "evaluate after this many examples", minimum=1, execution=True)
    batch_size: int | None = setting(None, "global; as in training unless set", minimum=1, execution=True)

    CLASSES: ClassVar[bool] = False
    """Whether it measures logits of classes, which are matched with the data's by name, and gives for each example all
    that `ClassificationEvaluator` does."""
    ROWS: ClassVar[tuple[str, ...]] = ()
    """Of text, the kinds of rows that it measures (see `data.text.rows`); empty: all that the model reads."""
    LABEL: ClassVar[str] = "label"
    """The array of a batch that holds those classes, by number."""
    OBJECTIVE: ClassVar[bool] = False
    """Whether it measures what is trained for, which is handed to `of_objective`."""
    LEFT_OUT: ClassVar[str] = "unreadable"
    """What becomes of examples that have no part in the metrics."""
    BETTER: ClassVar[dict[str, Callable]] = {}
    """Whether `max` or `min` is the better, for each metric by which a best checkpoint may be chosen."""

    def check(self) -> None:
        """Raises:
        UserError: two intervals, or a split in two places.
        """
        given = [f for f in ("every_steps", "every_epochs", "every_examples") if getattr(self, f) is not None]
        if len(given) > 1:
            raise UserError(given[1], getattr(self, given[1]), f"can't be set with {given[0]}; set one of them")
        if "split" in self.data:
            raise UserError("data.split", self.data["split"], "belongs one level up: the evaluator's own split")

    def examples_of(self, inputs: Inputs, data: Data) -> Source:
        """The examples that it goes through, by default those of `data`."""
        return inputs.source(data)

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "Measurer | WithClasses | WithObjective":
        """What measures these data: has `outputs(model, batch)` and `metrics(rows, num_classes)`. By default itself.

        Args:
            inputs: how examples become what the model is given; that of text has the tokenizer.
            source: the examples.
            config: the model's settings.
        """
        return self

    def of_classes(self, names: tuple[str, ...] | None) -> "Measurer":
        """What measures classes of these names (None: nobody knows any), where it has `CLASSES`. By default itself."""
        return cast(Measurer, self)


@dataclasses.dataclass(frozen=True)
class TextEvaluator(Evaluator):
    """The settings of an evaluator of text."""

    rows: str = setting("", "what a row holds, as in config.objective; empty: as there", execution=True)


@runtime_checkable
class WithSignatures(Protocol):
    """An evaluator, bound, with metrics that others repeat only if they know how they were counted."""

    def signatures(self, rows: Rows) -> dict[str, str]:
        """By metric, what others need to repeat it."""
        ...


@runtime_checkable
class WithPredictions(Protocol):
    """An evaluator, bound, that says something of each example of which no class or number is right."""

    def predictions(self, rows: Rows) -> Sequence[Mapping[str, JSON]]:
        """The rows of a table, one for each example."""
        ...


@runtime_checkable
class WithExamples(Protocol):
    """An evaluator, bound, that keeps several examples in a row: a text's words."""

    def examples(self, rows: Rows) -> Rows:
        """They, one below the other."""
        ...


def check_rows(
    evaluator: str, inputs: Inputs, config: ModelConfig, rows: str, head: str, *, or_examples: bool = False
) -> None:
    """Refuses what an evaluator of an encoder can't measure.

    Args:
        evaluator: its name.
        inputs: that of the evaluation.
        config: the model's settings.
        rows: what a row has to hold, a key of `data.processors.text.MAKERS`.
        head: what the model's head has to give, where its settings say.
        or_examples: whether rows that are an example each, of whatever kind, are measured too.

    Raises:
        UserError: the rows are others, or the head is another.
    """
    given = inputs.row_kind
    if or_examples and given == EXAMPLES:
        return
    if given != rows:
        raise UserError("name", evaluator, f"measures {rows} rows, and these are {given}")
    if (theirs := getattr(config, "head", head)) != head:
        raise UserError("name", evaluator, f"measures a model with the head {head}; this one's is {theirs}")


SHORT = ("split", "batch_size")
"""Settings of the data that an evaluator has itself."""


def of_evaluator(name: str, evaluator: "Evaluator", refusal: UserError) -> UserError:
    """A refusal seen from outside an evaluator.

    Args:
        name: the evaluator's, `val`.
        evaluator: its settings.
        refusal: of one of them (`rows`), of one that it changes (`data.name`), of one of the config's that it leaves as
            it is, or of a flag.
    """
    section, dot, field = refusal.field.partition(".")
    if section == "data" and field in SHORT:
        return UserError(f"evaluate.{name}.{field}", refusal.value, refusal.message)
    changed = getattr(evaluator, section, None)
    if section.startswith("--") or (dot and not (isinstance(changed, dict) and field in changed)):
        return refusal
    return refusal.under(f"evaluate.{name}")
