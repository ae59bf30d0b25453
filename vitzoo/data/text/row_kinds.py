"""Which rows of text there are, which models read them, and which settings of the text act on them.

The checks see a config alone: what an objective teaches and an evaluator measures, before anything is built.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from vitzoo.errors import UserError
from vitzoo.registry import PARTS, find
from vitzoo.schema import Settings, annotations
from vitzoo.spelling import either, nearest
from vitzoo.strict_json import JSON

LEARNED = {
    "decoder": ("windows", "documents", "answers", "prefix"),
    "encoder_decoder": ("pairs", "span_corruption", "prefix"),
    "encoder": ("masked", "labelled", "tagged"),
}
"""Rows that models of each kind learn from."""
ASKED = ("prompts", "choices", "last_word")
"""Rows on which models that write are measured, whatever they learned from."""
EXAMPLES = "examples"
"""Rows that are one example each, of whatever kinds, as the data have it."""
ROWS = tuple(dict.fromkeys([*(rows for several in LEARNED.values() for rows in several), *ASKED]))

ACTS = {
    "packing": ("documents", "answers", "prefix", "pairs", "masked"),
    "random_offsets": ("windows",),
    "noise_density": ("span_corruption",),
    "mean_span": ("span_corruption",),
    "roll_spans": ("span_corruption",),
    "mask_rate": ("masked",),
    "whole_words": ("masked",),
    "next_sentence": ("masked",),
    "turn_prefix": ("answers", "prompts"),
    "turn_suffix": ("answers", "prompts"),
    "answer_roles": ("answers", "prompts"),
    "prefix": (*(rows for rows in ROWS if rows != "tagged"), EXAMPLES),
}
"""Settings of the text that say how rows are made, and of which."""


def readers_of(rows: str) -> tuple[str, ...]:
    """The kinds of models that learn from such rows; none of rows on which models are only measured."""
    return tuple(kind for kind, several in LEARNED.items() if rows in several)


def has_source(rows: str, kind: str) -> bool:
    """Whether such rows have a source beside the target, for a model of a kind."""
    readers = readers_of(rows)
    return "encoder_decoder" in readers and (kind == "encoder_decoder" or len(readers) == 1)


def read_by(kind: str | None) -> tuple[str, ...]:
    """The rows that a model of a kind reads; all where the kind isn't known."""
    if kind is None:
        return ROWS
    return LEARNED[kind] + (() if kind == "encoder" else ASKED)


KINDS = {
    "decoder": ("a decoder", "causal_lm"),
    "encoder_decoder": ("an encoder-decoder", "seq2seq"),
    "encoder": ("an encoder", "masked_lm, sequence_classification, token_classification or regression"),
}
"""A kind of model of text in words, and what models of it learn."""


def models_of(kind: str) -> str:
    """The models of a kind, for messages."""
    classes = {name: find("model", name).Config for name in PARTS["model"]}  # type: ignore[attr-defined]
    return " or ".join(name for name, config_class in classes.items() if getattr(config_class, "KIND", "") == kind)


def kind_of(config_class: type) -> str | None:
    """The kind of a model of text, where its settings declare one.

    Args:
        config_class: the model's `Config`, of which `KIND` says it, or a start id, which an encoder-decoder has.

    Raises:
        UserError: there is no such kind.
    """
    if not hasattr(config_class, "KIND"):
        return "encoder_decoder" if "start_id" in annotations(config_class) else None
    kind = config_class.KIND
    if kind not in KINDS:
        raise UserError("model.name", config_class.__name__, f"its KIND is {kind!r}; there are {', '.join(KINDS)}")
    return kind


def check_learns(name: str, config_class: type, rows: str) -> None:
    """Checks that a model of text reads the rows that an objective teaches.

    Args:
        name: the model's.
        config_class: its `Config`.
        rows: the objective's.

    Raises:
        UserError: it is of another kind.
    """
    kind, wanted = kind_of(config_class), readers_of(rows)
    if kind is None or not wanted or kind in wanted:
        return
    if wanted == ("encoder",) and ":" in name:  # what a user's own can learn of these, its head says: see `check_head`
        return
    own, objectives = KINDS[kind]
    readers, models = " or ".join(KINDS[reader][0] for reader in wanted), ", ".join(map(models_of, wanted))
    message = f"is {own}, and rows of {rows} are for {readers}: take {models}, or objective.name={objectives}"
    raise UserError("model.name", name, message)


