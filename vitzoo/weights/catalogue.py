"""Published weights by name: what they are, where they are from, and what was published of them.

The facts are kept in `catalogue.json`, one line for each entry, by family and size. What isn't known stands there as
null. Parameters are those of our own model with the entry's settings, which a test counts.
"""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.data.folders import cache_folder
from vitzoo.errors import UserError
from vitzoo.paths import named_path
from vitzoo.planning.models import matcher
from vitzoo.spelling import misspelt
from vitzoo.strict_json import JSON
from vitzoo.weights import hub

KEPT = Path(__file__).with_name("catalogue.json")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One set of published weights.

    Attributes:
        name: what a user types.
        family: of the published models.
        model, variant, settings: ours that has these weights; where no variant is named, the settings say all.
        format: the form of the file.
        hub: the name on the hub, or None.
        file, part: otherwise the file's name, and which of several sets of weights in it.
        published: who publishes the file; for weights on the hub, what they were converted from, or None.
        digest: SHA-256 of the file in hexadecimal, or how it begins.
        parameters: as vitzoo reads them; a BERT's with pooler and without heads.
        image_size: pixels of a side of the square images that they were last trained on.
        tokens: rows of the table of positions; where there is none (T5), the length in pretraining.
        licence: an SPDX identifier in small letters.
        score, metric, score_source: what was published, in % unless it is a perplexity; of what; and where.
    """

    name: str
    family: str
    model: str
    variant: str
    settings: Mapping[str, Any]
    format: str
    hub: str | None
    file: str | None
    part: str
    published: str | None
    digest: str | None
    parameters: int
    image_size: int | None
    tokens: int | None
    licence: str | None
    score: float | None
    metric: str | None
    score_source: str | None

    @property
    def fetched(self) -> bool:
        """Whether they are on this machine."""
        return hub.is_cached(self.hub) if self.hub else (weights_folder() / str(self.file)).is_file()

    def to_json(self) -> dict[str, JSON]:
        """Plain values, for `--json`."""
        return dataclasses.asdict(self) | {"fetched": self.fetched}

    def place(self) -> str:
        """The path of weights that aren't on the hub, with their part, as `open_weights_file` takes it.

        Raises:
            UserError: the file isn't there, or isn't what was published.
        """
        file = weights_folder() / str(self.file)
        if not file.is_file():
            message = f"put {self.file} into {file.parent} ($VITZOO_WEIGHTS names another folder); published by "
            raise UserError("checkpoint", self.name, message + str(self.published))
        if self.digest:
            status = file.stat()
            found = _sha256(file, status.st_mtime_ns, status.st_size)
            if not found.startswith(self.digest):
                shown = f"its SHA-256 begins with {found[: len(self.digest)]}, not {self.digest}"
                raise UserError("checkpoint", self.name, f"{file} is not what was published: {shown}; fetch it again")
        return f"{file}:{self.part}" if self.part else str(file)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All, by family and size."""
    return tuple(Entry(**row) for row in json.loads(KEPT.read_text(encoding="utf-8")))


def find(name: str) -> Entry | None:
    """The entry of a name, if there is one."""
    return next((entry for entry in entries() if entry.name == name), None)


def meant(name: str) -> str | None:
    """The entry that is known by this name without its owner: `openai-community/gpt2` for `gpt2`."""
    return next((entry.name for entry in entries() if entry.name.partition("/")[2] == name), None)


def table(pattern: str = "*") -> list[Entry]:
    """The entries whose name, family, model or variant fits a pattern (`timm/*`, `DINOv2`, `gpt`, `B/16`), else those
    whose name holds it (`minilm`); capitals don't matter.

    Raises:
        UserError: nothing fits, or as `planning.models.matcher`.
    """
    wanted, everything = pattern.lower(), entries()
    fits = matcher(wanted)
    chosen = [
        entry
        for entry in everything
        if any(fits(text.lower()) for text in (entry.name, entry.family, entry.model, entry.variant))
    ] or [entry for entry in everything if wanted in entry.name.lower()]
    if not chosen:
        families = ", ".join(dict.fromkeys(entry.family for entry in entries()))
        raise UserError("pattern", pattern, f"no such published weights; there are {families}")
    return chosen


def weights_folder() -> Path:
    """Where files that aren't on the hub are looked for: `$VITZOO_WEIGHTS`, else `weights` in vitzoo's cache."""
    own = os.environ.get("VITZOO_WEIGHTS")
    return named_path("$VITZOO_WEIGHTS", own) if own else cache_folder() / "weights"


@functools.cache
def _sha256(file: Path, modified: int, size: int) -> str:
    """Of a file's content; once for each state of it."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


NEARLY = 0.9  # likeness from which a name is taken for a slip of one in the catalogue


def path_of(name: str) -> str | None:
    """The path that a name in the catalogue or on the hub stands for, its files fetched if need be; None for any other.

    Raises:
        UserError: it is one, and its files are neither here nor to be had.
    """
    entry = find(name.partition("@")[0])
    if entry is not None and entry.file is not None:
        return entry.place() if entry.name == name else None
    if not hub.is_hub_name(name, known=entry is not None):
        return None
    try:
        return str(hub.fetch(name))
    except UserError as refusal:
        near = None if entry else misspelt(name, (one.name for one in entries()), NEARLY)
        if near is None:
            raise
        raise UserError(refusal.field, refusal.value, f"{refusal.message}; did you mean {near}?") from None
