"""Saving and restoring a training state: atomic, asynchronous, checksummed; newest and best kept."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from vitzoo.checkpoints import manifest, metadata, steps
from vitzoo.checkpoints.arrays import Shapes, check_complete, restore_arrays, shapes_of
from vitzoo.checkpoints.metadata import COUNTERS, Description, Loop
from vitzoo.checkpoints.orbax import cause_of, quiet
from vitzoo.errors import RunError, UserError
from vitzoo.parallel import processes

TREES = ("params", "ema", "optimizer", "objective")  # items of arrays; the counters travel in the item `loop`


class Store:
    """The `checkpoints/` folder of one run that is being trained.

    Args:
        folder: made with the first save.
        keep: how many of the newest checkpoints stay; the best one, named by `loop["best"]["step"]`, stays besides.
    """

    def __init__(self, folder: Path, keep: int = 2):
        self.folder = folder
        self._keep = keep
        self._manager: ocp.CheckpointManager | None = None
        self._saving: tuple[int, Description | None, Path | None] = (-1, None, None)
        self._arrays: dict[str, Shapes] = {}
        self._best: int | None = None
        self._last: int | None = None
        self._broken = False

    def latest_good(self) -> int | None:
        """The newest step that verifies; damaged newer ones are named in one warning and moved out of the way.

        Raises:
            UserError: there are checkpoints, and none verifies: starting again in silence would throw the run away.
        """
        self._last = processes.first(self._latest_good)
        return self._last

    def _latest_good(self) -> int | None:
        found = self.look()
        for step, _ in found.damaged:
            steps.set_aside(self.folder, step)
        return found.step

    def look(self) -> steps.Newest:
        """What `latest_good` finds and warns of, with nothing moved.

        Raises:
            UserError: as `latest_good`.
        """
        steps.check_names("workdir", self.folder.parent, self.folder)
        found = steps.newest(self.folder)
        empty = [
            step for step, _ in found.damaged if not any(p.is_file() for p in (self.folder / str(step)).rglob("*"))
        ]
        if found.step is None and len(found.damaged) > len(empty):
            reasons = "; ".join(str(error) for step, error in found.damaged if step not in empty)
            raise UserError(
                "workdir", str(self.folder), f"no checkpoint verifies ({reasons}); remove it to start again"
            )
        if warning := found.warning():
            print(f"warning: damaged checkpoint: {warning}", file=sys.stderr)
        return found

    def save(self, step: int, state: dict, description: Description, loop: dict, assets: Path | None = None) -> None:
        """Save `state` as checkpoint `step`; returns once the arrays are copied, files are written in the background.

        Args:
            step: batches consumed. Saving a step twice in a row does nothing.
            state: `params`, `optimizer`, perhaps `ema` and `objective`, and the counters `step`, `updates`, `skipped`.
            description: the content of `model.json`; which step was saved before this one is added.
            loop: plain values of the loop (`best`, ...); the counters are added.
            assets: a folder to copy into the checkpoint as `assets/` (a tokenizer).

        Raises:
            RunError: this or the previous save could not be written; earlier checkpoints are intact.
        """
        if step == self._last:
            return
        self.wait()
        self._saving = (step, {**description, metadata.PREVIOUS: self._last}, assets)
        self._arrays = {name: shapes_of(jax.tree.leaves(state[name])) for name in TREES if name in state}
        best = loop.get("best")
        self._best = best["step"] if best else None
        counters = {name: int(state[name]) for name in COUNTERS}
        items = {name: ocp.args.StandardSave(state[name]) for name in TREES if name in state}
        items["loop"] = ocp.args.JsonSave({**counters, **loop})
        try:
            self._open().save(step, args=ocp.args.Composite(**items))
        except Exception as error:
            raise self._failed(error) from error
        self._last = step

    def wait(self) -> None:
        """Wait until the save in progress is on disk.

        Raises:
            RunError: it could not be written.
        """
        if self._manager is None:
            return
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._failed(error) from error

    def missing(self) -> list[Path]:
        """The newest checkpoint's folder, if it was saved and is gone; asked after `wait`."""
        newest = None if self._last is None else self.folder / str(self._last)
        return [] if newest is None or newest.is_dir() else [newest]

    def close(self) -> None:
        """Wait for the save in progress and release Orbax's threads."""
        manager, self._manager = self._manager, None
        if manager is None:
            return
        try:
            manager.close()
        except Exception as error:
            if not self._broken:  # else it has been told
                raise self._failed(error) from error

    def restore(self, step: int, abstract: dict) -> tuple[dict, Loop]:
        """Bring back a state, bit for bit, onto the shardings of `abstract` (of this or of another mesh).

        Args:
            step: one that `latest_good` returned.
            abstract: the state's shapes, dtypes and shardings.

        Returns:
            The state and the loop's plain values.

        Raises:
            UserError: the checkpoint lacks an item of the state, or its leaves differ.
        """
        return restore(self.folder / str(step), abstract)

    def loop(self, step: int) -> Loop:
        """The loop's plain values in a checkpoint."""
        return metadata.read_loop(self.folder / str(step))

    def description(self, step: int) -> Description:
        """The content of a checkpoint's `model.json`."""
        return metadata.read_description(self.folder / str(step))

    def _open(self) -> ocp.CheckpointManager:
        """Orbax's manager, made with the first save so that refused runs leave no folder."""
        if self._manager is None:
            quiet()
            self._manager = _Manager(
                self.folder.absolute(),
                options=ocp.CheckpointManagerOptions(
                    save_decision_policy=policies.FixedIntervalPolicy(1),  # the loop decides when
                    preservation_policy=policies.AnyPreservationPolicy([policies.LatestN(self._keep), _KeepBest(self)]),
                    async_options=ocp.AsyncOptions(post_finalization_callback=self._complete),
                    cleanup_tmp_directories=True,
                    save_root_metadata=False,
                    lightweight_initialize=True,
                ),
            )
        return self._manager

    def _complete(self) -> None:
        """Add our own files to the checkpoint that Orbax is about to commit, the manifest last.

        Raises:
            Damaged: an array of the state wasn't written, so that nobody could restore it.
        """
        step, description, assets = self._saving
        (folder,) = self.folder.glob(f"{step}.orbax-checkpoint-tmp*")
        for name, shapes in self._arrays.items():
            check_complete(folder / name, shapes)
        assert description is not None
        metadata.write_description(folder, description)
        if assets is not None:
            shutil.copytree(assets, folder / "assets")
        manifest.write(folder)

    def _failed(self, error: Exception) -> RunError:
        step = self._saving[0]
        self._last, self._broken = None, True
        left = steps.newest(self.folder).step
        intact = f"; checkpoint {left} is intact" if left is not None else ""
        return RunError(f"checkpoint {step} could not be saved in {self.folder}: {cause_of(error)}{intact}")


