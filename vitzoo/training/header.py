"""What a run says of itself, first and last."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax
from jax.sharding import Mesh

from vitzoo.checkpoints import steps
from vitzoo.checkpoints.metadata import Best
from vitzoo.checkpoints.store import Store
from vitzoo.config.experiment import Experiment
from vitzoo.config.fields import Differences
from vitzoo.data import left_out
from vitzoo.data.inputs import kind_of_input
from vitzoo.parallel import processes
from vitzoo.parallel.mesh import show_mesh
from vitzoo.registry import find
from vitzoo.schema import to_json
from vitzoo.spelling import shell_flag
from vitzoo.steps.state import evaluated
from vitzoo.streams import on_one_line
from vitzoo.training import device_memory, metrics, records
from vitzoo.training.saving import Saving
from vitzoo.training.setup import Task
from vitzoo.version import version

REMEMBERED = 0.05  # the part of its first parameters in a moving average from which on that is worth a word


def device(mesh: Mesh) -> str:
    """The devices in words, such as `cpu, 8 devices` or `gpu (NVIDIA H100 80GB HBM3), 1 device`."""
    first, count = mesh.devices.flat[0], mesh.devices.size
    kind = "" if first.device_kind.lower() == first.platform else f" ({first.device_kind})"
    together = f" of {processes.count()} processes" if processes.count() > 1 else ""
    return f"{first.platform}{kind}, {count} device{'s' * (count > 1)}{together}"


def say_devices(mesh: Mesh, out: TextIO) -> None:
    """The first line: version, devices, mesh."""
    print(f"vitzoo {version()} on {device(mesh)}, mesh {show_mesh(mesh)}", file=out, flush=True)


def say_task(task: Task, workdir: Path, found: int | None, out: TextIO) -> None:
    """What is trained on what, what is loaded, what is written, and what may surprise."""
    lines = [*_subject(task).items(), *_learned_from(task), *plan(task, workdir, found).items()]
    for name, text in lines:
        print(f"{name:7} {text}", file=out)
    for note in [*task.info.notes, *warnings(task)]:
        print(f"        {note}", file=out)
    out.flush()


def _subject(task: Task) -> dict[str, str]:
    info, config = task.info, task.model_config
    classes = f", {len(info.classes)} classes ({_names(info.classes)})" if info.classes else ""
    frozen = f" ({task.frozen:,} frozen)" if task.frozen else ""
    return {
        "data": f"{info.name} {info.split}: {info.n:,} examples{classes}",
        "model": f"{_model_name(task)}: {task.parameters:,} parameters{frozen}, {task.inputs.shown(config)}",
        **_statistics(task),
    }


def _learned_from(task: Task) -> Iterator[tuple[str, str]]:
    """The checkpoints that the objective learns from, by setting."""
    frozen = task.frozen_models
    for name, checkpoint in frozen.names.items():
        count = sum(leaf.size for leaf in jax.tree.leaves(frozen.models[name].shapes))
        yield name, f"{checkpoint}, step {frozen.located[name].step}: {count:,} parameters"


def _statistics(task: Task) -> dict[str, str]:
    """Of what a model that normalises over batches depends on, as nothing else does."""
    if not task.chain.statistics:
        return {}
    rows = task.resolved.experiment.data.batch_size // task.resolved.experiment.accumulate
    count = len(task.chain.statistics)
    return {"keeps": f"{count} statistics, each taken over a micro-batch of {rows} examples (batch_size / accumulate)"}


def plan(task: Task, workdir: Path | None, found: int | None) -> dict[str, str]:
    """What a run starts from, where it writes, how long it trains and how often it saves, each a line by its word.

    Args:
        task: the training.
        workdir: the run's folder; None where none is named yet.
        found: the step it resumes from.
    """
    experiment = task.resolved.experiment
    loads = f"{workdir}, step {found}" if found is not None else experiment.init_from or "nothing: random parameters"
    length = f"{task.total_steps:,} steps of {experiment.data.batch_size} examples"
    return {
        "loads": loads,
        "writes": "no --workdir is given" if workdir is None else str(workdir),
        "trains": f"{length}, {task.progress(task.total_steps)['epoch']:.4g} epochs",
        "saves": str(Saving(task)),
    }


def warnings(task: Task) -> list[str]:
    """What is allowed and rarely meant, a line each."""
    experiment, total = task.resolved.experiment, task.total_steps
    found = [_never_at_peak(experiment, total, task.info.n)] if hasattr(experiment.schedule, "spans") else []
    found.append(_remembers_its_start(experiment, total))
    if experiment.profile and int(experiment.profile.partition(":")[0]) >= total:
        found.append(f"profile = {experiment.profile} begins after the end, step {total:,}: nothing is traced")
    found += [device_memory.warning(task), _tokens_stay_whole(task)]
    found += records.overlaps(task)
    return [f"warning: {text}" for text in found if text]


def _never_at_peak(experiment: Experiment, total: int, examples: int) -> str:
    warmup, cooldown = experiment.schedule.spans(total, experiment.data.batch_size, examples)
    peak = f"optimizer.learning_rate = {experiment.optimizer.learning_rate:g} is never reached"
    if warmup and warmup >= total:
        return f"the warm-up of {warmup:,} steps is not over at the end, step {total:,}: {peak}"
    overlap = warmup + cooldown > total
    return f"the warm-up of {warmup:,} steps and the cooldown of {cooldown:,} overlap in {total:,}: {peak}" * overlap


def _remembers_its_start(experiment: Experiment, total: int) -> str:
    """That the moving average, which is what is evaluated, is still in part the parameters it began with."""
    left = experiment.ema**total
    if experiment.ema_warm_start or left <= REMEMBERED:
        return ""
    return (
        f"ema = {experiment.ema:g} over {total:,} steps: {left:.1%} of the moving average is still the parameters it "
        "began with, and it is what is evaluated; ema_warm_start=true forgets them, and so does a smaller ema"
    )


def _tokens_stay_whole(task: Task) -> str:
    """That sequences were to be cut, and can't be."""
    parts = task.mesh.shape["sequence"]
    config: Any = task.model_config
    lengths = [rows.shape[1] for rows in task.inputs.arguments(config) if len(rows.shape) == 2]
    if hasattr(config, "prefix_tokens"):
        lengths.append(config.prefix_tokens + config.patches)
    whole = [length for length in lengths if length % parts]
    if not whole:
        return ""
    which = " and ".join(map(str, dict.fromkeys(whole)))
    return f"rows of {which} tokens don't divide over sequence:{parts}: each of its devices computes all of them"


