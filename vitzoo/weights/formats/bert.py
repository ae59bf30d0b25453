"""BERT as transformers keeps it: with or without `bert.` before the names, norms as weight and bias or as gamma and
beta, and the heads of pretraining, of classes of texts and of words, or none, in and out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.data.inputs import input_of
from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.bert import BERTConfig
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats import sentence_transformers, settings
from vitzoo.weights.formats.registry import Reading, Writing, architecture_of
from vitzoo.weights.formats.settings import labels, problem_of, same, written_labels
from vitzoo.weights.mapping import TORCH_NORM, Ignored, NameMap, block
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

    def recognises(self, source: Weights) -> bool:
        """By the table of kinds of sentences and the first attention."""
        prefix = _prefix(source)
        wanted = ("embeddings.token_type_embeddings.weight", "encoder.layer.0.attention.self.query.weight")
        return all(f"{prefix}{name}" in source.tensors for name in wanted)

    def read(self, source: Weights, given: Mapping[str, Any]) -> Reading:
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
        text = {"length": sentence.longest or places, "prefix": sentence.prefix, **head.text}
        return Reading(
            model=model,
            names=_names(prefix, old_norms=f"{embeddings}.LayerNorm.gamma" in source.tensors),
            ignored=(BUFFERS, *head.ignored),
            objective=head.objective,
            classes=head.classes,
            preprocessing=text,
            tokenizer=sentence.checked(source, tokenizer),
            notes=(*([] if source.config else [WITHOUT_CONFIG]), *sentence.notes),
        )

    def write(self, config: BERTConfig, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """See `Writer.write`. A tanh layer that the head doesn't read doesn't go out with classes of words."""
        architecture, more = written_head(config, description)
        prefix = "" if config.head_kind == "none" else PREFIX
        content = {
            "architectures": [architecture],
            "model_type": "bert",
            **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
            "num_attention_heads": config.num_heads,
            "hidden_act": settings.theirs_of("activation", config.activation, settings.GELUS, "BERT's format"),
            "layer_norm_eps": config.norm_epsilon,
            **{theirs: getattr(config, ours) for ours, theirs in DROPOUTS.items()},
            **special_ids(tokenizer, "pad"),
            **more,
        }
        unread = config.head_kind == "token_classes"
        kept = {path: leaf for path, leaf in params.items() if not (unread and path.startswith("pooler/"))}
        longest = min(config.context_length, (input_of(description, "text") or {}).get("length", 512))
        masking = config.head_kind == "pretraining"
        files = tokenizer_files(tokenizer, opening=True, closing=True, masking=masking, model_max_length=longest)
        if config.head_kind == "none":
            files |= sentence_transformers.files(config, longest)
        found = masking and tokenizer is not None
        return Writing(_names(prefix).write(kept), content, files, (MASK_FOUND,) if found else ())


def _prefix(source: Weights) -> str:
    return PREFIX if f"{PREFIX}embeddings.word_embeddings.weight" in source.tensors else ""


BLOCK = {
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "mlp/up": "intermediate.dense",
    "mlp/down": "output.dense",
    "norm2": "output.LayerNorm",
}


def _names(prefix: str, *, old_norms: bool = False) -> NameMap:
    """The names, of norms those of the first files, which are TensorFlow's, where `old_norms`."""
    names = {
        "embedding": f"{prefix}embeddings.word_embeddings",
        "position_embedding": f"{prefix}embeddings.position_embeddings",
        "type_embedding": f"{prefix}embeddings.token_type_embeddings",
        "embedding_norm": f"{prefix}embeddings.LayerNorm",
        **block("encoder/blocks/*", f"{prefix}encoder.layer.{{i}}", BLOCK),
        "pooler": f"{prefix}pooler.dense",
        "masked_dense": f"{MASKED}.transform.dense",
        "masked_norm": f"{MASKED}.transform.LayerNorm",
        "masked_bias": f"{MASKED}.bias",
        "next_sentence": NEXT,
        "head": CLASSES,
    }
    return NameMap(names, norms={"scale": ".gamma", "bias": ".beta"} if old_norms else TORCH_NORM)


