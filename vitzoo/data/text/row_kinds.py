"""Which rows of text there are, which models read them, and which settings of the text act on them."""

LEARNED = {
    "decoder": ("windows", "documents", "answers"),
    "encoder_decoder": ("pairs", "span_corruption", "prefix"),
    "encoder": ("masked", "labelled", "tagged"),
}
"""Rows that models of each kind learn from."""
ASKED = ("prompts", "choices", "last_word")
"""Rows on which models that write are measured, whatever they learned from."""
ROWS = (*(rows for several in LEARNED.values() for rows in several), *ASKED)

ACTS = {
    "packing": ("documents", "answers", "pairs", "masked"),
    "random_offsets": ("windows",),
    "noise_density": ("span_corruption",),
    "mean_span": ("span_corruption",),
    "roll_spans": ("span_corruption",),
    "mask_rate": ("masked",),
    "whole_words": ("masked",),
    "next_sentence": ("masked",),
}
"""Settings of the text that say how rows are made, and of which."""


def reader_of(rows: str) -> str | None:
    """The kind of model that learns from such rows; None where several kinds read them."""
    return next((kind for kind, several in LEARNED.items() if rows in several), None)


def read_by(kind: str | None) -> tuple[str, ...]:
    """The rows that a model of a kind reads; all where the kind isn't known."""
    if kind is None:
        return ROWS
    return LEARNED[kind] + (() if kind == "encoder" else ASKED)
