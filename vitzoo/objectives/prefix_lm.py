"""Prefix language modelling: say the rest of a text whose beginning is read in both directions."""

import dataclasses
from typing import ClassVar

from vitzoo.objectives.tokens import TokenObjective
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class PrefixLanguageModelling(TokenObjective):
    """Of a decoder whose tokens all see the whole prefix and those behind it only what stands before them, or of an
    encoder-decoder, whose source the prefix is (Raffel et al. 2020, https://arxiv.org/abs/1910.10683, sections 3.1.4
    and 3.2.1). The tokens behind the prefix alone are scored; see `TokenObjective`.

    A decoder's batches hold `prefix` bool [B, T] besides.
    """

    rows: str = setting(
        "prefix",
        "prefix: a text, split at a place that is drawn; answers: prompts and completions or turns, the prefix is all "
        "that stands before the answer",
        choices=("prefix", "answers"),
    )

    PREFIX_LM: ClassVar[bool] = True
    """Whether a decoder reads what a text begins with in both directions."""
