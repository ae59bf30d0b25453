"""From a path to the published weights there: which file, what kind, its arrays."""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vitzoo.checkpoints.locate import WEIGHTS
from vitzoo.errors import UserError
from vitzoo.paths import expanded
from vitzoo.weights.files.arrays import INDEX, parts_of, read_npz, read_safetensors
from vitzoo.weights.files.tensorstore import is_big_vision, is_t5x, newest, read_big_vision, read_t5x
from vitzoo.weights.files.torch_pickle import Tensor
from vitzoo.weights.files.torch_zip import TorchFile
from vitzoo.weights.files.weights import Stored, Tensors, Weights, read_json, shown

SUFFIXES = {
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".pth": "torch",
    ".pt": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
}
FOLDERS = ((is_t5x, read_t5x), (is_big_vision, read_big_vision))
"""Kinds of folders whose own folders are arrays: how one is told, and what reads it."""
WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that torch's wrappers put before every name."""
PARAMETERS = ("opt/target/", "params/")
"""Before the names of the weights where an optimizer's state is beside them, in Google's files."""
SUBTREES = ("teacher", "model_ema", "state_dict", "model")
"""Which of several sets of weights in a torch file is meant, best first: DINO's teacher, an average, the model."""
LONGEST = 500  # characters of an array's name


def open_weights_file(name: str, place: str = "") -> Weights:
    """The weights at `FILE`, `FOLDER` or either with `:subtree`.

    Args:
        name: as they were asked for.
        place: where they are, if the name doesn't say it.

    Raises:
        UserError: nothing is there, it is of no known kind, damaged, or holds several sets of weights.
    """
    path, subtree = _split(place or name)
    file = _file_in(path, name) if path.is_dir() else path
    tensors, besides, notes = _read(file, name, subtree)
    for prefix in WRAPPERS:
        if tensors and all(key.startswith(prefix) for key in tensors):
            tensors = tensors.without(prefix)
    if not tensors:
        raise UserError("checkpoint", name, f"{file.name} holds no arrays")
    folder = file if file.is_dir() else file.parent
    return Weights(name, tensors, folder, _config(folder), besides, notes)


def is_published(name: str) -> bool:
    """Whether the name leads to a file of a known kind, or a folder with one."""
    path, _ = _split(name)
    if path.is_dir():
        return bool(_candidates(path))
    return path.is_file() and (path.suffix in SUFFIXES or path.name.endswith(INDEX))


def _split(name: str) -> tuple[Path, str]:
    path = newest(expanded(name))
    before, _, subtree = name.rpartition(":")
    if path.exists() or not before or not (whole := newest(expanded(before))).exists():
        return path, ""
    return whole, subtree


def _candidates(folder: Path) -> list[Path]:
    if _reader(folder):
        return [folder]
    # otherwise its only file of a known kind
    known = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    return known[:1] or sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in SUFFIXES)


def _reader(folder: Path) -> Callable[[Path, str], Tensors] | None:
    """What reads a folder whose own folders are arrays; None for others."""
    return next((read for found, read in FOLDERS if found(folder)), None)


def _file_in(folder: Path, name: str) -> Path:
    found = _candidates(folder)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            "checkpoint", name, f"holds several files of weights: {', '.join(f.name for f in found[:6])}; name one"
        )
    raise UserError(
        "checkpoint",
        name,
        f"holds no file of weights (looked for {', '.join(WEIGHTS)} or one {', '.join(SUFFIXES)})",
    )


POINTER = b"version https://git-lfs"

Read = tuple[Tensors, Mapping[str, Any], tuple[str, ...]]


def _read(file: Path, name: str, subtree: str) -> Read:
    if file.name.endswith(INDEX):
        return _read_parts(file, name, subtree)
    if file.is_dir() and (reader := _reader(file)):
        return _of_names(reader(file, name), name, subtree)
    kind = SUFFIXES.get(file.suffix)
    if _is_pointer(file):
        raise UserError("checkpoint", name, f"{file.name} only points to the weights, which `git lfs pull` fetches")
    if kind is None:
        raise UserError("checkpoint", name, f"is of no known kind ({', '.join(SUFFIXES)})")
    if kind == "torch":
        return _read_torch(file, name, subtree)
    if kind == "npz":
        return _of_names(read_npz(file, name), name, subtree)
    return _of_names(read_safetensors(file, name), name, subtree, ".")


def _is_pointer(file: Path) -> bool:
    """Whether a file is what Git leaves of a large one (https://git-lfs.com)."""
    with file.open("rb") as opened:
        return opened.read(len(POINTER)) == POINTER


