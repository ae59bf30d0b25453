"""Which rows of text there are, which models read them, and which settings of the text act on them."""

LEARNED = {
    "decoder": ("windows", "documents", "answers", "prefix"),
    "encoder_decoder": ("pairs", "span_corruption", "prefix"),
    "encoder": ("masked", "labelled", "tagged"),
}
"""Rows that models of each kind learn from."""
ASKED = ("prompts", "choices", "last_word")
"""Rows on which models that write are measured, whatever they learned from."""
EXAMPLES = "examples"
"""Rows that are one example each, of whatever kinds, as the data have it."""
ROWS = tuple(dict.fromkeys([*(rows for several in LEARNED.values() for rows in several), *ASKED]))

ACTS = {
    "packing": ("documents", "answers", "prefix", "pairs", "masked"),
    "random_offsets": ("windows",),
    "noise_density": ("span_corruption",),
    "mean_span": ("span_corruption",),
    "roll_spans": ("span_corruption",),
    "mask_rate": ("masked",),
    "whole_words": ("masked",),
    "next_sentence": ("masked",),
    "turn_prefix": ("answers", "prompts"),
    "turn_suffix": ("answers", "prompts"),
    "answer_roles": ("answers", "prompts"),
    "prefix": (*(rows for rows in ROWS if rows != "tagged"), EXAMPLES),
}
"""Settings of the text that say how rows are made, and of which."""


def readers_of(rows: str) -> tuple[str, ...]:
    """The kinds of models that learn from such rows; none of rows on which models are only measured."""
    return tuple(kind for kind, several in LEARNED.items() if rows in several)


def has_source(rows: str, kind: str) -> bool:
    """Whether such rows have a source beside the target, for a model of a kind."""
    readers = readers_of(rows)
    return "encoder_decoder" in readers and (kind == "encoder_decoder" or len(readers) == 1)


def read_by(kind: str | None) -> tuple[str, ...]:
    """The rows that a model of a kind reads; all where the kind isn't known."""
    if kind is None:
        return ROWS
    return LEARNED[kind] + (() if kind == "encoder" else ASKED)
