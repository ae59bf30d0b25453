"""From a source to a target: translation, span corruption."""

import dataclasses

from vitzoo.objectives.tokens import TokenObjective
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class SequenceToSequence(TokenObjective):
    """Of an encoder-decoder; see `TokenObjective`."""

    rows: str = setting(
        "pairs",
        "pairs: a source and its target; span_corruption: T5's, masked spans of a text and what they held",
        choices=("pairs", "span_corruption"),
    )
