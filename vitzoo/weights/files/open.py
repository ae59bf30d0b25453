"""From a path to the published weights there: which file, what kind, its arrays."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.npz import read_npz
from vitzoo.weights.files.safe import INDEX, parts_of, read_safetensors
from vitzoo.weights.files.source import Source, Tensors
from vitzoo.weights.files.t5x import INDEX as T5X_INDEX
from vitzoo.weights.files.t5x import is_t5x, read_t5x
from vitzoo.weights.files.torch_zip import TorchFile

SUFFIXES = {
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".pth": "torch",
    ".pt": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
}
IN_FOLDERS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""What a folder is looked through for, best first; otherwise its only file of a known kind."""
WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that torch's wrappers put before every name."""
PARAMETERS = ("opt/target/", "params/")
"""Before the names of the weights in an archive of NumPy that also holds an optimizer's state."""
SUBTREES = ("teacher", "model_ema", "state_dict", "model")
"""Which of several sets of weights in a torch file is meant, best first: DINO's teacher, an average, the model."""


def open_source(name: str, place: str = "") -> Source:
    """The weights at `FILE`, `FOLDER` or either with `:subtree`.

    Args:
        name: as they were asked for.
        place: where they are, if the name doesn't say it.

    Raises:
        Refused: nothing is there, it is of no known kind, damaged, or holds several sets of weights.
    """
    path, subtree = _split(place or name)
    file = _file_in(path, name) if path.is_dir() else path
    kind, tensors, besides, notes = _read(file, name, subtree)
    for prefix in WRAPPERS:
        if tensors and all(key.startswith(prefix) for key in tensors):
            tensors = tensors.without(prefix)
    if not tensors:
        raise Refused("checkpoint", name, f"{file.name} holds no arrays")
    return Source(name, kind, tensors, file.parent, _config(file.parent, name), besides, notes)


def is_published(name: str) -> bool:
    """Whether the name leads to a file of a known kind, or a folder with one."""
    path, _ = _split(name)
    if path.is_dir():
        return bool(_candidates(path))
    return path.is_file() and (path.suffix in SUFFIXES or path.name.endswith(INDEX))


def _split(name: str) -> tuple[Path, str]:
    path = Path(name).expanduser()
    before, _, subtree = name.rpartition(":")
    if path.exists() or not before or not Path(before).expanduser().exists():
        return path, ""
    return Path(before).expanduser(), subtree


def _candidates(folder: Path) -> list[Path]:
    if is_t5x(folder):
        return [folder / T5X_INDEX]
    known = [folder / name for name in IN_FOLDERS if (folder / name).is_file()]
    return known[:1] or sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in SUFFIXES)


def _file_in(folder: Path, name: str) -> Path:
    found = _candidates(folder)
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(
            "checkpoint", name, f"holds several files of weights: {', '.join(f.name for f in found[:6])}; name one"
        )
    raise Refused(
        "checkpoint",
        name,
        f"holds no file of weights (looked for {', '.join(IN_FOLDERS)} or one {', '.join(SUFFIXES)})",
    )


Read = tuple[str, Tensors, Mapping[str, Any], tuple[str, ...]]


def _read(file: Path, name: str, subtree: str) -> Read:
    if file.name.endswith(INDEX):
        return _read_parts(file, name, subtree)
    if file.name == T5X_INDEX:
        return "tensorstore", read_t5x(file.parent, name), {}, ()
    kind = SUFFIXES.get(file.suffix)
    if kind is None:
        raise Refused("checkpoint", name, f"is of no known kind ({', '.join(SUFFIXES)})")
    if kind == "torch":
        return _read_torch(file, name, subtree)
    notes: tuple[str, ...] = ()
    if kind == "npz":
        tensors, subtree, notes = _parameters(read_npz(file, name), subtree)
    else:
        tensors = read_safetensors(file, name)
    if subtree:
        below = tensors.without(f"{subtree}/" if kind == "npz" else f"{subtree}.")
        if not below:
            tops = sorted({key.partition("/" if kind == "npz" else ".")[0] for key in tensors})
            raise Refused("checkpoint", name, f"has nothing below {subtree}; there are {', '.join(tops[:8])}")
        tensors = below
    return kind, tensors, {}, notes


def _parameters(tensors: Tensors, subtree: str) -> tuple[Tensors, str, tuple[str, ...]]:
    """The weights of an archive without what stands before all their names; so of the subtree; and notes."""
    notes: tuple[str, ...] = ()
    for prefix in PARAMETERS:
        if below := tensors.without(prefix):
            left = len(tensors) - len(below)
            notes += (f"{left} arrays beside {prefix} left out",) if left else ()
            tensors, subtree = below, subtree.removeprefix(prefix)
    return tensors, subtree, notes


def _read_parts(index: Path, name: str, subtree: str) -> Read:
    readers: dict[str, Callable[[], np.ndarray]] = {}
    kind = ""
    for part, keys in parts_of(index, name).items():
        kind, tensors, _, _ = _read(index.parent / part, name, subtree)
        if lost := [key for key in keys if key not in tensors]:
            raise Refused("checkpoint", name, f"{part} lacks {lost[0]}, which {index.name} says is there")
        readers |= {key: functools.partial(tensors.__getitem__, key) for key in keys}
    return kind, Tensors(readers), {}, ()


def _read_torch(file: Path, name: str, subtree: str) -> Read:
    content = TorchFile(file).content()
    if not isinstance(content, Mapping):
        raise Refused("checkpoint", name, f"holds a {type(content).__name__}, not weights by name")
    for part in filter(None, subtree.split(".")):
        if not isinstance(content, Mapping) or part not in content:
            raise Refused("checkpoint", name, f"has no {part}; there are {', '.join(map(str, list(content)[:8]))}")
        content = content[part]
    arrays = _arrays(content)
    notes: tuple[str, ...] = ()
    sets = [key for key, value in content.items() if isinstance(value, Mapping) and _arrays(value)]
    if not arrays or any(key in SUBTREES for key in sets):  # beside a set, a number of the training may be an array
        chosen = next((key for key in SUBTREES if key in sets), sets[0] if len(sets) == 1 else None)
        if chosen is None:
            raise Refused(
                "checkpoint", name, f"holds no weights by name, or several sets ({', '.join(sets)}): write FILE:SET"
            )
        arrays = _arrays(content[chosen])
        notes = (f"of {', '.join(sets)} in the file, {chosen} was taken",) if len(sets) > 1 else ()
    besides = {key: value for key, value in content.items() if not isinstance(value, np.ndarray)}
    return "torch", Tensors({key: functools.partial(arrays.__getitem__, key) for key in arrays}), besides, notes


def _arrays(content: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of one set, if it is one: all names are text."""
    return {key: value for key, value in content.items() if isinstance(key, str) and isinstance(value, np.ndarray)}


def _config(folder: Path, name: str) -> Mapping[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused("checkpoint", name, f"{file} can't be read ({error})") from None
    if not isinstance(content, dict):
        raise Refused("checkpoint", name, f"{file} holds no settings")
    return content
