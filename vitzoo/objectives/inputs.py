"""How a model is called with a batch, of images or of text."""

from collections.abc import Mapping
from typing import Any

import jax

EXAMPLE_WEIGHT = "example_weight"
"""How much each row counts, `[batch]`: given to a model that has it among its `INPUTS`, as one that keeps statistics
must, so that rows which only fill up a batch don't enter them.
"""

ROW_KEYS = "row_keys"
"""Each row's own random key, `[batch]`: given to a model that has it among its `INPUTS`, for what it draws of an
example, whatever micro-batch that is in.
"""

TOKENS = ("source_tokens", "tokens")
PLACES = ("sentence_types", "segments", "positions", "prefix", "source_segments", "source_positions")


def logits_of(model: Any, batch: Mapping[str, jax.Array], **how: Any) -> jax.Array:
    """What a model makes of a batch: float32 [batch, classes] of images and of whole texts, [batch, tokens, classes] or
    [batch, tokens, vocabulary] of their tokens.

    Args:
        model: of images, or an encoder, a decoder or both of text.
        batch: `image`, or `tokens` and what tells where they stand.
        how: `train` and `key`, as the model takes them.
    """
    how |= of_rows(model, batch)
    if "image" in batch:
        return model(batch["image"], **how)
    given = [batch[name] for name in TOKENS if name in batch]
    return model(*given, **told(batch), **how)


def of_rows(model: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """What a model takes of a batch besides its inputs, where it has it among its `INPUTS`."""
    known = {EXAMPLE_WEIGHT: "weight", ROW_KEYS: "key"}
    wanted = getattr(model, "INPUTS", ())
    return {name: batch[key] for name, key in known.items() if name in wanted and key in batch}


def told(batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """What a batch of text says of its tokens' places, by the name under which a model takes it."""
    return {name: batch[name] for name in PLACES if name in batch}
