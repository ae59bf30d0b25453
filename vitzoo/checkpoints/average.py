"""The mean of a run's last checkpoints as a checkpoint of its own (Vaswani et al. 2017, 6.1)."""

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from vitzoo.checkpoints import manifest, metadata, steps
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.checkpoints.locate import Located, locate, stray
from vitzoo.checkpoints.metadata import COUNTERS, Description
from vitzoo.checkpoints.orbax import one_at_a_time
from vitzoo.checkpoints.steps import CHECKPOINTS
from vitzoo.checkpoints.store import Store
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import HostParams
from vitzoo.outputs import checked_new_folder, whole_folder
from vitzoo.paths import check_checkpoint_can_be_read, named_path
from vitzoo.strict_json import JSON


def average(run: str | Path, last: int, output: str | Path) -> list[int]:
    """Writes a run folder with one checkpoint: the mean of the parameters of the last `last` checkpoints of a run,
    taken in float64. It has the newest one's step, classes, preprocessing and tokenizer, and the run's `config.json`;
    no optimizer state, so that it can be evaluated, used and started from, but not resumed.

    Args:
        run: a run's folder.
        last: how many; the run must have kept as many (`config.checkpoint.keep`), its best not counted where it is
            kept for being the best alone.
        output: a folder that doesn't exist yet, or is empty.

    Returns:
        The steps that were averaged.

    Raises:
        UserError: the run has fewer checkpoints, they are damaged or of unlike models, or the output can't be used.
        RunError: it couldn't be written.
    """
    folder, target = named_path("--workdir", run), checked_new_folder("--output", output, checkpoint=True)
    if last < 2:
        raise UserError("--last", last, "must be at least 2")
    check_checkpoint_can_be_read("--workdir", folder)
    steps.check_names("--workdir", run, folder / CHECKPOINTS)
    there = steps.listed(folder / CHECKPOINTS)
    if not there:
        raise _no_run(folder)
    chosen, before = _in_a_row(folder, there, last)
    if len(chosen) < last:
        names, left = ", ".join(map(str, chosen)), [str(step) for step in there if step not in chosen]
        besides = f", and {', '.join(left)}, after which it may have saved others that are gone" if left else ""
        if any((folder / CHECKPOINTS).glob(f"{before}.damaged*")):
            besides = f"; checkpoint {before}, which it saved before these, is damaged"
        raise UserError("--last", last, f"{folder} keeps {len(chosen)} ({names}){besides}; {_TRAIN}={last}")
    newest = locate(folder)
    check_has_mean("--workdir", folder, newest.description)
    mean = mean_params([folder / CHECKPOINTS / str(step) for step in chosen])
    write_mean(newest, mean, chosen, target)
    return chosen


_TRAIN = "train with config.checkpoint.keep"


def _in_a_row(run: Path, there: list[int], last: int) -> tuple[list[int], int | None]:
    """The newest of a run's checkpoints, at most `last`, between which it saved no others; and the step that it saved
    before these, if it did.

    A checkpoint that doesn't say which was saved before it follows on the next older one that is there, unless that is
    kept for being the best, since besides the best a run keeps its newest.
    """
    found: list[int] = []
    before: int | None = there[-1]
    while before in there and len(found) < last:
        found.insert(0, before)
        folder = _verified(run, found[0])
        older = max((step for step in there if step < found[0]), default=None)
        best = metadata.read_loop(folder).get("best")
        known = older if best is None or best["step"] != older else None
        before = metadata.read_description(folder).get(metadata.PREVIOUS, known)
    return found, before


def check_has_mean(flag: str, checkpoint: str | Path, description: Description) -> None:
    """Refuses a model that keeps statistics of its batches: those of a mean of weights aren't the mean of theirs.

    Args:
        flag: what names the checkpoint.
        checkpoint: as it is named.
        description: the content of its `model.json`.

    Raises:
        UserError: it keeps some; one is named.
    """
    if statistics := description["statistics"]:
        message = (
            f"keeps statistics of its batches ({statistics[0]}), which would have to be taken anew for the mean of "
            "several; train with config.ema above 0 for an average that has its own"
        )
        raise UserError(flag, str(checkpoint), message)


