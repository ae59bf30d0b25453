"""BERT as transformers keeps it: with or without `bert.` before the names, norms as weight and bias or as gamma and
beta, and the heads of pretraining, of classes of texts and of words, or none, in and out. And what lies around one in a
folder of sentence-transformers: how its tokens become a text's embedding.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.inputs import input_of
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.bert import BERTConfig
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, read_json, shown
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.registry import Given, Reading, Writing, architecture_of
from vitzoo.weights.formats.settings import labels, problem_of, same, written_labels
from vitzoo.weights.mapping import TORCH_NORM, Ignored, NameMap, block
from vitzoo.weights.tokenizers import special_ids, tokenizer_beside, tokenizer_files

PREFIX = "bert."
BUFFERS = Ignored(r"(bert\.)?embeddings\.(position_ids|token_type_ids)", "0, 1, 2 ..., not weights")
MASK_FOUND = "transformers finds the names of special tokens in a text, as its mask's must be; here others are text"
WITHOUT_CONFIG = "there is no config.json: taken for a BERT, with exact GELU and epsilon 1e-12"
ONLY: dict[str, JSON] = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
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

    def read(self, source: Weights, given: Given) -> Reading:
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
        sentence = read_sentence(source, places, width)
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

    def write(
        self, config: BERTConfig, params: Flat, description: Description, tokenizer: TextTokenizer | None
    ) -> Writing:
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
        text = input_of(description, "text")
        longest = min(config.context_length, 512 if text is None else text.get("length", 512))
        masking = config.head_kind == "pretraining"
        files = tokenizer_files(tokenizer, opening=True, closing=True, masking=masking, model_max_length=longest)
        if config.head_kind == "none":
            files |= sentence_files(config, longest)
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


def written_head(config: BERTConfig, description: Description) -> tuple[str, dict[str, JSON]]:
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


MODULES, SENTENCES, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""Our pooling → the setting of `Pooling` that is true."""
FIRST_FOLDER = r"0_\w+"
"""The name of the folder of weights in the first such folders, in which `modules.json` lies one above."""
PACKAGE = "sentence_transformers.models"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """How a folder embeds texts.

    Attributes:
        fields: of our Config.
        longest: most tokens of a text, if it says so.
        prefix: put before every text.
        lowered: texts are lowered first.
        notes: for the report.
    """

    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    longest: int | None = None
    prefix: str = ""
    lowered: bool = False
    notes: tuple[str, ...] = ()

    def checked(self, source: Weights, tokenizer: TextTokenizer | None) -> TextTokenizer | None:
        """The tokenizer, which must lower texts itself where that is asked; refused otherwise."""
        if self.lowered and tokenizer is not None and list(tokenizer.encode("A")) != list(tokenizer.encode("a")):
            raise source.refused(
                f"lowers its texts ({SENTENCES}), and its tokenizer tells capitals; it can't do both here"
            )
        return tokenizer


def read_sentence(source: Weights, places: int, width: int) -> Sentence:
    """What the folder says, if it is one of sentence-transformers.

    Args:
        source: the file.
        places: rows of the table of positions.
        width: of a token.

    Raises:
        UserError: it does something with the tokens that no model here does.
    """
    folder, modules = _modules(source)
    if not modules:
        return Sentence()
    kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        kinds = [kind if kind.isidentifier() else shown(kind) for kind in kinds[:6]]
        raise source.refused(
            f"embeds texts by {' then '.join(kinds)}; here by Transformer, Pooling and perhaps Normalize"
        )
    how = _pooling_settings(source, folder, modules[1].get("path"))
    settings.agrees(how, {"word_embedding_dimension": width})
    pooling, unit = _pooling(how), "Normalize" in kinds
    lengths = source.with_settings(source.folder / SENTENCES)
    prompts, prompt = _prompts(source.with_settings(folder / PROMPTS))
    if prompt and not settings.flag(how, "include_prompt", True):
        raise source.refused(f"leaves its prompt ({prompt!r}) out of the pooling; here all tokens of a text count")
    others = ", ".join(
        f"{shown(name)[1:-1]} {shown(text)}" for name, text in prompts.items() if text and text != prompt
    )
    return Sentence(
        {"pooling": pooling, "unit_embedding": unit, "head_reads": "embedding"},
        settings.whole(lengths, "max_seq_length", least=1, most=places),
        prompt,
        settings.flag(lengths, "do_lower_case", False),
        (
            f"a text's embedding: {'the mean of its tokens' if pooling == 'mean' else 'its first token'}"
            f"{', of length 1' if unit else ''}",
            *([f"prompts that may be put before a text: {others}"] if others else []),
        ),
    )