def check_prefix(name: str, config_class: type, stated: JSON, wanted: bool) -> None:
    """Checks that a decoder can read a prefix in both directions where an objective teaches it.

    Args:
        name: the model's.
        config_class: its `Config`; that of a decoder which can has `prefix_lm`.
        stated: what the config states of that; None for nothing.
        wanted: whether the objective teaches it.

    Raises:
        UserError: it can't, or the config states the contrary.
    """
    if "prefix_lm" not in annotations(config_class):
        if wanted and kind_of(config_class) in (None, "decoder"):
            message = "has no setting prefix_lm, so it can't read a prefix in both directions: take gpt"
            raise UserError("model.name", name, message)
    elif stated not in (None, wanted):
        other = "causal_lm" if wanted else "prefix_lm"
        raise UserError("model.prefix_lm", stated, f"isn't what this objective learns; take objective.name={other}")


def check_head(name: str, config_class: type, head: JSON, wanted: str) -> None:
    """Checks that a model of text has room for the head that an objective teaches.

    Args:
        name: the model's.
        config_class: its `Config`; that of an encoder has `head`.
        head: what the config states of it; None for nothing.
        wanted: the head that the objective teaches; empty where it wants the next token.

    Raises:
        UserError: it hasn't.
    """
    if not wanted:
        return
    hints = annotations(config_class)
    if "head" not in hints and not ("classes" in wanted and "num_classes" in hints):
        message = f"has no head for this objective ({wanted}): take {models_of('encoder')}"
        text = "" if wanted == "pretraining" else ", or let it answer in text (objective.name=seq2seq)"
        raise UserError("model.name", name, message + text)
    if "head" in hints and head not in (None, "auto", wanted):
        raise UserError("model.head", head, f"isn't what this objective learns, {wanted}; leave it out")


def check_rows(rows: str) -> None:
    """Checks what an objective says of its rows.

    Raises:
        UserError: there are no such rows.
    """
    if rows not in ROWS:
        raise UserError("objective.rows", rows or "''", f"no such rows; {nearest(str(rows), ROWS)}")


class Measuring(Protocol):
    """An evaluator's settings; those of text may have `rows`."""

    ROWS: ClassVar[tuple[str, ...]]


def check_evaluator(
    field: str, part: str, evaluator: Measuring, rows: str | None, model: str, config_class: type | None
) -> None:
    """Checks that an evaluator measures what its model reads.

    Args:
        field: the setting that holds it, `evaluate.val`.
        part: its name in the config, `perplexity`.
        evaluator: its settings.
        rows: the objective's; None where that takes images.
        model: the model's name; empty where only a checkpoint knows it.
        config_class: the model's `Config`; None where only a checkpoint knows it.

    Raises:
        UserError: it measures other rows, or the model reads others.
    """
    measured: tuple[str, ...] = evaluator.ROWS
    if rows is None:
        if hasattr(evaluator, "rows"):
            raise UserError(f"{field}.name", part, "measures text, and the objective takes images")
        return
    kind = None if config_class is None else kind_of(config_class)
    readable = {*read_by(kind), rows}
    known = [one for one in measured or ROWS if one in readable]
    if not known:
        wanted = " or ".join(dict.fromkeys(KINDS[reader][0] for reader in _readers(measured)))
        raise UserError(f"{field}.name", part, f"measures {wanted}, and {model} is {KINDS[kind or 'decoder'][0]}")
    stated = getattr(evaluator, "rows", "")
    if (stated or rows) in known:
        return
    if stated:
        whose = f"of {model} {part} measures" if model else f"{part} measures"
        raise UserError(f"{field}.rows", stated, f"{whose} rows of {either(known)}; empty: as in the objective")
    raise UserError(f"{field}.name", part, f"measures {either(known)} rows, and these are {rows}")


def rows_of(objective: Settings, evaluators: Mapping[str, Settings]) -> list[str]:
    """The rows that text makes for an objective and its evaluators."""
    rows = getattr(objective, "rows", EXAMPLES)
    return [rows, *(getattr(one, "rows", "") or rows for one in evaluators.values())]


def _readers(rows: Sequence[str]) -> list[str]:
    """The kinds of models that read any of these rows."""
    return [kind for kind in LEARNED if set(read_by(kind)) & set(rows)]
