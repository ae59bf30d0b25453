"""BERT as transformers keeps it: with or without `bert.` before the names, norms as weight and bias or as gamma and
beta, and the heads of pretraining, of classes of texts and of words, or none, in and out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models.bert import BERTConfig
from vitzoo.weights.common_rows import dense, layers, norm, projections, table
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import sentence_transformers, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.known import architecture_of
from vitzoo.weights.formats.settings import labels, placeholders, problem_of, same
from vitzoo.weights.rows import Flat, Ignored, Row, write_rows
from vitzoo.weights.tokenizers import special_ids, tokenizer_beside, tokenizer_files

PREFIX = "bert."
BUFFERS = Ignored(r"(bert\.)?embeddings\.(position_ids|token_type_ids)", "0, 1, 2 ..., not weights")
MASK_FOUND = "transformers finds the names of special tokens in a text, as its mask's must be; here others are text"
WITHOUT_CONFIG = "there is no config.json: taken for a BERT, with exact GELU and epsilon 1e-12"
ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
SIZES = {
    "vocabulary_size": "vocab_size",
    "context_length": "max_position_embeddings",
    "sentence_types": "type_vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "mlp_dim": "intermediate_size",
}
"""Our name of a size → that of `config.json`."""
DROPOUTS = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}


class BERT:
    """Of `BertModel` and of `BertFor...` PreTraining, MaskedLM, SequenceClassification and TokenClassification."""

    name = "bert"
    model = "bert"

    def recognises(self, source: Source) -> bool:
        """By the table of kinds of sentences and the first attention."""
        prefix = _prefix(source)
        wanted = ("embeddings.token_type_embeddings.weight", "encoder.layer.0.attention.self.query.weight")
        return all(f"{prefix}{name}" in source.tensors for name in wanted)

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """See `Format.read`. Without `config.json` the number of heads must be given."""
        settings.only(source, ONLY)
        prefix = _prefix(source)
        embeddings = f"{prefix}embeddings"
        vocabulary, width = source.shape(f"{embeddings}.word_embeddings.weight", 2)
        places = source.shape(f"{embeddings}.position_embeddings.weight", 2)[0]
        heads = settings.heads_of(source, "num_attention_heads", given, width)
        depth = source.depth(f"{prefix}encoder.layer.")
        sizes = {
            "vocabulary_size": vocabulary,
            "context_length": places,
            "sentence_types": source.shape(f"{embeddings}.token_type_embeddings.weight", 2)[0],
            "width": width,
            "depth": depth,
            "mlp_dim": source.shape(f"{prefix}encoder.layer.0.intermediate.dense.weight", 2)[0],
        }
        settings.agrees(source, {theirs: sizes[ours] for ours, theirs in SIZES.items()})
        if not source.config and sizes["sentence_types"] == 1:
            raise source.refused("has no config.json, and one kind of sentences as RoBERTa has, which isn't read here")
        head = head_of(source, prefix)
        sentence = sentence_transformers.read(source, places, width)
        tokenizer = tokenizer_beside(source.folder, vocabulary)
        model = {
            "name": "bert",
            **sizes,
            "num_heads": heads,
            "activation": settings.named(source, "hidden_act", "gelu", settings.GELUS),
            "norm_epsilon": settings.epsilon(source, "layer_norm_eps", 1e-12),
            **settings.shares(source, DROPOUTS),
            **head.fields,
            **sentence.fields,
        }
        text = {"sequence_length": sentence.longest or places, "prefix": sentence.prefix, **head.text}
        return Reading(
            model=model,
            rows=(*_body(prefix, depth, heads, _norm_names(source, prefix)), *head.rows),
            ignored=(BUFFERS, *head.ignored),
            objective=head.objective,
            classes=head.classes,
            preprocessing=text,
            tokenizer=sentence.checked(source, tokenizer),
            notes=(*([] if source.config else [WITHOUT_CONFIG]), *head.notes, *sentence.notes),
        )

    def write(self, config: BERTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. A tanh layer that the head doesn't read doesn't go out with classes of words."""
        head = written_head(config, description)
        prefix = "" if config.head_kind == "none" else PREFIX
        content = {
            "architectures": [head.architecture],
            "model_type": "bert",
            **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
            "num_attention_heads": config.num_heads,
            "hidden_act": settings.theirs_of("activation", config.activation, settings.GELUS, "BERT's format"),
            "layer_norm_eps": config.norm_epsilon,
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            **special_ids(tokenizer, "pad"),
            **head.settings,
        }
        rows = [*_body(prefix, config.depth, config.num_heads), *head.rows]
        kept = {path: leaf for path, leaf in params.items() if not path.startswith(head.unread)}
        longest = min(config.context_length, (description.get("preprocessing") or {}).get("sequence_length", 512))
        masking = config.head_kind == "pretraining"
        files = tokenizer_files(tokenizer, opening=True, closing=True, masking=masking, model_max_length=longest)
        if config.head_kind == "none":
            files |= sentence_transformers.files(config, longest)
        found = masking and tokenizer is not None
        return Writing(write_rows(rows, kept), content, files, (MASK_FOUND,) if found else ())


def _prefix(source: Source) -> str:
    return PREFIX if f"{PREFIX}embeddings.word_embeddings.weight" in source.tensors else ""


def _norm_names(source: Source, prefix: str) -> tuple[str, str]:
    """How the file calls scale and bias of a norm: the first files kept TensorFlow's names."""
    old = f"{prefix}embeddings.LayerNorm.gamma" in source.tensors
    return ("gamma", "beta") if old else ("weight", "bias")


def _body(prefix: str, depth: int, heads: int, names: tuple[str, str] = ("weight", "bias")) -> list[Row]:
    """Rows of everything but the heads."""
    block, ours = f"{prefix}encoder.layer.{{i}}", "encoder/blocks/*"
    parts = {part: f"{block}.attention.self.{part}" for part in ("query", "key", "value")}
    return [
        *table(f"{prefix}embeddings.word_embeddings", "embedding"),
        *table(f"{prefix}embeddings.position_embeddings", "position_embedding"),
        *table(f"{prefix}embeddings.token_type_embeddings", "type_embedding"),
        *norm(f"{prefix}embeddings.LayerNorm", "embedding_norm", names=names),
        *layers(
            depth,
            [
                *projections({**parts, "out": f"{block}.attention.output.dense"}, f"{ours}/attention", heads),
                *norm(f"{block}.attention.output.LayerNorm", f"{ours}/norm1", names=names),
                *dense(f"{block}.intermediate.dense", f"{ours}/mlp/up"),
                *dense(f"{block}.output.dense", f"{ours}/mlp/down"),
                *norm(f"{block}.output.LayerNorm", f"{ours}/norm2", names=names),
            ],
        ),
    ]


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