def sentence_files(config: BERTConfig, longest: int) -> dict[str, JSON]:
    """The files of such a folder, by name."""
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    parts = parts if config.unit_embedding else parts[:2]
    modes = {mode: config.pooling == ours for ours, mode in MODES.items()}
    return {
        MODULES: [
            {"idx": index, "name": str(index), "path": path, "type": f"{PACKAGE}.{kind}"}
            for index, (path, kind) in enumerate(parts)
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": config.width, **modes},
        SENTENCES: {"max_seq_length": longest, "do_lower_case": False},
    }


def _modules(source: Weights) -> tuple[Path, list[Mapping[str, Any]]]:
    """Where `modules.json` lies and what it lists: with the weights or, in the first such folders, one above."""
    places = [(source.folder, "")]
    if re.fullmatch(FIRST_FOLDER, source.folder.name):
        places.append((source.folder.parent, source.folder.name))
    for folder, path in places:
        listed = read_json(folder / MODULES, list) if (folder / MODULES).is_file() else []
        modules = [one for one in listed if isinstance(one, Mapping)]
        if len(modules) < len(listed):
            raise source.refused(f"{folder / MODULES} is no list of modules, each with its type and path")
        if modules and modules[0].get("path") == path:
            return folder, modules
    return source.folder, []


def _pooling_settings(source: Weights, folder: Path, path: Any) -> Weights:
    """The weights with the pooling's `config.json`, which lies in a folder beside `modules.json`."""
    if not isinstance(path, str) or Path(path).name != path or path in ("", ".", ".."):
        raise source.refused(f"{MODULES} has path = {shown(path)}; a folder beside it is right")
    content = read_json(folder / path / "config.json")
    return dataclasses.replace(source, config=content, config_name=f"{path}/config.json")


def _prompts(beside: Weights) -> tuple[Mapping[str, str], str]:
    """What may be put before a text, by name; and what is."""
    prompts, usual = beside.config.get("prompts") or {}, beside.config.get("default_prompt_name")
    if not isinstance(prompts, Mapping) or not all(isinstance(text, str) for text in prompts.values()):
        raise beside.refused(f"{PROMPTS} has prompts = {shown(prompts)}; texts by name are right")
    if usual is not None and (not isinstance(usual, str) or usual not in prompts):
        raise beside.refused(f"{PROMPTS} has default_prompt_name = {shown(usual)}; there are {shown(list(prompts))}")
    return prompts, prompts.get(usual, "") if usual else ""


def _pooling(source: Weights) -> str:
    """Ours from the settings of `Pooling`."""
    stated = source.config.get("pooling_mode")
    modes = [name for name in source.config if name.startswith("pooling_mode_")]
    on = [name for name in modes if settings.flag(source, name, False)]
    found = [ours for ours, mode in MODES.items() if stated == ours or on == [mode]]
    if len(found) != 1:
        modes = [shown(stated)] if stated else [name.removeprefix("pooling_mode_") for name in on]
        raise source.refused(f"pools its tokens by {', '.join(modes) or 'nothing'}; here by {' or '.join(MODES)}")
    return found[0]
