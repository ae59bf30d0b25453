"""The heads of transformers' BERTs, in and out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models.bert import BERTConfig
from vitzoo.weights.common_rows import dense, norm
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.labels import labels, placeholders
from vitzoo.weights.formats.model_types import architecture_of
from vitzoo.weights.formats.settings import problem_of, same
from vitzoo.weights.rows import Ignored, Row

MASKED = "cls.predictions"
DECODER = f"{MASKED}.decoder"
NEXT = "cls.seq_relationship"
CLASSES = "classifier"
UNREAD = Ignored(r"(bert\.)?pooler\.dense\.(weight|bias)", "a layer on the first token that this head doesn't read")


@dataclasses.dataclass(frozen=True)
class Head:
    """What a file's head is.

    Attributes:
        kind: `head` of our Config.
        fields: of our Config.
        rows: of the head, and of the layer on the first token.
        objective: what it is for.
        text: fields of `data.text.settings.Text`.
        classes: names by index.
        ignored: names to leave aside.
        notes: for the report.
    """

    kind: str
    fields: Mapping[str, Any]
    rows: tuple[Row, ...]
    objective: Mapping[str, Any]
    text: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    ignored: tuple[Ignored, ...] = ()
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class WrittenHead:
    """A head on its way out.

    Attributes:
        architecture: transformers' class.
        rows: of the head, and of the layer on the first token.
        settings: of `config.json`.
        unread: leaves that stay behind, as a prefix of their paths.
    """

    architecture: str
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    unread: tuple[str, ...] = ()


def head_of(source: Source, prefix: str) -> Head:
    """The head of a file, by its names and `config.json`.

    Raises:
        UserError: it is one that no model here has.
    """
    architecture = architecture_of(source)
    pooler = f"{prefix}pooler.dense.weight" in source.tensors
    if f"{MASKED}.bias" in source.tensors:
        return _pretraining(source, prefix, pooler)
    if f"{CLASSES}.weight" in source.tensors:
        return _classes(source, prefix, pooler, architecture)
    fields = {"head": "none", "pooler": pooler}
    return Head("none", fields, _pooler_rows(prefix, pooler), {"name": "masked_lm"})


def written_head(config: BERTConfig, description: Mapping[str, Any]) -> WrittenHead:
    """The head of a model of ours."""
    kind, prefix = config.head_kind, "" if config.head_kind == "none" else "bert."
    pooler = _pooler_rows(prefix, config.has_pooler)
    if config.head_input not in (None, "pooler"):
        message = "has no place in transformers' BERT, whose heads of a text read the pooler"
        raise UserError("model.head_reads", config.head_reads, message)
    if kind == "pretraining":
        architecture = "BertForPreTraining" if config.pooler else "BertForMaskedLM"
        return WrittenHead(architecture, (*pooler, *_pretraining_rows(config.pooler)), {"tie_word_embeddings": True})
    if kind == "none":
        return WrittenHead("BertModel", pooler, {})
    outputs = 1 if kind == "number" else config.num_classes or 0
    names = description.get("classes") or placeholders(outputs)
    by_index = {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {n: i for i, n in enumerate(names)},
    }
    head = tuple(dense(CLASSES, "head"))
    if kind == "token_classes":
        return WrittenHead("BertForTokenClassification", head, by_index, ("pooler/",))
    sigmoid = (description.get("objective") or {}).get("loss") == "sigmoid"
    problem = "multi_label_classification" if sigmoid else "single_label_classification"
    problem = "regression" if kind == "number" else problem
    return WrittenHead("BertForSequenceClassification", (*pooler, *head), {**by_index, "problem_type": problem})


def _pretraining(source: Source, prefix: str, pooler: bool) -> Head:
    """Masked tokens, with or without the next sentence."""
    follows = f"{NEXT}.weight" in source.tensors
    for copy, tied in (
        (f"{DECODER}.weight", f"{prefix}embeddings.word_embeddings.weight"),
        (f"{DECODER}.bias", f"{MASKED}.bias"),
    ):
        if copy in source.tensors and not same(source, copy, tied):
            raise source.refused(f"has {copy} that isn't {tied}; here the head of masked tokens shares it")
    old = f"{MASKED}.transform.LayerNorm.gamma" in source.tensors
    rows = _pretraining_rows(follows, ("gamma", "beta") if old else ("weight", "bias"))
    ignored = (Ignored(r"cls\.predictions\.decoder\.(weight|bias)", "the embedding and the bias again"),)
    return Head(
        "pretraining",
        {"head": "pretraining", "pooler": follows},
        (*_pooler_rows(prefix, pooler and follows), *rows),
        {"name": "masked_lm"},
        ignored=ignored if follows else (*ignored, UNREAD),
    )


def _classes(source: Source, prefix: str, pooler: bool, architecture: str) -> Head:
    """Classes of texts or of words, or a number."""
    outputs = source.shape(f"{CLASSES}.weight", 2)[0]
    names, problem = labels(source, outputs), problem_of(source)
    rows = tuple(dense(CLASSES, "head"))
    if architecture == "BertForTokenClassification" or (not architecture and not pooler):
        fields = {"head": "token_classes", "pooler": False, "num_classes": outputs}
        return Head("token_classes", fields, rows, {"name": "token_classification"}, {}, names, (UNREAD,))
    problem = problem or ("regression" if outputs == 1 else "single_label_classification")
    rows = (*_pooler_rows(prefix, True), *rows)
    if problem == "regression":
        if outputs != 1:
            raise source.refused(f"tells {outputs} numbers of a text; here a head tells one")
        return Head("number", {"head": "number"}, rows, {"name": "regression"}, {"regression": True})
    loss = {"loss": "sigmoid"} if problem == "multi_label_classification" else {}
    fields = {"head": "classes", "num_classes": outputs}
    return Head("classes", fields, rows, {"name": "sequence_classification", **loss}, {}, names)


def _pooler_rows(prefix: str, there: bool) -> tuple[Row, ...]:
    return tuple(dense(f"{prefix}pooler.dense", "pooler")) if there else ()


def _pretraining_rows(follows: bool, names: tuple[str, str] = ("weight", "bias")) -> tuple[Row, ...]:
    return (
        *dense(f"{MASKED}.transform.dense", "masked_dense"),
        *norm(f"{MASKED}.transform.LayerNorm", "masked_norm", names=names),
        Row(f"{MASKED}.bias", "masked_bias"),
        *(dense(NEXT, "next_sentence") if follows else ()),
    )
