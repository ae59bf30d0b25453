"""Weights by their name on the hub, `org/name` or `org/name@REVISION`, through the library huggingface_hub, whose cache
and offline mode (`HF_HOME`, `HF_HUB_OFFLINE`) hold here too.
"""

import errno
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vitzoo.data.folders import cache_folder
from vitzoo.data.text.tokenizers.published import FILES
from vitzoo.errors import UserError, install_extra
from vitzoo.paths import home
from vitzoo.weights.files.open import SUFFIXES

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
OURS = {"checkpoints", "models", "output", "outputs", "run", "runs", "tmp", "weights", "workdir"}
"""First parts of what is rather a mistyped path, though no such folder is there."""

PATIENCE = 10.0
"""Seconds that the hub has to answer."""

COMPANIONS = re.compile(
    r"config\.json|generation_config\.json|preprocessor_config\.json|processor_config\.json|modules\.json|"
    r"sentence_bert_config\.json|config_sentence_transformers\.json|\d_Pooling/config\.json|"
    r"tokenizer_config\.json|special_tokens_map\.json|added_tokens\.json|merges\.txt|" + "|".join(map(re.escape, FILES))
)
"""What the formats look at beside the weights."""
WEIGHTS = {
    "model.safetensors": re.compile(r"model\.safetensors"),
    "model.safetensors.index.json": re.compile(r"model\.safetensors\.index\.json|model-\d+-of-\d+\.safetensors"),
    "pytorch_model.bin": re.compile(r"pytorch_model\.bin"),
    "pytorch_model.bin.index.json": re.compile(r"pytorch_model\.bin\.index\.json|pytorch_model-\d+-of-\d+\.bin"),
}
"""Kinds of weights, best first: the file that tells that they are there → all that belong to it."""


def is_hub_name(text: str, known: bool = False) -> bool:
    """Whether it can be a name on the hub and is no path with a slip in it, for which the network is never asked.

    Args:
        text: what was written.
        known: the catalogue has it, so that nothing else can be meant.
    """
    repository, at, revision = text.partition("@")
    if not NAME.fullmatch(repository) or (at and not revision) or revision == "best" or revision.isdecimal():
        return False
    owner = repository.partition("/")[0]
    return known or not (owner in OURS or Path(owner).exists() or Path(repository).suffix in SUFFIXES)


def needed(names: Iterable[str]) -> list[str]:
    """Of a repository's files those that are read here: one kind of weights and what lies beside them. Empty without
    weights; other frameworks' files and programs are never among them.
    """
    names = sorted(names)
    for head, belongs in WEIGHTS.items():
        if head in names:
            return [name for name in names if belongs.fullmatch(name) or COMPANIONS.fullmatch(name)]
    return []


def fetch(text: str) -> Path:
    """The folder in the hub's cache with a model's files, fetched where they aren't there yet.

    Args:
        text: `org/name` or `org/name@REVISION`.

    Raises:
        UserError: the library is missing; there is no such model or revision, or it may not be read; it has no weights
            of a known form; or neither the network nor the cache has it.
    """
    repository, revision = _parts(text)
    hub = _library(text)
    try:
        listed = hub.HfApi().model_info(repository, revision=revision, timeout=PATIENCE).siblings or []
    except Exception as error:  # every transport below fails in its own ways; the cache may do for all of them
        return _cached(hub, text, error)
    names = [file.rfilename for file in listed]
    files = needed(names)
    if not files:
        heads = ", ".join(WEIGHTS)
        raise UserError("checkpoint", text, f"on the hub it has no weights of a known kind ({heads}): {_some(names)}")
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=files))
    except Exception as error:
        raise UserError("checkpoint", text, _why(hub, text, error)) from None


def is_cached(repository: str) -> bool:
    """Whether the hub's cache holds weights of a model; without the network."""
    _settle_home()
    try:
        from huggingface_hub import constants
    except ImportError:
        return False
    snapshots = _place(constants.HF_HUB_CACHE, repository) / "snapshots"
    return snapshots.is_dir() and any(needed(_names(folder)) for folder in snapshots.iterdir())


def _cached(hub: Any, text: str, error: Exception) -> Path:
    """The folder in the cache, as the hub can't be asked."""
    repository, revision = _parts(text)
    try:
        # one name, since a cache made with other files is complete for us too; what counts is looked at below
        folder = hub.snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=["config.json"]
        )
    except Exception:
        raise UserError("checkpoint", text, _why(hub, text, error)) from None
    if not needed(_names(Path(folder))):
        held = _some(_names(Path(folder)))
        raise UserError("checkpoint", text, f"the hub's cache has only a part of it, without weights: {held}; {folder}")
    if not isinstance(error, hub.errors.OfflineModeIsEnabled):
        print(f"warning: {text} is taken as the hub's cache has it: {_short(error)}", file=sys.stderr)
    return Path(folder)


def _why(hub: Any, text: str, error: Exception) -> str:
    """What went wrong, and what would help."""
    repository, revision = _parts(text)
    cache = hub.constants.HF_HUB_CACHE
    here = f"is no file or folder here and not in the hub's cache ({_place(cache, repository)})"
    login = "`hf auth login`, or HF_TOKEN"
    instead = (
        f"a folder {repository} with config.json, model.safetensors and, of text, the tokenizer's files does as well"
    )
    if isinstance(error, hub.errors.OfflineModeIsEnabled):
        return f"{here}, and the hub is not asked (HF_HUB_OFFLINE); {instead}"
    if isinstance(error, hub.errors.GatedRepoError):
        return f"is given only to those who agreed to its terms on its page of the hub: agree, then log in ({login})"
    if isinstance(error, hub.errors.RevisionNotFoundError):
        return f"the hub has {repository}, but no revision {revision} of it"
    if isinstance(error, hub.errors.RepositoryNotFoundError | hub.errors.HFValidationError):
        return f"is no file or folder here, and the hub has no such model, or a private one (log in: {login})"
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return f"there is no room for it in the hub's cache, {cache}; HF_HOME names another place"
    if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS:
        return f"the hub's cache, {cache}, can't be written ({_short(error)}); HF_HOME names another place"
    return f"{here}, and the hub can't be reached ({_short(error)}); {instead}"


def _library(text: str) -> Any:
    _settle_home()
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError:
        message = f"is no file or folder here; to look for it on the hub, {install_extra('hub')}"
        raise UserError("checkpoint", text, message) from None
    return huggingface_hub


def _settle_home() -> None:
    """For a user without a home folder the library would make one called `~` where vitzoo is run."""
    if home() is None:
        os.environ.setdefault("HF_HOME", str(cache_folder() / "huggingface"))


def _parts(text: str) -> tuple[str, str | None]:
    repository, _, revision = text.partition("@")
    return repository, revision or None


def _place(cache: str, repository: str) -> Path:
    return Path(cache) / f"models--{repository.replace('/', '--')}"


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _some(names: list[str]) -> str:
    return ("it holds " + ", ".join(names[:6]) + " ..." * (len(names) > 6)) if names else "it holds nothing"


def _short(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:120]}" if said else type(error).__name__
