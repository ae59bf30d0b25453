"""CKPT, what a user writes for weights: a run or checkpoint of vitzoo's, or published weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.checkpoints.locate import CHECKPOINTS, Located, locate
from vitzoo.checkpoints.manifest import MANIFEST
from vitzoo.checkpoints.read import read_params
from vitzoo.errors import Refused
from vitzoo.weights import catalogue
from vitzoo.weights.files.open import is_published
from vitzoo.weights.names import place_of
from vitzoo.weights.published import Published, open_published


def open_weights(checkpoint: str | Path, given: Mapping[str, Any] | None = None, form: str = "") -> Located:
    """Weights by name, found and checked; their arrays are read by `read_weights`.

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP`, a checkpoint's folder, a file or folder of published weights, or
            their name: on the hub (`org/name`, `org/name@REVISION`) or in the catalogue. A path that is there is
            taken as such.
        given: settings of the model, for what can't be known from published files.
        form: the format of published weights, where it isn't to be recognised.

    Raises:
        Refused: there is nothing there, it is damaged, or of no known kind.
    """
    text = str(checkpoint)
    path = Path(text).expanduser()
    ours = path.is_dir() and ((path / CHECKPOINTS).is_dir() or (path / MANIFEST).exists())
    if text and not ours and is_published(text):
        return open_published(text, given, form)
    if not path.exists() and (place := place_of(text)) is not None:
        return open_published(text, given, form, place)
    try:
        return locate(checkpoint)
    except Refused as refusal:
        if (name := catalogue.meant(text)) is None or path.exists():
            raise
        raise Refused(refusal.field, refusal.value, f"{refusal.message}; did you mean {name}?") from None


def read_weights(located: Located, weights: str = "auto") -> tuple[dict[str, Any], str, list[str]]:
    """The arrays.

    Args:
        located: from `open_weights`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.

    Returns:
        Nested parameters, which they are (`ema`, `raw` or `published`), and lines for the report.

    Raises:
        Refused: `ema` is asked of weights without one, or they can't be read.
    """
    if not isinstance(located, Published):
        return *read_params(located, weights), []
    if weights == "ema":
        raise Refused("weights", "ema", f"{located.source.name} are published weights, without a moving average")
    params, lines = located.params()
    return params, "published", lines
