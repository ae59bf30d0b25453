"""The whole story of a run: the same run as before? data and model; state; steps; numbers; checkpoints; the end."""

import contextlib
import sys
from pathlib import Path
from typing import Any, TextIO

from vitzoo.checkpoints.orbax import one_at_a_time
from vitzoo.checkpoints.store import Store
from vitzoo.config import resolve
from vitzoo.config.fields import check_same
from vitzoo.data import left_out
from vitzoo.errors import RunError
from vitzoo.parallel import processes
from vitzoo.parallel.sharding import put
from vitzoo.paths import folder_to_fill
from vitzoo.registry import UserPartFaults
from vitzoo.training import curves, header, run_folder, setup, start
from vitzoo.training.fits import check_warmup
from vitzoo.training.lock import locked
from vitzoo.training.metrics import Metrics, check_log
from vitzoo.training.progress import Progress
from vitzoo.training.records import Records
from vitzoo.training.saving import Saving, Signals, due
from vitzoo.training.setup import Task
from vitzoo.training.speed import Profiler, keep_heap, progress_of, use_compilation_cache
from vitzoo.training.window import Window


@one_at_a_time
def train(config: Any, workdir: str | Path, out: TextIO | None = None) -> dict[str, Any]:
    """Train until the end, or until a signal asks to stop; the same call again resumes, and a finished run stays.

    Args:
        config: what `vitzoo.config.resolve` takes or returns.
        workdir: the run's folder, made if missing.
        out: where progress goes; standard output by default.

    Returns:
        Plain values: `workdir`, `step`, `total_steps`, `finished`, `exit_code` (0, 75 after SIGTERM, 130 after
        Ctrl-C), `best` ({"step", "value"} or None) and `metrics` (each split's last line).

    In several threads one call after the other is served.

    Raises:
        UserError: config, data, devices or folder do not allow it.
        RunError: it had to stop: a step that is not finite, a full disk, data that can't be read any more.
    """
    resolved, workdir = resolve(config), folder_to_fill("workdir", workdir)
    out = processes.only_first(out or sys.stdout)
    experiment = resolved.experiment
    check_warmup(resolved, workdir)
    check_log(experiment.log)
    check_same(resolved.values)
    use_compilation_cache()
    left_out.begin()
    mesh = setup.mesh_of(experiment)
    with locked(workdir), UserPartFaults() as faults, Signals() as signals, contextlib.ExitStack() as opened:
        # ------------------------------------------------------------------ the same run as before?
        differences = run_folder.check_config(workdir, resolved.values)
        store = opened.enter_context(contextlib.closing(Store(workdir / "checkpoints", experiment.checkpoint.keep)))
        found = store.latest_good()
        if found is not None and start.is_finished(resolved, store, found):
            return header.say_finished(store, workdir, found, out)

        # ------------------------------------------------------------------ data, model, state
        header.say_devices(mesh, out)
        with processes.first_alone():  # what is prepared and kept on disk is made once
            task = setup.prepare(resolved, mesh)
        opened.callback(task.stream.close)
        check_warmup(resolved, workdir, task.info.n)
        header.say_task(task, workdir, found, out)
        keep_heap(task)
        state, loop, notes = start.state_of(task, store, found)
        step: int = loop["step"]
        signals.unsaved = lambda: header.unsaved(workdir, step)
        begun = run_folder.begin(workdir, resolved.values, step, differences, header.device(mesh))
        opened.enter_context(run_folder.told_if_gone(workdir, begun, lambda: step))
        faults.begun = True
        header.say_notes(notes, differences, out)

        # ------------------------------------------------------------------ steps
        metrics = opened.enter_context(contextlib.closing(Metrics(workdir, step, experiment.log)))
        progress = opened.enter_context(contextlib.closing(progress_of(task, step, out)))
        profiler = opened.enter_context(contextlib.closing(Profiler(experiment.profile, workdir)))
        window = Window(experiment.non_finite == "stop", loop.get("window"))
        records, saving = Records(task, loop), Saving(task)
        folder = workdir / "assets"
        assets = folder if processes.first(lambda: task.inputs.assets(folder) is not None) else None
        records.evaluate(step, state, metrics, progress, signals)  # one that a signal had cut off
        batches = progress.goodput.waiting(task.stream.iterate(step), window.busy)
        signals.poll()
        while step < task.total_steps and not records.stopped_early and not signals.exit_code:
            profiler.before(step)
            state, scalars = task.train_step(state, put(next(batches), mesh))
            step += 1
            window.add(step, scalars)
            progress.step(step)
            signals.poll()
            logged = due(step, records.log_period) or step == task.total_steps
            if logged:
                run_folder.check_there(workdir, begun, step, metrics.missing())
                log_steps(task, step, window, metrics, progress, last=step == task.total_steps)
            records.evaluate(step, state, metrics, progress, signals)
            if records.stopped_early and not logged:
                log_steps(task, step, window, metrics, progress, last=True)
            ends = step == task.total_steps or records.stopped_early or signals.exit_code
            if saving.due(step) or step == records.best_step or ends:
                run_folder.check_there(workdir, begun, step, metrics.missing())
                with progress.paused("saving"):
                    kept = {**records.saved(), "window": window.saved()}
                    store.save(step, state, task.describe(step), kept, assets)
                    saving.done()

        # ------------------------------------------------------------------ the end
        with progress.paused("saving"):
            store.wait()
        run_folder.check_there(workdir, begun, step, [*metrics.missing(), *store.missing()])
        progress.close()
        curves.draw(workdir)
        if not signals.exit_code and not int(state["updates"]):
            raise RunError(
                f"loss or gradients were not finite in any of the {step:,} steps, so that nothing was learned "
                "(a lower learning rate, a warm-up or grad_clip may help)"
            )
        is_over = step == task.total_steps or records.stopped_early
        return header.say_end(task, workdir, step, records.best, None if is_over else signals.exit_code or 0, out)


def log_steps(task: Task, step: int, window: Window, metrics: Metrics, progress: Progress, *, last: bool) -> None:
    """Writes and shows the means of the steps since the last line."""
    line = window.line(last)
    metrics.train(task.progress(step), {**line, "goodput": progress.goodput.shares()})
    progress.train_line(step, line)
