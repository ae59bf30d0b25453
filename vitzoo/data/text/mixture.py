"""Several sources in one stream, each with its own data and text settings, by rates (Raffel et al. 2020, 3.5.2;
temperature as in Arivazhagan et al. 2019).
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from vitzoo.data.draws import Shuffled
from vitzoo.data.open import open_source
from vitzoo.data.rows import Row, Rows
from vitzoo.data.settings import OF_STREAM, Data
from vitzoo.data.sources.base import Source, SourceInfo, fingerprint
from vitzoo.data.text.examples import all_text
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.errors import UserError
from vitzoo.schema import patch
from vitzoo.spelling import nearest
from vitzoo.strict_json import JSON

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


NAME = "mixture"

Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True)
class MixedSource:
    """Several sources by name, and how the text of each becomes rows."""

    sources: Mapping[str, Source]
    texts: Mapping[str, Text]
    stated: Mapping[str, Mapping[str, JSON]]
    """What the config states of each."""

    @property
    def info(self) -> SourceInfo:
        """Of all of them: no classes, as many examples as they have together."""
        infos = [source.info for source in self.sources.values()]
        marks = "+".join(info.fingerprint for info in infos)
        return SourceInfo(" + ".join(self.sources), infos[0].split, sum(info.n for info in infos), marks)

    def each(self, make: Callable[[str, Source], Made]) -> dict[str, Made]:
        """What `make` gives of each name and source, whose faults are told as the source's."""
        made = {}
        for name, source in self.sources.items():
            try:
                made[name] = make(name, source)
            except UserError as refusal:
                raise of_source(name, self.stated[name], refusal) from None
        return made

    def strings(self) -> Iterator[str]:
        """Every string of every example."""
        for name, source in self.sources.items():
            if self.texts[name].prefix:
                yield self.texts[name].prefix
            yield from all_text(source)

    def __iter__(self) -> Iterator[str]:
        return self.strings()


def open_mixture(mixture: Mixture, data: Data, text: Text, split: str | None = None) -> MixedSource:
    """Opens each of `mixture.sources`, whose settings are those of `data` and `text` but for its own.

    Raises:
        UserError: it has none, or one of them can't be opened.
    """
    if not mixture.sources:
        raise UserError(
            "mixture.sources", None, "is empty; state at least one: dict(sums=dict(name='jsonl:sums.jsonl'))"
        )
    sources, texts = {}, {}
    for name, own in mixture.sources.items():
        own_data, texts[name] = settings_of(own, data, text, f"mixture.sources.{name}")
        try:
            sources[name] = open_source(own_data, split, needs="text")
        except UserError as refusal:
            raise of_source(name, own, refusal) from None
    return MixedSource(sources, texts, mixture.sources)


def settings_of(own: JSON, data: Data, text: Text, field: str) -> tuple[Data, Text]:
    """The data and text settings of one source.

    Raises:
        UserError: it names no data, or a setting that a source hasn't.
    """
    if not isinstance(own, Mapping) or not own.get("name"):
        raise UserError(f"{field}.name", None, "must be set: which data")
    of_data, of_text = ({one.name for one in dataclasses.fields(section)} for section in (data, text))
    of_text -= {*Text.OF_MODEL}
    known = sorted((of_data | of_text) - {*OF_STREAM})
    for key, value in own.items():
        if key in OF_STREAM:
            raise UserError(f"{field}.{key}", value, f"is of the whole mixture: data.{key}")
        if key in Text.OF_MODEL:
            raise UserError(f"{field}.{key}", value, f"is of the whole mixture: inputs.tokens.{key}")
        if key not in known:
            raise UserError(f"{field}.{key}", value, f"no such setting; {nearest(key, known)}")
    changed = {key: value for key, value in own.items() if key in of_data}
    return patch(data, changed, field), patch(text, {k: v for k, v in own.items() if k in of_text}, field)


def of_source(name: str, stated: Mapping[str, JSON], refusal: UserError) -> UserError:
    """A refusal of one source's data or text, by the source's setting where it states that one."""
    section, _, field = refusal.field.rpartition(".")
    if section not in ("data", "inputs.tokens") or field not in {"name", *stated}:
        return refusal
    return UserError(f"mixture.sources.{name}.{field}", refusal.value, refusal.message)