def restore(folder: Path, abstract: dict, field: str = "workdir") -> tuple[dict, Loop]:
    """The state and the loop's plain values of one verified checkpoint folder; see `Store.restore`.

    Args:
        folder: the step's folder.
        abstract: the state's shapes, dtypes and shardings.
        field: the setting to name in a refusal.
    """
    try:
        loop = metadata.read_loop(folder)
        state: dict[str, Any] = {
            name: restore_arrays(folder / name, abstract[name]) for name in TREES if name in abstract
        }
    except manifest.Damaged as error:
        raise UserError(field, str(folder), str(error)) from error
    for name in COUNTERS:
        leaf = abstract[name]
        state[name] = processes.place(np.asarray(loop[name], leaf.dtype), leaf.sharding)
    return state, loop


class _Manager(ocp.CheckpointManager):
    """Orbax's manager, which leaves it to the loop to ask whether all processes are to end."""

    def reached_preemption(self, step: int) -> bool:
        """Never: the runtime names one call in which all processes see it, and relies on one caller, who counts calls.
        With the manager as a second one, who gives the step for the count, a SIGTERM during a save is seen by no one.
        """
        return False


class _KeepBest(policies.PreservationPolicy):
    """Keeps the checkpoint that the loop named as the best so far."""

    def __init__(self, store: Store):
        self._store = store

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        return [one.step == self._store._best for one in checkpoints]
