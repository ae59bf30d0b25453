"""BERT as transformers keeps it: with or without `bert.` before the names, norms as weight and bias or as gamma and
beta, and the heads of pretraining, of classes of texts and of words, or none."""

from collections.abc import Mapping
from typing import Any

from vitzoo.models.bert import BERTConfig
from vitzoo.weights.common_rows import dense, layers, norm, projections, table
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats import sentence_transformers, settings
from vitzoo.weights.formats.base import Reading, Writing
from vitzoo.weights.formats.bert_heads import head_of, written_head
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
