"""How a model is called with a batch, whatever its inputs are."""

from collections.abc import Mapping
from typing import Any

import jax

EXAMPLE_WEIGHT = "example_weight"
"""How much each row counts, `[batch]`: given to a model that has it among its `INPUTS`, as one that keeps statistics
must, so that rows which only fill up a batch don't enter them.
"""

OF_ROWS = {"weight": "weight", "key": "key", "label": "label"}
"""Kinds of inputs that no processor makes, since every row has them, and their keys in a batch. A row's own random key,
`[batch]`, is for what a model draws of an example, whatever micro-batch that is in.
"""
BESIDE = "segments"
"""The kind of what another input brings with it, under its own name: `{"tokens_segments": "segments"}`."""

TOKENS = ("source_tokens", "tokens")
PLACES = ("sentence_types", "segments", "positions", "prefix", "source_segments", "source_positions")


def inputs_of(model: Any) -> Mapping[str, str]:
    """What a model says that it is given, by name the kind; nothing where it doesn't say."""
    return getattr(model, "INPUTS", {})


def made_inputs(model: Any) -> dict[str, str]:
    """Those of a model's inputs that a processor makes of the data."""
    return {name: kind for name, kind in inputs_of(model).items() if kind not in (*OF_ROWS, BESIDE)}


def logits_of(model: Any, batch: Mapping[str, jax.Array], **how: Any) -> jax.Array:
    """What a model makes of a batch: float32 [batch, classes] of images and of whole texts, [batch, tokens, classes] or
    [batch, tokens, vocabulary] of their tokens.

    Args:
        model: of any inputs; the first is given by position, the others by name.
        batch: what each of its `INPUTS` is; `tokens` with what tells where they stand.
        how: `train` and `key`, as the model takes them.
    """
    how |= of_rows(model, batch)
    if any(name in batch for name in PLACES):
        given = [batch[name] for name in TOKENS if name in batch]
        return model(*given, **told(batch), **how)
    first, *others = made_inputs(model) or ("image",)
    return model(batch[first], **{name: batch[name] for name in others}, **how)


def of_rows(model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """What a model takes of a batch besides its inputs, where it has it among its `INPUTS`."""
    keys = {name: OF_ROWS.get(kind, name) for name, kind in inputs_of(model).items() if kind in (*OF_ROWS, BESIDE)}
    return {name: batch[key] for name, key in keys.items() if key in batch}


def told(batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """What a batch of text says of its tokens' places, by the name under which a model takes it."""
    return {name: batch[name] for name in PLACES if name in batch}
