"""Weights of one model onto another of its family: strict, with a report of every leaf that isn't simply taken.

What may differ is what a user may ask for: another head, size of image or patch, number of channels, pooling, kind of
position.
Everything else that is missing, left over or of another shape is refused by name.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from vitzoo import spelling
from vitzoo.data.mixing import MIDDLE
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.models.base import Flat, ModelConfig, Scale, Scales, TransferRules, transfer_rules
from vitzoo.nn.paths import flatten, is_stacked, unflatten
from vitzoo.nn.state import HostParams, Params, Shapes

KINDS = ("resized", "adapted", "new", "dropped")


@dataclasses.dataclass
class Report:
    """What became of every leaf: how many were taken as they are, and a note (kind, path, text) on each other.

    `head` says why the class head was kept, where it was; `told` are lines on how published weights were read.
    """

    used: int = 0
    head: str = ""
    notes: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    told: list[str] = dataclasses.field(default_factory=list)

    def add(self, kind: str, path: str, text: str) -> None:
        """Note a leaf that was resized or adapted, is new or was dropped."""
        self.notes.append((kind, path, text))

    def paths(self, kind: str) -> list[str]:
        """The leaves with that note."""
        return [path for noted, path, _ in self.notes if noted == kind]

    def lines(self) -> list[str]:
        """The report as it is printed, the counts first."""
        counts = [f"{len(self.paths(kind))} {kind}" for kind in KINDS if self.paths(kind)]
        lines = [f"weights: {', '.join([f'{self.used} leaves as they are', *counts])}"]
        lines += [f"  {line}" for line in self.told]
        lines += [f"  {kind:8} {path}: {text}" for kind, path, text in self.notes]
        return lines + ([f"  kept     head: {self.head}"] if self.head else [])


@dataclasses.dataclass(frozen=True)
class Head:
    """What to do with the class head.

    Attributes:
        columns: the source's column of each class of the target; `None` makes the head new.
        text: what was decided, for the report.
    """

    columns: tuple[int, ...] | None
    text: str

    @property
    def reordered(self) -> bool:
        """Whether it is kept in another order of classes."""
        return self.columns is not None and self.columns != tuple(range(len(self.columns)))


def match_head(old: Sequence[str] | None, old_count: int, new: Sequence[str] | None, new_count: int) -> Head:
    """Whether a head can be kept: only for the same classes by name, in whatever order.

    Without names on both sides, equal counts keep it: nothing says that the classes are others.
    """
    text = f"{old_count} → {new_count}, new, zero-initialised"
    if old_count != new_count:
        return Head(None, text)
    if (old is None and new is None) or (old is not None and new is not None and spelling.are_same(old, new)):
        return Head(tuple(range(old_count)), f"the same {old_count} classes")
    if old is None or new is None:
        return Head(None, f"{text} (one side names no classes)")
    places = spelling.positions(old)
    if len(places) != len(old) or set(places) != set(spelling.positions(new)):
        return Head(None, f"{text} (other class names)")
    return Head(tuple(places[spelling.normalise(name)][0] for name in new), "put in the order of the new class names")


def transfer(
    source: HostParams,
    old: ModelConfig,
    new: ModelConfig,
    shapes: Shapes,
    *,
    model: type,
    head: Head,
    fresh: Callable[[], Params],
    where: str | None = None,
    scales: Scales | None = None,
) -> tuple[HostParams, Report]:
    """The source's parameters made to fit a target model.

    Args:
        source: nested parameters of the checkpoint, NumPy.
        old: the Config they were trained with; its grid is that of the position table.
        new: the Config of the model wanted.
        shapes: nested `ShapeDtypeStruct`s of that model's parameters.
        model: the class of both.
        head: from `match_head`.
        fresh: gives initial parameters of the target; called only if a leaf other than the head is new.
        where: the checkpoint, for messages.
        scales: mean and deviation of pixels before and after, from `scale_of`; None: one for all channels.

    Returns:
        Nested parameters of the target, and the report.

    Raises:
        UserError: a setting of the body differs; or a leaf is missing, left over or of another shape, and no setting
            that differs explains it.
    """
    rules = transfer_rules(model)
    for field in rules.fixed:
        before, after = getattr(old, field), getattr(new, field)
        if before != after and rules.may_change.get(field) != (before, after):
            raise UserError(f"model.{field}", after, f"can't change: the checkpoint's is {before}")
    report = Report()
    have, want = flatten(source), flatten(shapes)
    for field, text in rules.new_head.items():
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            head = Head(None, text.format(text=head.text, old=before, new=after))
    taken = take_head(rules.adapt(have, old, new, report.add, scales), want, new, head, report, rules)
    explained = [pattern for field, pattern in rules.leaves.items() if getattr(old, field) != getattr(new, field)]
    other = getattr(old, "num_classes", None) != getattr(new, "num_classes", None)
    hint = "; new for other classes are only leaves below `head`" if other else ""
    new_paths = check_leaves(taken, want, explained, rules, hint, where)
    taken |= {
        path: np.asarray(leaf) for path, leaf in flatten(fresh() if new_paths else {}).items() if path in new_paths
    }
    for path in new_paths:
        report.add("new", path, "initialised")
    for path in sorted(have.keys() - want.keys()):
        report.add("dropped", path, "not in this model")
    noted = {path for kind in KINDS for path in report.paths(kind)}
    report.used = sum(path not in noted for path in want)
    return unflatten({path: np.asarray(taken[path]) for path in want}), report


def take_head(
    params: Flat,
    want: Mapping[str, jax.ShapeDtypeStruct],
    new: ModelConfig,
    head: Head,
    report: Report,
    rules: TransferRules,
) -> Flat:
    """The parameters with their head kept, put in order, or made new: zeros, the bias `head_bias_init`."""
    params, leaves = dict(params), [path for path in want if re.fullmatch(rules.head, path)]
    report.head = head.text if leaves and head.columns is not None else ""
    for path in leaves:
        if head.columns is None:
            report.add("new", path, head.text)
            value = getattr(new, "head_bias_init", 0.0) if path.endswith("/bias") else 0.0
            params[path] = np.full(want[path].shape, value, want[path].dtype)
        elif head.reordered and path in params:
            report.add("adapted", path, head.text)
            params[path] = params[path][..., list(head.columns)]
    return params


def check_leaves(
    taken: Flat,
    want: Mapping[str, jax.ShapeDtypeStruct],
    explained: Sequence[str],
    rules: TransferRules,
    hint: str = "",
    where: str | None = None,
) -> list[str]:
    """The target's leaves that are new because a differing setting says so; `hint` ends a refusal, which names `where`
    they were taken from.

    Raises:
        UserError: any other leaf is missing or has another shape, or one is left over; all kinds are named together.
    """

    def allowed(path: str) -> bool:
        return any(re.fullmatch(pattern, path) for pattern in explained)

    missing = [path for path in want if path not in taken]
    shaped = [path for path in want if path in taken and taken[path].shape != tuple(want[path].shape)]
    extra = [path for path in taken if path not in want and not re.fullmatch(rules.head, path)]
    problems = [
        *name_some("misses", [path for path in missing if not allowed(path)]),
        *name_some("also has", [path for path in extra if not allowed(path)]),
        *name_some("has of another shape", [shapes_of(path, taken, want) for path in shaped if not allowed(path)]),
    ]
    if problems:
        raise UserError("checkpoint", where, f"doesn't fit this model: it {'; it '.join(problems)}{hint}")
    return missing + shaped


def name_some(verb: str, names: list[str], most: int = 4) -> list[str]:
    """`misses 9 leaves: a, b, c, d …`, or nothing."""
    if not names:
        return []
    more = " …" if len(names) > most else ""
    return [f"{verb} {len(names)} {'leaf' if len(names) == 1 else 'leaves'}: {', '.join(names[:most])}{more}"]


def shapes_of(path: str, taken: Flat, want: Mapping[str, jax.ShapeDtypeStruct]) -> str:
    """A leaf with the two shapes that don't agree, in layers where that is the difference."""
    have, wanted = taken[path].shape, tuple(want[path].shape)
    if is_stacked(path) and have[1:] == wanted[1:]:
        return f"{path} (of {have[0]} layers, not {wanted[0]})"
    return f"{path} ({have}, not {wanted})"


def scale_of(preprocessing: Preprocessing, channels: int) -> Scale:
    """Mean and deviation of pixels, [channels, 1] each: along the channels of a kernel."""
    found = (np.array(values or (MIDDLE,), np.float64) for values in (preprocessing.mean, preprocessing.std))
    mean, std = (np.broadcast_to(values[:, None], (channels, 1)) for values in found)
    return mean, std