def unsaved(workdir: Path, step: int) -> str:
    """What is lost by leaving at this step without saving."""
    newest = max(steps.listed(workdir / "checkpoints"), default=None)
    if newest is None:
        return "nothing is saved yet, and the same command starts again"
    lost = f"{step - newest:,} step{'s' * (step - newest != 1)}"
    return f"the same command resumes at step {newest:,}, and {lost} of {step:,} are lost"


def say_notes(notes: list[str], differences: Differences, out: TextIO) -> None:
    """What happened to the weights, and which execution settings differ from those before."""
    for note in [*notes, *changes(differences)]:
        print(note, file=out)


def changes(differences: Differences) -> list[str]:
    """A line for each execution setting that differs from those before."""
    return [f"changed {name}: {then} → {now}" for name, (then, now) in differences.items()]


def say_finished(store: Store, workdir: Path, step: int, out: TextIO) -> dict[str, Any]:
    """A run with nothing left to do."""
    print(f"{workdir} is finished (step {step}); nothing to do", file=out)
    best = store.loop(step).get("best")
    made = store.description(step)
    _say_next(workdir, best, made["model"], made["inputs"], out)
    return summary(workdir, step, step, best, 0)


def say_end(
    task: Task, workdir: Path, step: int, best: Best | None, exit_code: int | None, out: TextIO
) -> dict[str, Any]:
    """The last lines: where things are and what to do next. `exit_code` is None for a run that is over."""
    if exit_code is not None:
        saved = f"saved step {step} of {task.total_steps}; the same command resumes there"
        print(saved if step else "stopped before the first step; the same command starts again", file=out, flush=True)
        return summary(workdir, step, task.total_steps, best, exit_code)
    if step < task.total_steps:
        waited = f"{task.resolved.experiment.early_stopping} evaluations in a row didn't improve on the best"
        print(f"stopped at step {step:,} of {task.total_steps:,}: {waited} (early_stopping)", file=out)
    if best:
        keep_best = task.resolved.experiment.checkpoint.keep_best
        which = evaluated(task.state)[1]
        print(f"best    {keep_best} {best['value']:.4f} at step {best['step']}, weights {which}", file=out)
    if lost := len(set().union(*processes.gather(left_out.named()))):
        print(f"unread  {lost:,} left out, each named above (data.bad_files = skip)", file=out)
    print(f"done    {step:,} steps; curves in {workdir / 'curves.png'}", file=out)
    model = {"name": task.choice.name, "num_classes": getattr(task.model_config, "num_classes", None)}
    _say_next(workdir, best, model, task.inputs.described(task.model_config), out)
    return summary(workdir, step, step, best, 0)


def summary(workdir: Path, step: int, total: int, best: Best | None, exit_code: int) -> dict[str, Any]:
    """What `train` returns."""
    last = {line["split"]: line for line in metrics.read(workdir)}
    return {
        "workdir": str(workdir),
        "step": step,
        "total_steps": total,
        "finished": step == total,
        "exit_code": exit_code,
        "best": to_json(best),
        "metrics": last,
    }


def _say_next(
    workdir: Path, best: Best | None, model: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]], out: TextIO
) -> None:
    """What can be done with a model of one input, by what `model.json` says of both."""
    if len(inputs) != 1:
        return
    (own,) = inputs.values()
    if "tokenizer" not in own and not model.get("num_classes"):  # of other inputs than text, only classes are predicted
        return
    checkpoint = f"{workdir}@best" if best else str(workdir)
    command, given = "predict", kind_of_input(own["kind"]).argument
    if hasattr(find("model", model["name"]), "extend"):
        command, given = "generate", "--chat --prompt TEXT" if own.get("chat") else "--prompt TEXT"
    print(f"next    vitzoo {command} {shell_flag('--checkpoint', checkpoint)} {given}", file=out, flush=True)


def _model_name(task: Task) -> str:
    return f"{task.choice.name} {task.choice.variant}".strip()


def _names(classes: Sequence[str], shown: int = 4) -> str:
    return ", ".join(map(on_one_line, classes[:shown])) + (", ..." if len(classes) > shown else "")
