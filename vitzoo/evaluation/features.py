"""What evaluators of frozen features share: two splits in one pass, of each example its features and its class."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo import spelling
from vitzoo.data.inputs import Inputs
from vitzoo.data.rows import Row
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, fingerprint, refuse_unlabelled
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.evaluation.settings import Evaluator, Rows
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.inputs import given
from vitzoo.schema import setting


class Both:
    """The examples of `train`, then those of `test`; `first` is how many come first.

    Raises:
        UserError: their classes aren't the same, or some of the examples are.
    """

    def __init__(self, train: Source, test: Source):
        refuse_unlabelled(train.info)
        if not _same_names(train.info.classes, test.info.classes):
            raise UserError("train_split", train.info.split, f"has other classes than {test.info.split}")
        if shared := len(np.intersect1d(train.ids, test.ids)):
            message = f"holds {shared:,} of the examples to be measured, {test.info.split}; name others"
            raise UserError("train_split", train.info.split, message)
        self.parts, self.first = (train, test), len(train)
        self.ids = np.concatenate([train.ids, test.ids])
        self.fields = test.fields
        infos = (train.info, test.info)
        files = None
        if all(info.files is not None for info in infos):
            files = [name for info in infos for name in info.files or ()]
        self.info = dataclasses.replace(
            test.info,
            split=f"{test.info.split} ({len(test):,}), learning from {train.info.split} ({len(train):,})",
            n=len(train) + len(test),
            fingerprint=fingerprint(train.info.fingerprint, test.info.fingerprint),
            files=files,
            labels=self.labels,
        )

    def labels(self) -> np.ndarray:
        return np.concatenate([part.info.labels() for part in self.parts])

    def __len__(self) -> int:
        return len(self.ids)

    def _place(self, index: int) -> tuple[Source, int]:
        train, test = self.parts
        return (train, index) if index < self.first else (test, index - self.first)

    def __getitem__(self, index: int) -> Row:
        part, own = self._place(int(index))
        return part[own]

    def where(self, index: int) -> str:
        part, own = self._place(int(index))
        return part.where(own)


def _same_names(ours: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    return ours == others if ours is None or others is None else spelling.are_same(ours, others)


@dataclasses.dataclass(frozen=True)
class FrozenEvaluator(Evaluator, abc.ABC):
    """The settings of an evaluator that learns from the features of `train_split` and is measured on those of `split`.

    The model's head takes no part, so that its classes may be others, or none.
    """

    train_split: str = setting("train", "examples to learn from, of the same data", execution=True)
    features: str = setting(
        "pooled", "which of `features(x)`: pooled, what the head gets; block_3, tokens, ...", execution=True
    )
    reduce: str = setting(
        "mean", "of features of each token: their mean, or the first token's", choices=("mean", "first"), execution=True
    )

    ROWS: ClassVar[tuple[str, ...]] = ("labelled",)

    def examples_of(self, inputs: Inputs, data: Data) -> Both:
        """Those to learn from, then those to measure."""
        test = inputs.source(data)
        try:
            train = inputs.source(data, self.train_split)
        except UserError as refusal:
            if refusal.field != "data.split":
                raise
            raise UserError("train_split", refusal.value, refusal.message) from None
        return Both(train, test)

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "FeatureMeasurer":
        """Refuses data without one class to an example."""
        if inputs.row_kind not in (EXAMPLES, "labelled"):
            raise UserError("name", type(self).__name__, f"measures labelled rows, and these are {inputs.row_kind}")
        assert isinstance(source, Both)
        info = source.info
        if info.multi_label or info.classes is None:
            has = "several labels to an example" if info.multi_label else "no classes"
            raise UserError("data.name", info.name, f"has {has}; features are measured by one class each")
        return FeatureMeasurer(self, source.first, len(info.classes))

    @abc.abstractmethod
    def measure(self, train: "Examples", test: "Examples", classes: int) -> dict[str, float]:
        """The metrics.

        Args:
            train: the examples to learn from.
            test: those to measure.
            classes: how many the data have.
        """


@dataclasses.dataclass(frozen=True)
class Examples:
    """Features float64 [n, width] and classes int64 [n]."""

    features: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureMeasurer:
    """An evaluator of frozen features bound to its data.

    Args:
        settings: the evaluator.
        first: how many of the examples are there to learn from; they come first.
        classes: of the data.
    """

    settings: FrozenEvaluator
    first: int
    classes: int

    def metric_names(self, multi_label: bool, classes: int | None) -> tuple[str, ...]:
        """The metrics that a best checkpoint can be chosen by."""
        return tuple(self.settings.BETTER)

    def outputs(self, model: nnx.Module, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each example, computed on device: `features` float32 [batch, width], `label` int32."""
        settings = self.settings
        features = features_of(model, batch, settings.features, settings.reduce).astype(jnp.float32)
        return {"example_weight": batch["example_weight"], "features": features, "label": batch["label"]}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host, and `n`, the examples that were measured.

        Raises:
            UserError: there is nothing to learn from, or nothing to measure.
        """
        learned = rows["position"] < self.first
        if learned.all() or not learned.any():
            field = "split" if learned.any() else "train_split"
            raise UserError(field, getattr(self.settings, field), "holds no readable example")
        train, test = (
            Examples(rows["features"][part].astype(np.float64), rows["label"][part].astype(np.int64))
            for part in (learned, ~learned)
        )
        if not (np.isfinite(train.features).all() and np.isfinite(test.features).all()):
            raise UserError(
                "features", self.settings.features, "are not all finite, so nothing can be learned from them"
            )
        return {"n": len(test), **self.settings.measure(train, test, self.classes)}


@runtime_checkable
class WithFeatures(Protocol):
    """A model that says what its head sees."""

    def features(self, *inputs: jax.Array, **others: jax.Array) -> Mapping[str, jax.Array]:
        """By name, `pooled` [batch, width] and `logits` among them."""
        ...


def features_of(model: nnx.Module, batch: Mapping[str, jax.Array], name: str, reduce: str) -> jax.Array:
    """One of a model's features of each example, [batch, width].

    Args:
        model: has `features`.
        batch: `image`, or `tokens` and what tells where they stand.
        name: a key of what `features` gives.
        reduce: of features of each token, `mean` (padding left out) or `first`.

    Raises:
        UserError: the model has no such features.
    """
    if not isinstance(model, WithFeatures):
        raise UserError("features", name, f"{type(model).__name__} has no `features`")
    first, others = given(model, batch)
    seen = model.features(first, **others)
    if name not in seen:
        raise UserError("features", name, f"no such features; there are {', '.join(seen)}")
    found = seen[name]
    if found.ndim == 3:
        found = found[:, 0] if reduce == "first" else _mean(found, batch.get("tokens_segments"))
    if found.ndim != 2:
        raise UserError(
            "features", name, f"have the shape {found.shape}; wanted is [batch, width] or [batch, tokens, width]"
        )
    return found


def _mean(tokens: jax.Array, segments: jax.Array | None) -> jax.Array:
    tokens = tokens.astype(jnp.float32)
    if segments is None:
        return tokens.mean(1)
    real = (segments > 0)[..., None]
    return jnp.where(real, tokens, 0).sum(1) / jnp.maximum(real.sum(1), 1)


def by_number(prefix: str, numbers: tuple[int, ...], suffix: str = "") -> dict[str, Callable]:
    """Metrics of which more is better, one for each number."""
    return {f"{prefix}{number}{suffix}": max for number in numbers}


def check_some(field: str, numbers: tuple) -> None:
    """Refuses an empty list of numbers to measure by."""
    if not numbers:
        raise UserError(field, "()", "must list a number at least")


def standardised(train: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Features [n, width] of each with mean 0 and deviation 1 in `train`; what doesn't vary there becomes about 0."""
    mean, deviation = train.mean(0), train.std(0) + 1e-5
    return [(features - mean) / deviation for features in (train, *others)]
