"""`vitzoo convert`: weights from any form into another, with everything that belongs to them."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.orbax import one_at_a_time
from vitzoo.checkpoints.store import Store
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import transfer_rules
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.outputs import check_takes_checkpoints, checked_new_folder, whole_folder
from vitzoo.registry import find
from vitzoo.weights.formats.registry import FORMATS, WRITERS, Writing, find_format
from vitzoo.weights.model import builder, config_of
from vitzoo.weights.open import check_given, name_of, open_weights, read_weights
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
        notes: what was ignored, taken by convention or written in another way.
    """

    output: str
    format: str
    weights: str
    parameters: int
    notes: tuple[str, ...]


FILE_ENDINGS = (
    ".bin", ".ckpt", ".gguf", ".h5", ".keras", ".msgpack", ".npz", ".onnx", ".pb", ".pt", ".pth", ".safetensors",
    ".tflite",
)  # fmt: skip
"""Of files that other programs write: a folder of such a name would be taken for one."""


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
        given: settings of the model, for what can't be known from published files; what is known can't differ.

    Returns:
        What was written.

    Raises:
        UserError: the weights can't be read, the format has no place for them, or the folder isn't empty or is named as
            a file.
        RunError: the folder couldn't be written; nothing of it is left.
    """
    if (ending := Path(output).suffix.lower()) in FILE_ENDINGS:
        raise UserError("DST", str(output), f"no {ending} file is written: give a new folder, or FILE.stablehlo")
    target = checked_new_folder("DST", output)
    _check_format(form)
    located = open_weights(checkpoint, given, source_format)
    check_given(located, given or {})
    model = located.description["model"]["name"]
    form = form or (OWN if isinstance(located, Published) else default_format(model))
    if form == OWN:
        check_takes_checkpoints("DST", target)
    params, which, notes = read_weights(located, weights)
    config = config_of(located.description)
    _, shapes = state.abstract(builder(model, config))
    check_leaves(flatten(params), flatten(shapes), [], transfer_rules(find("model", model)), where=name_of(located))
    if form == OWN:
        _write_own(located, params, target)
    else:
        writing = _writing(located, config, flatten(params), form)
        _write_published(target, writing)
        notes = [*notes, *writing.notes]
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    return Converted(str(output), form, which, count, tuple(notes))


def default_format(model: str) -> str:
    """The format of transformers of a model.

    Raises:
        UserError: it has none.
    """
    found = [name for name in WRITERS if find_format(name).model == model]
    if not found:
        raise UserError("--format", None, f"no published format is known for the model {model}")
    return found[0]


def _check_format(form: str) -> None:
    if not form or form in (OWN, *WRITERS):
        return
    if form in FORMATS:
        raise UserError("--format", form, f"is read and not written; there are {OWN}, {', '.join(WRITERS)}")
    raise UserError("--format", form, f"is none of {OWN}, {', '.join(WRITERS)}")


@one_at_a_time
def _write_own(located: Located, params: Any, target: Path) -> None:
    """A run folder with one checkpoint."""
    counters = {"step": located.step, "updates": located.step, "skipped": 0}
    assets = located.folder / "assets"
    saved = {"params": params, **counters}
    with whole_folder(target, "DST") as folder, contextlib.closing(Store(folder / "checkpoints")) as store:
        store.save(located.step, saved, located.description, {}, assets if assets.is_dir() else None)
        store.wait()


def _writing(located: Located, config: Any, params: Mapping[str, np.ndarray], form: str) -> Writing:
    """A checkpoint in a published format.

    Raises:
        UserError: the format has no place for it; formats that have are named.
    """
    description, known = located.description, located.description["tokenizer"]
    model = description["model"]["name"]
    if find_format(form).model != model:
        raise UserError("--format", form, f"is of {find_format(form).model}, these weights of {model}")
    tokenizer = None if known is None else load_tokenizer(located.folder / "assets", known)

    def write(name: str) -> Writing:
        writer: Any = find_format(name)
        return writer.write(config, dict(params), description, tokenizer)

    def takes(name: str) -> bool:
        with contextlib.suppress(UserError):
            write(name)
            return True
        return False

    try:
        return write(form)
    except UserError as refusal:
        others = [name for name in WRITERS if name != form and find_format(name).model == model and takes(name)]
        instead = f"; --format {' or '.join([*others, OWN])} keeps it, and so does FILE.stablehlo"
        raise UserError(refusal.field, refusal.value, refusal.message + instead) from None


def _write_published(target: Path, writing: Writing) -> None:
    files = {"config.json": dict(writing.config), **writing.files} if writing.config else dict(writing.files)
    with whole_folder(target, "DST") as folder:
        if writing.file == "npz":
            np.savez(folder / "model.npz", allow_pickle=False, **dict(writing.tensors))
        else:
            write_safetensors(folder, writing.tensors)
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
                continue
            text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")


def write_safetensors(folder: Path, tensors: Iterator[tuple[str, np.ndarray]], largest: int = SHARD) -> None:
    """`model.safetensors`, or several parts and their index where there is more than `largest` bytes.

    Raises:
        OSError: they can't be written.
    """
    parts: list[list[str]] = []
    waiting: dict[str, np.ndarray] = {}
    total = size = 0

    def flush() -> None:
        parts.append(list(waiting))
        try:
            safetensors.numpy.save_file(waiting, folder / f"part-{len(parts)}", metadata={"format": "pt"})
        except safetensors.SafetensorError as error:  # so it tells a full disk
            raise OSError(str(error)) from error
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
