"""The state a run starts with: its own checkpoint, another run's weights, or random numbers.

For a dry run also what a training would find in the run's folder, looked at without a trace.
"""

import dataclasses
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp

from vitzoo.checkpoints.locate import of_another_run, other_meaning, other_name, other_setting
from vitzoo.checkpoints.metadata import Description, Loop
from vitzoo.checkpoints.store import Store, restore
from vitzoo.config import Resolved
from vitzoo.config.fields import Differences
from vitzoo.data.folders import is_moved
from vitzoo.errors import UserError
from vitzoo.nn.state import HostParams, Params, initialise
from vitzoo.parallel.processes import place_all
from vitzoo.steps.state import create
from vitzoo.training import lock, records, run_folder
from vitzoo.training.setup import Task
from vitzoo.weights.model import Part
from vitzoo.weights.open import Published

WEIGHTS_ALONE = "holds weights without an optimizer's state, as `average` and `convert` write them"


def is_finished(resolved: Resolved, store: Store, found: int | None) -> bool:
    """Whether the newest good checkpoint is the last of its run, at its full length or where it stopped early.

    Raises:
        UserError: it is of another run, as far as that can be known without the data.
    """
    if found is None:
        return False
    values, saved = resolved.values, store.description(found)
    data = values["data"]["name"], saved["data"]["name"]
    # what isn't set is the data's to say, or the checkpoint's that the run started from
    named = [] if resolved.experiment.init_from else resolved.experiment.model.changes
    model = {name: values["model"][name] for name in named if values["model"].get(name) is not None}
    other = (
        other_name(values, saved)
        or other_setting(model, saved["model"], "model")
        or other_setting(values["objective"], saved["objective"], "objective")
        or ("" if data[0] == data[1] or is_moved(*data) else of_another_run("data.name", data[1], data[0]))
        or other_meaning(values, saved)
    )
    total = store.loop(found).get("total_steps")
    _refuse_other(store, found, other or _other_length(found, total, resolved.experiment.total_steps))
    stopped_early = 0 < resolved.experiment.early_stopping <= store.loop(found).get("not_improved", 0)
    return found == total or stopped_early


def _other_length(step: int, total: int | None, wanted: int | None) -> str:
    """What tells a checkpoint apart from those of a run of `wanted` steps; empty where nothing does."""
    if wanted is None:
        return ""
    if total not in (None, wanted):
        return of_another_run("total_steps", total, wanted)
    return of_another_run("step", step, f"total_steps {wanted}") if step > wanted else ""


def _refuse_other(store: Store, step: int, other: str) -> None:
    if other:
        folder = store.folder / str(step)
        raise UserError("workdir", str(store.folder.parent), f"{folder} {other}; move it out of this run's folder")


def state_of(task: Task, store: Store, found: int | None) -> tuple[dict, Loop, list[str]]:
    """The first state, the loop's plain values, and what to tell the user of them.

    Args:
        task: the training.
        store: the run's checkpoints.
        found: the step to resume from, None for a new run.

    Raises:
        UserError: the data are not those the checkpoint was trained on, or its leaves do not fit the model.
    """
    changed = check(task, store, found)
    state, loop, said = _own_state(task, store, found)
    said += changed
    if task.frozen_models.models:
        state["frozen"] = task.frozen_models.load(task.mesh)
    if found is not None:
        task.frozen_models.check_same(store.description(found), run_folder.start_from(store.folder.parent))
    return state, loop, said


def _own_state(task: Task, store: Store, found: int | None) -> tuple[dict, Loop, list[str]]:
    if found is not None:
        state, loop = store.restore(found, task.state)
        return state, loop, [f"resumed at step {found}"]
    if task.pretrained is None:
        params = initialise(task.assembly, task.resolved.experiment.seed, task.shardings["params"])
        return _fresh(task, params), {"step": 0}, []
    if task.resolved.experiment.init_from_state:
        return _continued(task)
    loaded, report = pretrained_parameters(task)
    return _fresh(task, place_all(loaded, task.shardings["params"])), {"step": 0}, report


