"""Saying something of texts with a checkpoint: classes, numbers, hidden or next tokens; how similar they are."""

import contextlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo.inference.inputs import TextInput, gather_texts
from vitzoo.inference.text_predictor import TextPredictor
from vitzoo.inference.writers import shown, write_features, write_rows
from vitzoo.outputs import checked_file, wrote
from vitzoo.overwriting import Reads, check_apart
from vitzoo.spelling import shared_note
from vitzoo.streams import counting


def predict_texts(
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
) -> list[dict[str, Any]]:
    """Say of texts what a checkpoint can.

        vitzoo.predict("runs/spam", ["win money", "see you at noon"])
        vitzoo.predict("runs/bert", "once [MASK] a time")
        vitzoo.predict("runs/similar", [{"first": "a cat", "second": "a dog"}])

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        inputs: texts, or records with the fields of training; one or several.
        top: answers listed for each; 5.
        batch_size: most texts computed at a time.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        output: a `.csv` or `.jsonl` file for the rows.
        features: an `.npz` file for `texts` [n] and `features` [n, width], sentence embeddings (of a pair, of both as
            one).
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        out: where model and progress are told; nowhere by default.

    Returns:
        A row for each text, in order: its fields, the answer, and `error`, which says why there is none. The answer is,
        by what the model was trained for:

        - classes: `top`, a list of {"label", "index", "probability"}
        - regression: `value`
        - classes of words: `words`, and of each its label in `labels` and `probabilities` (None where the text is
          too long)
        - masked training: `masks`, for each [MASK] a list of {"token", "id", "probability"}, and `filled`, the text
          with the most probable ones
        - of a decoder: `next`, a list of {"token", "id", "probability"}
        - of an encoder without a head: `embedding`, a list of numbers

    Raises:
        UserError: no such checkpoint, no text, one without the fields, or a file that can't be written to.
        RunError: a file couldn't be written.
    """
    reads = Reads(weights=[checkpoint])
    output_file = None if output is None else checked_file("--output", output, (".csv", ".jsonl"), reads)
    features_file = None if features is None else checked_file("--features", features, (".npz",), reads)
    check_apart(("--output", output_file), ("--features", features_file))
    predictor = TextPredictor(checkpoint, weights=weights, batch_size=batch_size, platform=platform)
    texts = predictor.task.checked(gather_texts(inputs, predictor.info.text))
    if features_file is not None:
        predictor.check_embeds()
    if out is not None:
        _say_first(predictor, texts, out)
    with contextlib.nullcontext() if out is None else counting("predicted", len(texts), out) as done:
        rows = list(predictor.rows(texts, top, done, must_answer=features_file is None))
    if output_file is not None:
        write_rows(output_file, rows)
    if features_file is not None:
        vectors = np.array([one["embedding"] for one in predictor.embedded(texts)])
        write_features(features_file, "texts", ["\n".join(one.parts) for one in texts], vectors)
    return rows


def similar(
    checkpoint: str | Path, texts: list[str], *, weights: str = "auto", platform: str = "", out: TextIO | None = None
) -> list[list[float]]:
    """How similar texts are: the cosine between each two of their embeddings, [n][n].

    Raises:
        UserError: no such checkpoint, or its model encodes no texts.
    """
    predictor = TextPredictor(checkpoint, weights=weights, platform=platform)
    predictor.check_embeds()
    if out is not None:
        _say_first(predictor, gather_texts(texts, predictor.info.text), out)
    return [[round(value, 6) for value in row] for row in predictor.similarity(texts).tolist()]


def say_text_rows(rows: list[dict[str, Any]], out: TextIO | None = None) -> None:
    """Print a line for each text: what it is, and what is said of it or why nothing is."""
    for row in rows:
        name = TextInput({key: row[key] for key in ("text", "first", "second", "words") if key in row}).name
        print(f"{name}  {shown(row)}", file=out or sys.stdout)


def say_texts_written(
    rows: list[dict[str, Any]],
    output: str | Path | None,
    features: str | Path | None,
    out: TextIO | None = None,
    *,
    before: Collection[str] = (),
) -> None:
    """Name the files that were written, with how much each holds, and those of them that were there `before`."""
    count = f"{len(rows):,} text{'s' * (len(rows) != 1)}"
    if output is not None:
        print(f"{wrote(output, before)}: {count}", file=out or sys.stdout)
    if features is not None:
        print(f"{wrote(features, before)}: embeddings of {count}", file=out or sys.stdout)


def say_similar(texts: list[str], values: list[list[float]], out: TextIO | None = None) -> None:
    """Print the cosine of two texts, or the table of several."""
    if len(texts) == 2:
        print(f"cosine  {values[0][1]:.4f}", file=out or sys.stdout)
        return
    for text, row in zip(texts, values, strict=True):
        cells = "  ".join(f"{value:7.4f}" for value in row)
        print(f"{cells}  {TextInput({'text': text}).name}", file=out or sys.stdout)


def _say_first(predictor: TextPredictor, texts: list[TextInput], out: TextIO) -> None:
    info = predictor.info
    print(f"loads    {info.checkpoint}: step {info.step}, weights {info.weights}, {predictor.task.SAYS}", file=out)
    print(f"tokens   {info.shown()}", file=out)
    for note in shared_note(info.classes or (), "classes"):
        print(f"note     {note}", file=out)
    cut = predictor.cut(texts)
    note = f" ({cut:,} longer than {predictor.task.longest} tokens: only their beginning is read)" if cut else ""
    print(f"texts    {len(texts):,}{note}", file=out, flush=True)
    for line in predictor.unknown(texts):
        print(f"warning: {line}", file=out, flush=True)
