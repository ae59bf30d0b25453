"""Fixed splits with equal shares of every class."""

import numpy as np


def stratified_order(labels: np.ndarray, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A fixed split with equal shares of every class in both parts.

    Each class is permuted and gives its share of the `held_out` examples, rounded by largest remainder.

    Returns:
        the positions kept and the positions held out, each in file order.
    """
    # numpy promises the stream of RandomState never to change: the split is the same for everyone, for ever.
    random = np.random.RandomState(seed)
    shares = np.bincount(labels) * held_out / len(labels)
    taken = shares.astype(int)
    taken[np.argsort(-(shares - taken), kind="stable")[: held_out - taken.sum()]] += 1
    held = [random.permutation(np.flatnonzero(labels == label))[:number] for label, number in enumerate(taken)]
    held_rows = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(labels)), held_rows), held_rows
