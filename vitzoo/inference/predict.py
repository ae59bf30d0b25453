"""Classifying images with a checkpoint."""

import contextlib
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo.argument_types import checked
from vitzoo.data.image_files import IMAGE_ENDINGS
from vitzoo.data.inputs import input_of
from vitzoo.data.text.lines import STANDARD_INPUT
from vitzoo.errors import UserError
from vitzoo.inference.inputs import gather
from vitzoo.inference.predictor import Predictor, row
from vitzoo.inference.text_predict import predict_texts
from vitzoo.inference.writers import write_features, write_predictions
from vitzoo.outputs import checked_file, wrote
from vitzoo.overwriting import Reads, check_apart
from vitzoo.paths import expanded
from vitzoo.spelling import shared_note
from vitzoo.streams import counting
from vitzoo.weights.open import open_weights

ENDINGS = {".txt", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".md", *IMAGE_ENDINGS}
"""Of what is taken for the name of a file."""


@checked(top=1, batch_size=1)
def predict(
    checkpoint: str | Path,
    inputs: Any,
    *,
    top: int | None = None,
    batch_size: int = 64,
    weights: str = "auto",
    output: str | Path | None = None,
    features: str | Path | None = None,
    platform: str = "",
    out: TextIO | None = None,
    typed: bool = False,
) -> list[dict[str, Any]]:
    """Classify images; or say of texts what a checkpoint can (`predict_texts`): what is given as text and names no file
    is text.

        import vitzoo
        for row in vitzoo.predict("runs/photos", ["a.jpg", "folder/"]):
            print(row["file"], row["top"][0]["label"])

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        inputs: files, folders (searched to any depth), PIL images, arrays, bytes; one or several.
        top: classes listed for each image; 5, or all where an image may have several labels.
        batch_size: most images computed at a time.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        output: a `.csv` or `.jsonl` file for the rows.
        features: an `.npz` file for `files` `[n]` and `features` `[n, width]`, what the head sees of each image that
            could be read.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        out: where model, preprocessing and progress are told; nowhere by default.
        typed: the inputs stand on a command line, where what looks like the name of a file must be one.

    Returns:
        A row for each image, in order: `{"file", "top": [{"label", "index", "probability"}], "error"}`. An image that
        can't be read or isn't there has an empty `top` and says why in `error`; the others go on.

    Raises:
        UserError: no such checkpoint, none of the files and folders is there, or a file that can't be written to.
        RunError: a file couldn't be written.
    """
    if _are_texts(checkpoint, inputs):
        if typed:
            refuse_mistyped(inputs)
        return predict_texts(
            checkpoint, inputs, top=top, batch_size=batch_size, weights=weights, output=output, features=features,
            platform=platform, out=out,
        )  # fmt: skip
    found = gather(inputs)
    reads = Reads(inputs if isinstance(inputs, list | tuple) else [inputs], [checkpoint])
    output_file = None if output is None else checked_file("--output", output, (".csv", ".jsonl"), reads)
    features_file = None if features is None else checked_file("--features", features, (".npz",), reads)
    check_apart(("--output", output_file), ("--features", features_file))
    predictor = Predictor(checkpoint, weights=weights, batch_size=batch_size, platform=platform)
    most = predictor.most(top)
    if features_file is not None:
        predictor.check_features()
    if out is not None:
        say_first(predictor, len(found), out)
    rows, names, vectors = [], [], []
    with contextlib.nullcontext() if out is None else counting("predicted", len(found), out) as done:
        for seen in predictor.seen(found, done):
            rows.append(row(seen, predictor.labels, most))
            if features_file is not None and seen.features is not None:
                names.append(seen.name)
                vectors.append(seen.features)
    if output_file is not None:
        write_predictions(output_file, rows, predictor.labels if predictor.info.multi_label else None)
    if features_file is not None:
        write_features(features_file, "files", names, np.array(vectors, np.float32))
    return rows


def _are_texts(checkpoint: str | Path, inputs: Any) -> bool:
    """Whether inputs are for a model of text. The checkpoint is only looked at where they can't be images."""
    several = [inputs] if isinstance(inputs, str | Mapping) else inputs if isinstance(inputs, list | tuple) else []
    if not any(isinstance(one, Mapping) or (isinstance(one, str) and not _is_there(one)) for one in several):
        return False
    if input_of(open_weights(checkpoint).description, "text") is None:
        return False
    for one in several:
        if isinstance(one, str) and _is_there(one):
            raise UserError("inputs", one, "is a file; --input reads texts from it, and --text takes it as text")
    return True


def refuse_mistyped(texts: Sequence[str]) -> None:
    """Refuses texts from a command line that are mistyped names of files.

    Raises:
        UserError: one, without spaces, has a separator of folders or an ending of files; or is `-`.
    """
    for text in texts:
        if _is_like_a_name(text):
            problem = "--input - reads texts from standard input" if text == STANDARD_INPUT else "no such file"
            raise UserError("inputs", text, f"{problem}; --text takes it as text")


def _is_like_a_name(text: str) -> bool:
    if text == STANDARD_INPUT:
        return True
    return not re.search(r"\s", text) and ("/" in text or os.sep in text or Path(text).suffix.lower() in ENDINGS)


def _is_there(path: str) -> bool:
    try:
        return expanded(path).exists()
    except (OSError, ValueError, RuntimeError):  # too long for a name, or with characters that no name has
        return False


def exit_code(rows: list[dict[str, Any]]) -> int:
    """How the command ends: 0 if every image could be read, else 1; the rows say which couldn't, and why."""
    return 0 if all(row["error"] is None for row in rows) else 1


def say_first(predictor: Predictor, images: int, out: TextIO) -> None:
    """What is used, and on how many images."""
    info = predictor.info
    print(f"loads    {info.checkpoint}: step {info.step}, weights {info.weights}, {info.num_classes} classes", file=out)
    print(f"pixels   {info.shown()}", file=out)
    for note in shared_note(info.classes or (), "classes"):
        print(f"note     {note}", file=out)
    print(f"images   {images:,}", file=out, flush=True)


def say_rows(rows: list[dict[str, Any]], out: TextIO | None = None) -> None:
    """Print a line for each image: its name, then the classes by falling probability, or why it can't be read."""
    for one in rows:
        said = "  ".join(f"{c['label']} {c['probability']:.1%}" for c in one["top"])
        print(f"{one['file']}  {said or 'error: ' + str(one['error'])}", file=out or sys.stdout)


def say_written(
    rows: list[dict[str, Any]],
    output: str | Path | None,
    features: str | Path | None,
    out: TextIO | None = None,
    *,
    before: Collection[str] = (),
) -> None:
    """Name the files that were written, with how much each holds, and those of them that were there `before`."""
    read = sum(row["error"] is None for row in rows)
    if output is not None:
        print(f"{wrote(output, before)}: {len(rows):,} rows", file=out or sys.stdout)
    if features is not None:
        print(f"{wrote(features, before)}: features of {read:,} image{'s' * (read != 1)}", file=out or sys.stdout)
