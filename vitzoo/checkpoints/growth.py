"""Whether arrays that are packed on disk are more than weights can be, told by their sizes before any is unpacked."""

from collections.abc import Mapping

LARGEST_RATIO = 16
"""Of numbers to bytes on disk: weights hardly shrink."""
ALWAYS_FINE = 2**30
"""Bytes of numbers that are unpacked whatever they take on disk."""


def growth(sizes: Mapping[str, int], packed: int) -> str:
    """What is wrong with arrays whose `sizes` in bytes are so much more than the `packed` ones on disk as no weights'
    are; empty where nothing is.
    """
    if (size := sum(sizes.values())) <= max(ALWAYS_FINE, LARGEST_RATIO * packed):
        return ""
    largest = max(sizes, key=sizes.__getitem__)
    return f"would grow from {packed:,} to {size:,} bytes, most of them {largest}: no weights do"
