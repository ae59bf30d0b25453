"""Several sources in one stream, by rates (Raffel et al. 2020, 3.5.2; temperature as in Arivazhagan et al. 2019)."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from vitzoo.data.order import Shuffled
from vitzoo.data.rows import Row, Rows
from vitzoo.data.sources.base import fingerprint
from vitzoo.data.text.settings import Mixture
from vitzoo.errors import UserError

BLOCK = 10_000  # positions in which every source comes exactly as often as its rate says
ORDER = 201  # the group of draws that orders a block
KEPT_BLOCKS = 4
LARGE = 1e150  # rates above it might have no finite sum


class MixtureRows:
    """Which source stands at position p is a function of (seed, p): every block of 10,000 positions holds source k
    exactly `shares[k]` times, in an order drawn from (seed, block). A source's q-th row of the stream, counted over all
    blocks, is the one that its own stream would hold at position q: each epoch of it is a permutation.

    `train_row` therefore takes no notice of `index`. An epoch, `len`, is as many rows as all sources have together.
    Evaluation goes through the sources one after another.
    """

    def __init__(self, sources: Sequence[Rows], settings: Mixture, names: Sequence[str] | None = None):
        if not sources:
            raise UserError("mixture.rates", None, "mixes no sources")
        self.sources = list(sources)
        self.names = tuple(names or (source.info.name for source in sources))
        _check_alike(self.sources, self.names)
        self.sizes = np.array([len(source) for source in sources])
        self.shares = shares(mixing_rates(self.sizes, settings))
        self.bounds = np.concatenate([[0], np.cumsum(self.sizes)])
        self._orders: dict[tuple[int, int], np.ndarray] = {}
        self._shuffles: dict[tuple[int, int], Shuffled] = {}
        infos = [source.info for source in sources]
        mixed = " + ".join(
            f"{name} {share / BLOCK:.2%}" for name, share in zip(self.names, self.shares.tolist(), strict=True)
        )
        self.info = dataclasses.replace(
            infos[0], name=" + ".join(self.names), n=int(self.sizes.sum()), classes=_common(infos),
            fingerprint=fingerprint([info.fingerprint for info in infos], self.shares),
            notes=(f"mixture: {mixed}", *(f"{i.name}: {note}" for i in infos for note in i.notes)),
        )  # fmt: skip

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def train_row(self, index: int, seed: int, position: int) -> Row:
        number, own = self.place(seed, position)
        own_seed = seed_of(seed, number)
        shuffle = self._shuffles.setdefault((seed, number), Shuffled(own_seed, ORDER, int(self.sizes[number])))
        row = self.sources[number].train_row(int(shuffle(np.array([own]))[0]), own_seed, own)
        return self._numbered(row, number)

    def eval_row(self, index: int) -> Row:
        number = int(np.searchsorted(self.bounds, index, "right")) - 1
        return self._numbered(self.sources[number].eval_row(index - int(self.bounds[number])), number)

    def padding(self) -> Row:
        return self.sources[0].padding()

    def place(self, seed: int, position: int) -> tuple[int, int]:
        """Which source stands at a position, and how many rows of it came before."""
        block, offset = divmod(position, BLOCK)
        numbers, ranks = self._order(seed, block)
        number = int(numbers[offset])
        return number, block * int(self.shares[number]) + int(ranks[offset])

    def _order(self, seed: int, block: int) -> np.ndarray:
        """Of a block: each position's source, and its rank among those of the source; int [2, BLOCK]."""
        found = self._orders.get((seed, block))
        if found is None:
            numbers = np.repeat(np.arange(len(self.shares)), self.shares)
            numbers = np.random.default_rng((seed % 2**64, ORDER, block)).permutation(numbers)
            ranks = np.empty_like(numbers)
            for number, share in enumerate(self.shares.tolist()):
                ranks[numbers == number] = np.arange(share)
            found = np.stack([numbers, ranks])
            # a new dictionary, since other threads may be reading the old one
            self._orders = dict([*self._orders.items()][1 - KEPT_BLOCKS :]) | {(seed, block): found}
        return found

    def _numbered(self, row: Row, number: int) -> Row:
        """Ids of the sources laid end to end."""
        return row | {"id": np.array(int(row["id"]) + int(self.bounds[number]), np.int64)}


def mixing_rates(sizes: np.ndarray, settings: Mixture) -> np.ndarray:
    """The rate of each source, float64, summing to 1."""
    if settings.rates is not None:
        if len(settings.rates) != len(sizes):
            raise UserError("mixture.rates", settings.rates, f"must be {len(sizes)} numbers, one for each source")
        rates = np.array(settings.rates, np.float64)
    else:
        capped = np.minimum(sizes, settings.cap) if settings.cap else sizes
        rates = capped.astype(np.float64) ** (1 / settings.temperature)
    if rates.max() > LARGE:
        rates /= rates.max()
    return rates / rates.sum()


def shares(rates: np.ndarray) -> np.ndarray:
    """How often each source comes in a block: at least once, the rest by largest remainder; they sum to the block."""
    wanted = rates * BLOCK
    counts = np.maximum(np.floor(wanted).astype(np.int64), 1)
    while counts.sum() < BLOCK:
        counts[np.argmax(wanted - counts)] += 1
    while counts.sum() > BLOCK:
        counts[np.argmax(np.where(counts > 1, counts - wanted, -np.inf))] -= 1
    return counts


def seed_of(seed: int, number: int) -> int:
    """A seed of its own for each source, so that two at the same place of their streams draw differently."""
    return int(np.random.SeedSequence((seed % 2**64, number)).generate_state(1, np.uint64)[0])


def _common(infos: Sequence) -> tuple[str, ...] | None:
    classes = {info.classes for info in infos}
    return classes.pop() if len(classes) == 1 else None


def _check_alike(sources: Sequence[Rows], names: Sequence[str]) -> None:
    shapes = [{key: (v.shape, v.dtype) for key, v in source.padding().items()} for source in sources]
    for name, shape in zip(names[1:], shapes[1:], strict=True):
        if shape != shapes[0]:
            differing = [key for key in shape.keys() | shapes[0].keys() if shape.get(key) != shapes[0].get(key)]
            raise UserError(
                "mixture", name, f"its rows differ from those of {names[0]} in {', '.join(sorted(differing))}"
            )
