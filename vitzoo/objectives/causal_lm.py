"""Causal language modelling: say the next token of a text."""

import dataclasses

from vitzoo.objectives.tokens import TokenObjective
from vitzoo.schema import setting


@dataclasses.dataclass(frozen=True)
class CausalLanguageModelling(TokenObjective):
    """Of a decoder; see `TokenObjective`."""

    rows: str = setting(
        "windows",
        "windows: cut from one long text; documents: each text for itself, packed with text.packing; answers: prompts "
        "and completions or turns, of which the answers are learned",
        choices=("windows", "documents", "answers"),
    )
