"""`vitzoo convert`: weights from any form into another, with everything that belongs to them; or a model as a function
that runs with jax alone."""

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
from jax import export

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.orbax import one_at_a_time
from vitzoo.checkpoints.store import Store
from vitzoo.config.assembly import from_description
from vitzoo.data.inputs import tokenizer_of
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import transfer_rules
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import HostParams
from vitzoo.outputs import (
    check_takes_checkpoints,
    checked_file,
    checked_new_folder,
    give_usual_mode,
    whole_folder,
    write_whole,
)
from vitzoo.overwriting import Reads
from vitzoo.registry import find
from vitzoo.strict_json import JSON
from vitzoo.weights.formats.registry import FORMATS, WRITERS, Writing, find_writer
from vitzoo.weights.load import load
from vitzoo.weights.open import Published, check_given, name_of, open_weights, read_weights
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
    given: Mapping[str, JSON] | None = None,
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
    made = from_description(located.description)
    config, (_, shapes) = made.config, made.abstract
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
    found = [name for name in WRITERS if find_writer(name).model == model]
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
def _write_own(located: Located, params: HostParams, target: Path) -> None:
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
    description, known = located.description, tokenizer_of(located.description)
    model = description["model"]["name"]
    if find_writer(form).model != model:
        raise UserError("--format", form, f"is of {find_writer(form).model}, these weights of {model}")
    tokenizer = None if known is None else load_tokenizer(located.folder / "assets", known)

    def write(name: str) -> Writing:
        return find_writer(name).write(config, dict(params), description, tokenizer)

    def takes(name: str) -> bool:
        with contextlib.suppress(UserError):
            write(name)
            return True
        return False

    try:
        return write(form)
    except UserError as refusal:
        others = [name for name in WRITERS if name != form and find_writer(name).model == model and takes(name)]
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
            give_usual_mode(folder / f"part-{len(parts)}")
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


SUFFIX = ".stablehlo"
PLATFORMS = ("cpu", "cuda", "tpu")


def write_stablehlo(checkpoint: str, output: str | Path, weights: str = "auto", **changes: JSON) -> tuple[Path, str]:
    """Writes a model, its parameters and its scaling of pixels as a serialised `jax.export.Exported`.

    Of images it takes uint8 [batch, height, width, channels] of the model's size, 0 to 255 (whole levels, whatever
    the checkpoint's `rounding`), for any batch, and gives float32 logits [batch, classes]. Of text: int32 ids and
    segments [batch, tokens] (1 for a token, 0 for padding) of the trained length, and for a prefix LM a third, 1 for
    what is read in both directions; an encoder-decoder's source before its target; logits [batch, tokens, vocabulary],
    or [batch, classes]. Beside it, `FILE.json` says what it takes, in order, and gives, how an image is resized, and
    which tokenizer of the checkpoint makes the ids. To run it:

        from jax import export
        function = export.deserialize(bytearray(open("model.stablehlo", "rb").read()))
        logits = function.call(images)

    Args:
        checkpoint: any CKPT.
        output: a new file that ends in .stablehlo.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        changes: settings of the model that shall differ.

    Returns:
        The file, and which weights it holds: `ema`, `raw` or `published`.

    Raises:
        UserError: the checkpoint can't be read, it has no weights for what a change adds, or a file is there already.
        RunError: a file couldn't be written; none is left.
    """
    path = checked_file("DST", output, (SUFFIX,), Reads(weights=[checkpoint]))
    beside = path.with_name(f"{path.name}.json")
    for file in (path, beside):
        if file.exists():
            raise UserError("DST", str(file), "is there already; give another file")
    model, info = load(checkpoint, weights, execution=Execution(custom_gradient=False), **changes)
    if new := info.report.paths("new"):
        raise UserError("--config.model", None, f"with these settings {', '.join(new)} are new; train them first")
    (batch,) = export.symbolic_shape("batch")
    function, takes = info.processor.exported(model, info.config, batch)
    made = export.export(jax.jit(function), platforms=PLATFORMS)(*takes.values())
    about = {
        "takes": {name: _shown(value) for name, value in takes.items()},
        "gives": [_shown(value) for value in made.out_avals],
        "classes": info.classes,
        "inputs": info.description["inputs"],
        "weights": info.weights,
        "checkpoint": checkpoint,
    }
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    try:
        write_whole(beside, lambda file: file.write_text(text, encoding="utf-8"))
        write_whole(path, lambda file: file.write_bytes(made.serialize()))
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return path, info.weights


def _shown(value: Any) -> str:
    return f"{np.dtype(value.dtype).name} [{', '.join(map(str, value.shape))}]"
