"""Which model, objective, evaluators and text go together: seen from the config alone, before anything is built."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.data.settings import Data
from vitzoo.data.text.rows import ACTS, EXAMPLES, LEARNED, ROWS, read_by, readers_of
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.registry import PARTS, find
from vitzoo.schema import annotations
from vitzoo.spelling import nearest

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
    readers, models = (
        " or ".join(KINDS[reader][0] for reader in wanted),
        ", ".join(map(models_of, wanted)),
    )
    message = f"is {own}, and rows of {rows} are for {readers}: take {models}, or objective.name={objectives}"
    raise UserError("model.name", name, message)


def check_prefix(name: str, config_class: type, stated: Any, wanted: bool) -> None:
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


def check_head(name: str, config_class: type, head: Any, wanted: str) -> None:
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


def needs_classes(objective: Any, evaluators: Mapping[str, Any]) -> str:
    """The setting of what needs a model of images to give logits [batch, num_classes], `objective` or `evaluate.val`;
    empty where nothing does.

    Objectives and evaluators say so by `CLASSES`.
    """
    needing = {"objective": objective, **{f"evaluate.{key}": evaluator for key, evaluator in evaluators.items()}}
    return next((field for field, part in needing.items() if getattr(part, "CLASSES", False)), "")


def check_rows(rows: str) -> None:
    """Checks what an objective says of its rows.

    Raises:
        UserError: there are no such rows.
    """
    if rows not in ROWS:
        raise UserError("objective.rows", rows or "''", f"no such rows; {nearest(str(rows), ROWS)}")


def check_evaluator(field: str, part: str, evaluator: Any, rows: str | None, model: str, config_class: Any) -> None:
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
        raise UserError(f"{field}.rows", stated, f"{whose} rows of {_listed(known)}; empty: as in the objective")
    raise UserError(f"{field}.name", part, f"measures {_listed(known)} rows, and these are {rows}")


def check_acts(text: Text, rows: Sequence[str], data: Data) -> None:
    """Checks that each stated setting of the text acts on some rows.

    Args:
        text: the settings.
        rows: those of the objective and of the evaluators.
        data: how they are read.

    Raises:
        UserError: one has no effect.
    """
    for name, are in (("paired", "pairs of texts"), ("chat", "conversations")):
        if (value := getattr(text, name)) is not None:
            raise UserError(f"inputs.tokens.{name}", value, f"can't be set: the training data are {are} or aren't")
    if text.fields:
        raise UserError(
            "inputs.tokens.fields", text.fields, "can't be set: data.text_field, source_field ... name them"
        )
    plain = Text()
    changed = {
        f"inputs.tokens.{name}": acts for name, acts in ACTS.items() if getattr(text, name) != getattr(plain, name)
    }
    changed |= {"data.regression": ("labelled",)} if data.regression else {}
    for field, acts in changed.items():
        if not set(acts) & set(rows):
            message = f"has no effect on rows of {_listed(list(dict.fromkeys(rows)))}; it acts on {_listed(acts)}"
            section, _, name = field.rpartition(".")
            raise UserError(field, getattr(data if section == "data" else text, name), message)


def rows_of(objective: Any, evaluators: Mapping[str, Any]) -> list[str]:
    """The rows that text makes for an objective and its evaluators."""
    rows = getattr(objective, "rows", EXAMPLES)
    return [rows, *(getattr(one, "rows", "") or rows for one in evaluators.values())]


def _readers(rows: Sequence[str]) -> list[str]:
    """The kinds of models that read any of these rows."""
    return [kind for kind in LEARNED if set(read_by(kind)) & set(rows)]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