MASKED = "cls.predictions"
DECODER = f"{MASKED}.decoder"
NEXT = "cls.seq_relationship"
CLASSES = "classifier"
UNREAD = Ignored(r"(bert\.)?pooler\.dense\.(weight|bias)", "a layer on the first token that this head doesn't read")


@dataclasses.dataclass(frozen=True)
class Head:
    """What a file's head is.

    Attributes:
        fields: of our Config.
        objective: what it is for.
        text: fields of `data.text.settings.Text`.
        classes: names by index.
        ignored: names to leave aside.
    """

    fields: Mapping[str, Any]
    objective: Mapping[str, Any]
    text: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    ignored: tuple[Ignored, ...] = ()


def head_of(source: Weights, prefix: str) -> Head:
    """The head of a file, by its names and `config.json`.

    Raises:
        UserError: it is one that no model here has.
    """
    architecture = architecture_of(source)
    pooler = f"{prefix}pooler.dense.weight" in source.tensors
    if f"{MASKED}.bias" in source.tensors:
        return _pretraining(source, prefix)
    if f"{CLASSES}.weight" in source.tensors:
        return _classes(source, pooler, architecture)
    return Head({"head": "none", "pooler": pooler}, {"name": "masked_lm"})


def written_head(config: BERTConfig, description: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """transformers' class for the head of a model of ours, and settings of `config.json`."""
    kind = config.head_kind
    if config.head_input not in (None, "pooler"):
        message = "has no place in transformers' BERT, whose heads of a text read the pooler"
        raise UserError("model.head_reads", config.head_reads, message)
    if kind == "pretraining":
        return "BertForPreTraining" if config.pooler else "BertForMaskedLM", {"tie_word_embeddings": True}
    if kind == "none":
        return "BertModel", {}
    labelled = written_labels(1 if kind == "number" else config.num_classes or 0, description)
    if kind == "token_classes":
        del labelled["problem_type"]
        return "BertForTokenClassification", labelled
    return "BertForSequenceClassification", labelled | ({"problem_type": "regression"} if kind == "number" else {})


def _pretraining(source: Weights, prefix: str) -> Head:
    """Masked tokens, with or without the next sentence."""
    follows = f"{NEXT}.weight" in source.tensors
    for copy, tied in (
        (f"{DECODER}.weight", f"{prefix}embeddings.word_embeddings.weight"),
        (f"{DECODER}.bias", f"{MASKED}.bias"),
    ):
        if copy in source.tensors and not same(source, copy, tied):
            raise source.refused(f"has {copy} that isn't {tied}; here the head of masked tokens shares it")
    ignored = (Ignored(r"cls\.predictions\.decoder\.(weight|bias)", "the embedding and the bias again"),)
    fields = {"head": "pretraining", "pooler": follows}
    return Head(fields, {"name": "masked_lm"}, ignored=ignored if follows else (*ignored, UNREAD))


def _classes(source: Weights, pooler: bool, architecture: str) -> Head:
    """Classes of texts or of words, or a number."""
    outputs = source.shape(f"{CLASSES}.weight", 2)[0]
    names, problem = labels(source, outputs), problem_of(source)
    if architecture == "BertForTokenClassification" or (not architecture and not pooler):
        fields = {"head": "token_classes", "pooler": False, "num_classes": outputs}
        return Head(fields, {"name": "token_classification"}, {}, names, (UNREAD,))
    problem = problem or ("regression" if outputs == 1 else "single_label_classification")
    if problem == "regression":
        if outputs != 1:
            raise source.refused(f"tells {outputs} numbers of a text; here a head tells one")
        return Head({"head": "number"}, {"name": "regression"})
    loss = {"loss": "sigmoid"} if problem == "multi_label_classification" else {}
    return Head({"head": "classes", "num_classes": outputs}, {"name": "sequence_classification", **loss}, {}, names)