def check(task: Task, store: Store, found: int | None) -> list[str]:
    """What can be known to stand in the way before anything is made or read.

    Returns:
        A line for each evaluator whose examples have changed since the checkpoint was saved.

    Raises:
        UserError: the data are not those the checkpoint was trained on, it is of another run's model or length, the
            disk has no room for a checkpoint, the run to be continued is already past this one's end, or the best is
            chosen by an evaluator whose examples have changed.
    """
    changed: list[str] = []
    workdir = store.folder.parent
    if found is not None:
        if not _has_optimizer(store.folder / str(found)):
            raise UserError("workdir", str(workdir), f"{WEIGHTS_ALONE}; {run_folder.start_from(workdir)}")
        saved, loop = store.description(found), store.loop(found)
        _check_data(task, workdir, saved)
        other = other_setting(task.describe(found)["model"], saved["model"], "model")
        _refuse_other(store, found, other or _other_length(found, loop.get("total_steps"), task.total_steps))
        then = loop.get("evaluated_data", {})
        changed = records.check_same_data(task, then, run_folder.start_from(workdir))
    elif task.resolved.experiment.init_from_state:
        assert task.pretrained is not None
        step, name = task.pretrained.located.step, task.pretrained.name
        if isinstance(task.pretrained.located, Published):
            raise UserError("init_from_state", True, f"{name} are published weights, without an optimizer's state")
        if isinstance(task.pretrained.located, Part):
            raise UserError("init_from_state", True, f"{name} is a part, and the optimizer's state is of the whole")
        if not _has_optimizer(task.pretrained.located.folder):
            raise UserError("init_from_state", True, f"{name} {WEIGHTS_ALONE}; leave it out to start from them")
        if step >= task.total_steps:
            message = f"{name} is at step {step:,} of this run's {task.total_steps:,}; set a larger total"
            raise UserError("init_from_state", True, message)
    _check_room(task, workdir)
    return changed


def pretrained_parameters(task: Task) -> tuple[HostParams, list[str]]:
    """The weights of `init_from` made to fit the model, and a line for each leaf that is not simply used."""
    assert task.pretrained is not None
    seed = task.resolved.experiment.seed
    params, report = task.pretrained.parameters(task.assembly, task.class_names, seed, task.inputs)
    return params, [*report, *task.pretrained.left_out(task.resolved, task.inputs)]


def _fresh(task: Task, params: Params) -> dict:
    # an initialiser that fills with a Python number makes a weakly typed leaf, for which the step is compiled twice
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), params)
    return create(params, task.chain, task.resolved.experiment.ema, task.shardings, task.objective)


def _continued(task: Task) -> tuple[dict, Loop, list[str]]:
    """State and step of another run, for a longer training of the same model."""
    assert task.pretrained is not None
    folder, name = task.pretrained.located.folder, task.pretrained.name
    state, loop = restore(folder, task.state, "init_from")
    said = f"continues {name} at step {loop['step']}, with its optimizer state"
    return state, {"step": loop["step"]}, [said, *task.pretrained.left_out(task.resolved, task.inputs)]


def _has_optimizer(folder: Path) -> bool:
    return (folder / "optimizer").is_dir()


def _check_tokenizer(task: Task, workdir: Path, saved: Description) -> None:
    """Refuses another published tokenizer. One that is made from the text differs by the text: see `_check_data`."""
    for name, now in task.inputs.processors.items():
        then = saved["inputs"].get(name)
        if not (then and "tokenizer" in then and now.tokenizer is not None):
            continue
        settings = task.resolved.values["inputs"][name]["tokenizer"]
        marks = then["tokenizer"]["sha256"], now.tokenizer.sha256
        if marks[0] != marks[1] and settings["kind"] == "file":
            changed = f"sha256 {marks[0][:16]}, now {marks[1][:16]}"
            message = f"the tokenizer has changed since this run began ({changed}); {run_folder.start_from(workdir)}"
            raise UserError(f"inputs.{name}.tokenizer.file", settings["file"], message)


def _check_data(task: Task, workdir: Path, saved: Description) -> None:
    _check_tokenizer(task, workdir, saved)
    then, now = saved["data"]["fingerprint"], task.info.fingerprint
    if then != now:
        raise UserError(
            "data.name",
            task.resolved.experiment.data.name,
            f"the data have changed since this run began (fingerprint {then}, now {now}): examples, labels, class "
            f"names or split; {run_folder.start_from(workdir)}",
        )


def _check_room(task: Task, workdir: Path) -> None:
    saved = {name: part for name, part in task.state.items() if name != "frozen"}
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(saved))
    free = shutil.disk_usage(run_folder.existing(workdir)).free
    if free < needed:
        message = f"a checkpoint takes {needed / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free there"
        raise UserError("workdir", str(workdir), message)


@dataclasses.dataclass(frozen=True)
class There:
    """What a training would find.

    Attributes:
        store: the run's checkpoints.
        found: the step it would resume from; None for a new run.
        finished: whether nothing is left to do.
        differences: the execution settings that would change.
    """

    store: Store
    found: int | None
    finished: bool
    differences: Differences


def look(workdir: Path, resolved: Resolved) -> There:
    """What is in the folder of a run, or of one that is to begin.

    Raises:
        UserError: as a training in that folder would.
    """
    lock.check_usable(workdir)
    differences = run_folder.check_config(workdir, resolved.values)
    store = Store(workdir / "checkpoints", resolved.experiment.checkpoint.keep)
    found = store.look().step
    return There(store, found, is_finished(resolved, store, found), differences)
