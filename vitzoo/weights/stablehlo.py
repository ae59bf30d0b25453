"""A model as one function that runs with jax alone: `vitzoo convert CKPT model.stablehlo`."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from vitzoo.data.mixing import normalise
from vitzoo.errors import UserError
from vitzoo.models.text import is_prefix_lm, kind_of
from vitzoo.nn.execution import Execution
from vitzoo.outputs import checked_file, write_whole
from vitzoo.overwriting import Reads
from vitzoo.weights.load import ImageInfo, load

SUFFIX = ".stablehlo"
PLATFORMS = ("cpu", "cuda", "tpu")


def write_stablehlo(checkpoint: str, output: str | Path, weights: str = "auto", **changes: Any) -> tuple[Path, str]:
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
    model, info = load(checkpoint, weights, execution=Execution(derivatives="plain"), **changes)
    if new := info.report.paths("new"):
        raise UserError("--config.model", None, f"with these settings {', '.join(new)} are new; train them first")
    (batch,) = export.symbolic_shape("batch")
    if isinstance(info, ImageInfo):
        preprocessing = info.preprocessing

        def function(images: jax.Array) -> jax.Array:
            return model(normalise(images, preprocessing))

        takes = {"images": jax.ShapeDtypeStruct((batch, *info.size, info.channels), jnp.uint8)}
    else:
        function, takes = _of_text(model, info, batch)
    made = export.export(jax.jit(function), platforms=PLATFORMS)(*takes.values())
    about = {
        "takes": {name: _shown(value) for name, value in takes.items()},
        "gives": [_shown(value) for value in made.out_avals],
        "classes": info.classes,
        "preprocessing": info.description["preprocessing"],
        "tokenizer": info.description["tokenizer"],
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


def _of_text(model: Any, info: Any, batch: Any) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
    """The function of a model of text, and what it takes, in order."""
    target = jax.ShapeDtypeStruct((batch, info.text.sequence_length), jnp.int32)
    if is_prefix_lm(model.config):
        return lambda tokens, segments, prefix: model(tokens, segments=segments, prefix=prefix > 0), {
            "tokens": target,
            "segments": target,
            "prefix": target,
        }
    if kind_of(model.config) != "encoder_decoder":
        return lambda tokens, segments: model(tokens, segments=segments), {"tokens": target, "segments": target}

    def function(source: jax.Array, source_segments: jax.Array, tokens: jax.Array, segments: jax.Array) -> jax.Array:
        return model(source, tokens, source_segments=source_segments, segments=segments)

    source = jax.ShapeDtypeStruct((batch, info.text.source_length), jnp.int32)
    return function, {"source": source, "source_segments": source, "tokens": target, "segments": target}


def _shown(value: Any) -> str:
    return f"{np.dtype(value.dtype).name} [{', '.join(map(str, value.shape))}]"
