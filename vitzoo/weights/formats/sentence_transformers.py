"""What lies around a BERT in a folder of sentence-transformers: how its tokens become a text's embedding."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.models.bert import BERTConfig
from vitzoo.weights.files.weights import Weights, read_json, shown
from vitzoo.weights.formats import settings

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


def read(source: Weights, places: int, width: int) -> Sentence:
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
    lengths = _beside(source, source.folder / SENTENCES)
    prompts, prompt = _prompts(_beside(source, folder / PROMPTS))
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


def files(config: BERTConfig, longest: int) -> dict[str, Any]:
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
        modules = read_json(folder / MODULES, list) if (folder / MODULES).is_file() else []
        if not all(isinstance(one, Mapping) for one in modules):
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


def _beside(source: Weights, file: Path) -> Weights:
    """The same weights with another file's settings in the place of `config.json`'s; none without the file."""
    content = read_json(file) if file.is_file() else {}
    return dataclasses.replace(source, config=content, config_name=file.name)


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
