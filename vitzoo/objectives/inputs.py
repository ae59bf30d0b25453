"""How a model is called with a batch, whatever its inputs are."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo import own_values
from vitzoo.registry import name_of

EXAMPLE_WEIGHT = "example_weight"
"""How much each row counts, `[batch]`: given to a model that has it among its `INPUTS`, as one that keeps statistics
must, so that rows which only fill up a batch don't enter them.
"""

OF_ROWS = {"weight": "example_weight", "key": "key", "label": "label"}
"""Kinds of inputs that no processor makes, since every row has them, and their keys in a batch. A row's own random key,
`[batch]`, is for what a model draws of an example, whatever micro-batch that is in.
"""
BESIDE = ("source", "segments", "positions", "types", "prefix")
"""Kinds of what a text brings with it, where its rows have it, each under the text's own name:
`{"tokens": "text", "tokens_segments": "segments"}`. See `data.text.rows`.
"""

IMAGES = {"image": "image"}
TEXTS = {
    "source": "source",
    **{f"source_{kind}": kind for kind in ("segments", "positions")},
    "tokens": "text",
    **{f"tokens_{kind}": kind for kind in ("segments", "positions", "types", "prefix")},
}
"""What a model that doesn't say what it takes is given."""


def inputs_of(model: Any) -> Mapping[str, str]:
    """What a model says that it is given, by name the kind; nothing where it doesn't say."""
    return getattr(model, "INPUTS", {})


def made_inputs(model: Any) -> dict[str, str]:
    """Those of a model's inputs that a processor makes of the data."""
    return {name: kind for name, kind in inputs_of(model).items() if kind not in (*OF_ROWS, *BESIDE)}


def given(model: Any, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
    """What a model takes of a batch: the first of its inputs, which is given by position, and the others by name."""
    kinds = inputs_of(model) or (TEXTS if "tokens" in batch else IMAGES)
    keys = {name: OF_ROWS.get(kind, name) for name, kind in kinds.items()}
    made = made_inputs(model)
    found = {name: batch[key] for name, key in keys.items() if key in batch or name in made}
    first = next(iter(found))
    return found.pop(first), found


def logits_of(model: Any, batch: Mapping[str, jax.Array], **how: Any) -> jax.Array:
    """What a model makes of a batch: float32 [batch, classes] of images and of whole texts, [batch, tokens, classes] or
    [batch, tokens, vocabulary] of their tokens; [batch] where it is a number.

    Args:
        model: of any inputs; the first is given by position, the others by name.
        batch: what each of its `INPUTS` is.
        how: `train` and `key`, as the model takes them.

    Raises:
        UserError: a user's own model gives no such floats.
    """
    first, others = given(model, batch)
    logits = model(first, **others, **how)
    if name_of(model):
        rows = batch["targets"].shape if "targets" in batch else (len(first),)
        if not own_values.is_numbers(logits, jnp.floating) or logits.shape[: len(rows)] != rows:
            wanted = f"logits [{', '.join(map(str, rows))}, classes] for {own_values.shown(first)}"
            raise own_values.refusal(model, "__call__", logits, wanted)
    return logits


def numbers_of(model: Any, batch: Mapping[str, jax.Array], **how: Any) -> jax.Array:
    """What a model makes of a batch whose labels are numbers to predict, float32 [batch]; arguments as `logits_of`.

    Raises:
        UserError: a user's own model gives something else.
    """
    numbers = logits_of(model, batch, **how)
    if name_of(model) and numbers.ndim != 1:
        raise own_values.refusal(model, "__call__", numbers, f"a number for each row, float32[{len(numbers)}]")
    return numbers.astype(jnp.float32)