def _of_names(tensors: Tensors, name: str, subtree: str, between: str = "/") -> Read:
    """Those of a file whose names are all the structure it has, or those below one of its names, whose parts have
    `between` between them.
    """
    notes: tuple[str, ...] = ()
    _check_names(tensors, name)
    if between == "/":
        tensors, subtree, notes = _parameters(tensors, subtree)
    if subtree:
        below = tensors.without(f"{subtree}{between}")
        if not below:
            tops = sorted({key.partition(between)[0] for key in tensors})
            raise UserError("checkpoint", name, f"has nothing below {subtree}; there are {', '.join(tops[:8])}")
        tensors = below
    return tensors, {}, notes


def _parameters(tensors: Tensors, subtree: str) -> tuple[Tensors, str, tuple[str, ...]]:
    """The weights of a file of Google's without what stands before all their names; so of the subtree; and notes."""
    notes: tuple[str, ...] = ()
    for prefix in PARAMETERS:
        if below := tensors.without(prefix):
            left = len(tensors) - len(below)
            notes += (f"{left} arrays beside {prefix} left out",) if left else ()
            tensors, subtree = below, f"{subtree}/".removeprefix(prefix).removesuffix("/")
    return tensors, subtree, notes


def _read_parts(index: Path, name: str, subtree: str) -> Read:
    whole = Tensors({})
    of_part: dict[str, str] = {}
    for part, keys in parts_of(index, name).items():
        tensors, _, _ = _read(index.parent / part, name, subtree)
        if lost := [key for key in keys if key not in tensors]:
            raise UserError("checkpoint", name, f"{part} lacks {shown(lost[0])}, which {index.name} says it has")
        if twice := [key for key in tensors if key in of_part]:
            raise UserError("checkpoint", name, f"{part} and {of_part[twice[0]]} both hold {twice[0]}")
        of_part |= dict.fromkeys(tensors, part)
        whole |= tensors
    return whole, {}, ()


def _read_torch(path: Path, name: str, subtree: str) -> Read:
    file = TorchFile(path)
    content = file.described
    for part in filter(None, subtree.split(".")):
        if not isinstance(content, Mapping) or part not in content:
            raise UserError("checkpoint", name, f"has no {part}; there are {_listed(content)}")
        content = content[part]
    if not isinstance(content, Mapping):
        raise UserError("checkpoint", name, f"holds one value of type {type(content).__name__}, not weights by name")
    if not content:
        raise UserError("checkpoint", name, "holds an empty dict: nothing was saved in it")
    tensors = _tensors(content)
    notes: tuple[str, ...] = ()
    sets = [key for key, value in content.items() if isinstance(key, str) and _tensors(value)]
    if not tensors or any(key in SUBTREES for key in sets):  # beside a set, a number of the training may be an array
        chosen = next((key for key in SUBTREES if key in sets), sets[0] if len(sets) == 1 else None)
        if chosen is None and sets:
            raise UserError("checkpoint", name, f"holds several sets of weights ({_listed(sets)}): write FILE:SET")
        if chosen is None:
            raise UserError("checkpoint", name, f"holds no weights by name; there are {_listed(content)}")
        tensors = _tensors(content[chosen])
        notes = (f"of {_listed(sets)} in the file, {chosen} was taken",) if len(sets) > 1 else ()
    _check_names(tensors, name)
    besides = {key: value for key, value in content.items() if not isinstance(value, Tensor)}
    partial = functools.partial
    stored = {key: Stored(partial(file.array, one), partial(file.header, one)) for key, one in tensors.items()}
    return Tensors(stored), besides, notes


def _tensors(content: Any) -> dict[str, Tensor]:
    """The tensors of one set, if it is one: all names are text."""
    found = content.items() if isinstance(content, Mapping) else ()
    return {key: value for key, value in found if isinstance(key, str) and isinstance(value, Tensor)}


def _listed(names: Any, most: int = 8) -> str:
    """Names of a file's content, shortened; of what has none, its type."""
    if not isinstance(names, Mapping | list):
        return f"nothing but a {type(names).__name__}"
    texts = [text if (text := str(name)[:60]).isprintable() else ascii(text) for name in list(names)[:most]]
    return ", ".join(texts) + (" ..." if len(names) > most else "")


def _check_names(tensors: Iterable[str], name: str) -> None:
    """Refuses names that no weights have, and that no message could show."""
    for key in tensors:
        if not key.isprintable() or len(key) > LONGEST:
            raise UserError("checkpoint", name, f"holds an array with the name {key[:60]!a}, which no weights have")


def _config(folder: Path) -> Mapping[str, Any]:
    file = folder / "config.json"
    return read_json(file) if file.is_file() else {}
