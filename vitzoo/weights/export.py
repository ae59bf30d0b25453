"""`vitzoo convert`: weights from any form into another, with everything that belongs to them."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from vitzoo.checkpoints.locate import Located, check_outside
from vitzoo.checkpoints.store import Store
from vitzoo.data.text.tokenizers.load import load_tokenizer
from vitzoo.errors import Refused
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.outputs import checked_folder
from vitzoo.weights.formats.known import WRITERS, find_format
from vitzoo.weights.load import builder, config_of
from vitzoo.weights.opened import open_weights, read_weights
from vitzoo.weights.published import Published
from vitzoo.weights.transfer import check_leaves

OWN = "vitzoo"
SHARD = 2 * 2**30
"""Bytes of a safetensors file; larger models are written in several, with an index."""


@dataclasses.dataclass(frozen=True)
class Converted:
    """What was written.

    Attributes:
        output: the folder.
        format: its format.
        weights: which they are: `ema`, `raw` or `published`.
        parameters: how many numbers.
        notes: what was ignored or taken by convention.
    """

    output: str
    format: str
    weights: str
    parameters: int
    notes: tuple[str, ...]


def convert(
    checkpoint: str | Path,
    output: str | Path,
    *,
    form: str = "",
    source_format: str = "",
    weights: str = "auto",
    given: Mapping[str, Any] | None = None,
) -> Converted:
    """Weights in another form.

    Args:
        checkpoint: any CKPT.
        output: a new folder.
        form: the format to write; by default a checkpoint of vitzoo's for published weights, and the model's own
            format of transformers for those of vitzoo.
        source_format: the format to read, where it isn't to be recognised.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        given: settings of the model, for what can't be known from published files.

    Returns:
        What was written.

    Raises:
        Refused: the weights can't be read, the format has no place for them, or the folder isn't empty.
    """
    target = checked_folder("DST", output)
    check_outside("DST", output)
    if target.exists() and any(target.iterdir()):
        raise Refused("DST", str(output), "is there already and not empty; give another folder")
    located = open_weights(checkpoint, given, source_format)
    model = located.description["model"]["name"]
    form = form or (OWN if isinstance(located, Published) else default_format(model))
    params, which, notes = read_weights(located, weights)
    config = config_of(located.description)
    _, shapes = state.abstract(builder(model, config))
    check_leaves(flatten(params), flatten(shapes), [])
    if form == OWN:
        _write_own(located, params, target)
    else:
        _write_published(located, config, flatten(params), form, target)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    return Converted(str(output), form, which, count, tuple(notes))


def default_format(model: str) -> str:
    """The format of transformers of a model.

    Raises:
        Refused: it has none.
    """
    found = [name for name in WRITERS if find_format(name).model == model]
    if not found:
        raise Refused("--format", None, f"no published format is known for the model {model}")
    return found[0]


def _write_own(located: Located, params: Any, target: Path) -> None:
    """A run folder with one checkpoint."""
    store = Store(target / "checkpoints")
    counters = {"step": located.step, "updates": located.step, "skipped": 0}
    assets = located.folder / "assets"
    saved = {"params": params, **counters}
    store.save(located.step, saved, located.description, {}, assets if assets.is_dir() else None)
    store.wait()
    store.close()


def _write_published(located: Located, config: Any, params: Mapping[str, np.ndarray], form: str, target: Path) -> None:
    description = located.description
    writer: Any = find_format(form)
    if form not in WRITERS:
        raise Refused("--format", form, f"is read and not written; there are {OWN}, {', '.join(WRITERS)}")
    if writer.model != description["model"]["name"]:
        raise Refused("--format", form, f"is of {writer.model}, these weights of {description['model']['name']}")
    known = description["tokenizer"]
    tokenizer = None if known is None else load_tokenizer(located.folder / "assets", known)
    writing = writer.write(config, dict(params), description, tokenizer)
    target.mkdir(parents=True, exist_ok=True)
    if getattr(writer, "kind", "safetensors") == "npz":
        np.savez(target / "model.npz", allow_pickle=False, **dict(writing.tensors))
    else:
        write_safetensors(target, writing.tensors)
    files = {"config.json": dict(writing.config), **writing.files} if writing.config else dict(writing.files)
    for name, content in files.items():
        (target / name).parent.mkdir(exist_ok=True)
        if isinstance(content, bytes):
            (target / name).write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (target / name).write_text(text, encoding="utf-8")


def write_safetensors(folder: Path, tensors: Iterator[tuple[str, np.ndarray]], largest: int = SHARD) -> None:
    """`model.safetensors`, or several parts and their index where there is more than `largest` bytes."""
    parts: list[list[str]] = []
    waiting: dict[str, np.ndarray] = {}
    total = size = 0

    def flush() -> None:
        parts.append(list(waiting))
        safetensors.numpy.save_file(waiting, folder / f"part-{len(parts)}", metadata={"format": "pt"})
        waiting.clear()

    for name, array in tensors:
        if waiting and size + array.nbytes > largest:
            flush()
            size = 0
        waiting[name] = np.ascontiguousarray(array)
        size, total = size + array.nbytes, total + array.nbytes
    flush()
    if len(parts) == 1:
        (folder / "part-1").rename(folder / "model.safetensors")
        return
    names = [f"model-{index:05d}-of-{len(parts):05d}.safetensors" for index in range(1, len(parts) + 1)]
    for index, name in enumerate(names, 1):
        (folder / f"part-{index}").rename(folder / name)
    where = {key: name for name, keys in zip(names, parts, strict=True) for key in keys}
    listing = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(listing, indent=2) + "\n")
