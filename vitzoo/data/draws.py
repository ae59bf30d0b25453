"""Random numbers as functions of (seed, global position): no state, the same on any worker, process or restart."""

import numpy as np

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_GOLDEN = 0x9E3779B97F4A7C15


def generator(seed: int, position: int) -> np.random.Generator:
    """A generator of its own for one example of the stream."""
    key = np.array([seed % 2**64, position], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def uniform(seed: int, positions: np.ndarray, stream: int) -> np.ndarray:
    """A number in [0, 1) for each position, float64 [positions]: SplitMix64 of (seed, stream, position), vectorised.

    `stream` tells apart the draws that one example needs.
    """
    start = _scramble(np.array([(seed + _GOLDEN * (stream + 1)) % 2**64], np.uint64))
    bits = _scramble(start + np.uint64(_GOLDEN) * np.asarray(positions, np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _scramble(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    return state ^ (state >> np.uint64(31))
