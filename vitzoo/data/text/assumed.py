"""What is known of text before any is read: how many ids there are, and the shapes of a row of a batch.

`vitzoo.data.text.rows` says what the arrays of a row hold.
"""

import jax
import numpy as np

from vitzoo.data.text.masked import chosen_of
from vitzoo.data.text.row_kinds import has_source
from vitzoo.data.text.settings import SIZED, Text, Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.models.text import is_prefix_lm, kind_of, text_config, usual_vocabulary

CHARACTERS = 256
CLASSES = 2

Shapes = dict[str, jax.ShapeDtypeStruct]


def vocabulary(tokenizer: Tokenizer, config: ModelConfig) -> tuple[int | None, tuple[str, ...]]:
    """The number of ids that a tokenizer says, None for the model's own; and what was assumed.

    Args:
        tokenizer: its settings.
        config: the model's, without what the data say.
    """
    if tokenizer.kind in SIZED:
        return tokenizer.vocabulary_size, ()
    if tokenizer.kind == "bytes":
        return open_tokenizer(tokenizer).vocabulary_size, ()
    if tokenizer.kind == "file":
        try:
            return open_tokenizer(tokenizer).vocabulary_size, ()
        except UserError:  # not here: the model's own number is the published tokenizer's
            pass
    if text_config(config).vocabulary_size:
        return None, ()
    size = CHARACTERS if tokenizer.kind == "characters" else usual_vocabulary(config)
    return size, (f"a vocabulary of {size:,} assumed (--config.model.vocabulary_size states it)",)


def row_shapes(rows: str, text: Text, config: ModelConfig, number: bool = False) -> Shapes:
    """A row of text, as training loads it.

    Args:
        rows: a key of `vitzoo.data.processors.text.MAKERS` from which models learn.
        text: the config's section.
        config: the model's settings.
        number: labels are numbers, not classes.
    """
    length = text.length
    integers, more = ["tokens", "targets", "tokens_segments", "tokens_positions"], {}
    if has_source(rows, kind_of(config)):
        source = ("source", "source_segments", "source_positions")
        more = {name: _array(np.int32, text.source_length) for name in source}
    elif is_prefix_lm(config):
        more = {"tokens_prefix": _array(bool, length)}
    elif rows == "masked":
        room = length - 2 - int(text.next_sentence)
        integers.append("tokens_types")
        more = {"chosen": _array(np.int32, chosen_of(room, text.mask_rate))}
        more |= {"label": _array(np.int32)} if text.next_sentence else {}
    elif rows == "labelled":
        integers.append("tokens_types")
        more = {"label": _array(np.float32 if number else np.int32)}
    elif rows == "tagged":
        integers.append("words")
    row = {name: _array(np.int32, length) for name in integers} | more
    return row | {"target_weights": _array(np.float32, length), "example_weight": _array(np.float32)}


def _array(dtype: type, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
