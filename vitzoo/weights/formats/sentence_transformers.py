"""What lies around a BERT in a folder of sentence-transformers: how its tokens become a text's embedding."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.models.bert import BERTConfig
from vitzoo.weights.files.source import Source

MODULES, SENTENCES, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""Our pooling → the setting of `Pooling` that is true."""
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

    def checked(self, source: Source, tokenizer: Any) -> Any:
        """The tokenizer, which must lower texts itself where that is asked; refused otherwise."""
        if self.lowered and tokenizer is not None and list(tokenizer.encode("A")) != list(tokenizer.encode("a")):
            raise source.refused(
                f"lowers its texts ({SENTENCES}), and its tokenizer tells capitals; it can't do both here"
            )
        return tokenizer


def read(source: Source) -> Sentence:
    """What the folder says, if it is one of sentence-transformers.

    Raises:
        Refused: it does something with the tokens that no model here does.
    """
    folder, modules = _modules(source)
    if not modules:
        return Sentence()
    kinds = [str(one.get("type", "")).rpartition(".")[2] for one in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise source.refused(
            f"embeds texts by {' then '.join(kinds)}; here by Transformer, Pooling and perhaps Normalize"
        )
    how = _content(source, folder / str(modules[1].get("path")) / "config.json")
    pooling, unit = _pooling(source, how), "Normalize" in kinds
    lengths = _content(source, source.folder / SENTENCES, {})
    more = _content(source, folder / PROMPTS, {})
    prompts = more.get("prompts") or {}
    prompt = prompts.get(more.get("default_prompt_name") or "", "")
    if prompt and how.get("include_prompt") is False:
        raise source.refused(f"leaves its prompt ({prompt!r}) out of the pooling; here all tokens of a text count")
    others = ", ".join(f"{name} {text!r}" for name, text in prompts.items() if text and text != prompt)
    return Sentence(
        {"pooling": pooling, "unit_embedding": unit},
        lengths.get("max_seq_length"),
        prompt,
        bool(lengths.get("do_lower_case")),
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


def _modules(source: Source) -> tuple[Path, list[Mapping[str, Any]]]:
    """Where `modules.json` lies and what it lists: with the weights or, in the first such folders, one above."""
    for folder, path in ((source.folder, ""), (source.folder.parent, source.folder.name)):
        modules = _content(source, folder / MODULES, [])
        if isinstance(modules, list) and modules and modules[0].get("path") == path:
            return folder, modules
    return source.folder, []


def _pooling(source: Source, config: Mapping[str, Any]) -> str:
    """Ours from the settings of `Pooling`."""
    stated = config.get("pooling_mode")
    on = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    found = [ours for ours, mode in MODES.items() if stated == ours or on == [mode]]
    if len(found) != 1:
        shown = stated or ", ".join(name.removeprefix("pooling_mode_") for name in on) or "nothing"
        raise source.refused(f"pools its tokens by {shown}; here by {' or '.join(MODES)}")
    return found[0]


def _content(source: Source, file: Path, default: Any = None) -> Any:
    """A JSON file's content; `default`, where there is one, without the file."""
    if default is not None and not file.is_file():
        return default
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise source.refused(f"{file.name} can't be read ({error})") from None