def mean_params(folders: list[Path]) -> HostParams:
    """The mean of the item `params` of checkpoints, leaf by leaf, in the leaves' type.

    Raises:
        UserError: one is damaged, holds what is not finite, or has other leaves than the first.
    """
    total: HostParams | None = None
    for folder in folders:
        try:
            params = read_arrays(folder / "params")
        except manifest.Damaged as error:
            raise UserError("--workdir", str(folder), str(error)) from None
        check_finite("--workdir", folder, params)
        if total is not None:
            _check_alike(folders[0], total, folder, params)
        wide = jax.tree.map(lambda leaf: leaf.astype(np.float64), params)
        total = wide if total is None else jax.tree.map(np.add, total, wide)
        like = params
    return jax.tree.map(lambda sums, leaf: (sums / len(folders)).astype(leaf.dtype), total, like)


def check_finite(flag: str, checkpoint: str | Path, params: HostParams) -> None:
    """Refuses parameters of which no mean can be made.

    Args:
        flag: what names the checkpoint.
        checkpoint: as it is named.
        params: the nested parameters.

    Raises:
        UserError: one is infinite or NaN; its leaf is named.
    """
    for path, leaf in flatten(params).items():
        if not np.isfinite(leaf).all():
            raise UserError(flag, str(checkpoint), f"its weights are not all finite ({path}); leave it out")


def _no_run(folder: Path) -> UserError:
    """Why a folder holds no checkpoints to choose from."""
    try:
        locate(folder)
    except UserError as refusal:
        return UserError("--workdir", str(folder), refusal.message)
    return UserError("--workdir", str(folder), "names one checkpoint; name its run's folder")


def _check_alike(first: Path, total: HostParams, folder: Path, params: HostParams) -> None:
    sizes = [{path: leaf.shape for path, leaf in flatten(tree).items()} for tree in (total, params)]
    for path in sorted(sizes[0].keys() | sizes[1].keys()):
        before, here = (one.get(path, "missing") for one in sizes)
        if before != here:
            message = f"can't be averaged with step {first.name}: {path} is {here} here, and {before} there"
            raise UserError("--workdir", str(folder), message)


def _verified(run: Path, step: int) -> Path:
    folder = run / CHECKPOINTS / str(step)
    try:
        steps.verify(folder)
        other = stray(run, metadata.read_description(folder))
    except manifest.Damaged as error:
        raise UserError("--workdir", str(run), str(error)) from None
    if other:
        raise UserError("--workdir", str(run), f"{folder} {other}; move it out of this run's folder")
    return folder


@one_at_a_time
def write_mean(newest: Located, mean: HostParams, averaged: Sequence[JSON], target: Path) -> None:
    """Writes a run folder with one checkpoint of these parameters, which is otherwise as `newest`, without optimizer.

    Args:
        newest: the checkpoint whose step, description and config it has.
        mean: the nested parameters.
        averaged: what they are the mean of, said in the checkpoint.
        target: a folder that is new or empty.

    Raises:
        RunError: it couldn't be written.
    """
    config = newest.run / "config.json" if newest.run else None
    counters = metadata.read_loop(newest.folder)
    state = {"params": mean} | {name: counters[name] for name in COUNTERS}
    assets = newest.folder / "assets"
    with whole_folder(target) as folder:
        if config is not None and config.is_file():
            shutil.copyfile(config, folder / "config.json")
        with contextlib.closing(Store(folder / CHECKPOINTS)) as store:
            described = newest.description
            store.save(newest.step, state, described, {"averaged": averaged}, assets if assets.is_dir() else None)
            store.wait()
