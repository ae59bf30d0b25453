"""`vitzoo train`; with `--dry-run`, what a run would be, and whether it could begin."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitzoo.cli.arguments import Parser, add_process_flags, runs_together
from vitzoo.cli.output import Result, class_table, table
from vitzoo.errors import UserError
from vitzoo.paths import folder_of_checkpoints

if TYPE_CHECKING:
    from vitzoo.config import Resolved
    from vitzoo.data.sources.base import SourceInfo
    from vitzoo.training.setup import Task
    from vitzoo.training.start import There

TAKES_CONFIG = True
EXAMPLES = """\
Any setting of the config can be changed: --config.optimizer.learning_rate=3e-4
`vitzoo configs NAME` lists them. The same command again resumes a run; a finished run does nothing.

examples:
  vitzoo train --config quickstart --workdir runs/quickstart
  vitzoo train --config vit/imagenet:S/16 --workdir runs/s16 --config.data.dir=/data --dry-run
  vitzoo train --config vit/finetune --workdir runs/photos \\
    --config.init_from=runs/s16 --config.data.name=folder:/photos"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("--config", metavar="FILE|NAME[:ARG]", help="the experiment; left out: the one of --workdir")
    parser.add_argument("--workdir", metavar="DIR", help="the run's folder: config, metrics, checkpoints")
    parser.add_argument("--config.KEY", metavar="VALUE", help="change one setting", dest="_")
    parser.add_argument("--dry-run", action="store_true", help="check all, print settings, data and rules, stop")
    add_process_flags(parser)


@runs_together(preemption=True)
def run(args: argparse.Namespace) -> Result:
    """Trains, or shows what would be trained."""
    if args.workdir is None and not args.dry_run:
        raise UserError("--workdir", None, "must be given: the folder for the run's metrics and checkpoints")
    workdir = None if args.workdir is None else str(folder_of_checkpoints("--workdir", args.workdir))
    from vitzoo.config import resolve

    resolved = resolve(_config(args.config, workdir), overrides=args.overrides)
    for note in resolved.notes:
        print(f"config  {note}")
    if args.dry_run:
        return dry_run(resolved, workdir)
    from vitzoo.training.loop import train

    assert workdir is not None
    result = train(resolved, workdir)
    return Result(result, result["exit_code"])


def _config(config: str | None, workdir: str | None) -> str | Path:
    if config:
        return config
    kept = Path(workdir or "") / "config.json"
    if not kept.is_file():
        raise UserError("--config", None, "must be given: a config file or a name that `vitzoo configs` lists")
    return kept


def dry_run(resolved: "Resolved", workdir: str | None) -> Result:
    """Prints every setting with its source, what the run's folder holds, the counted data, what the rules do to each
    parameter and what becomes of the weights it starts from; then stops.

    Raises:
        UserError: as `train` would, before its first step.
    """
    from vitzoo.config.fields import rows
    from vitzoo.training import setup
    from vitzoo.training.fits import check_warmup
    from vitzoo.training.metrics import check_log
    from vitzoo.training.start import look

    check_log(resolved.experiment.log)
    print(f"{resolved.name}\n")
    settings = rows(resolved.values, resolved.sources)
    print(table((f"  {name}", value, f"({source})") for name, value, source, _ in settings))
    result = {"config": resolved.values, "sources": resolved.sources, "notes": resolved.notes}
    there = look(Path(workdir), resolved) if workdir else None
    if there and there.finished:
        print(f"\n{workdir} is finished (step {there.found:,}): training would do nothing.")
        return Result({**result, "finished": True})
    check_warmup(resolved, workdir)
    task = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
    try:
        check_warmup(resolved, workdir, task.info.n)
        return Result({**result, "finished": False, **_shown_task(task, there)})
    finally:
        task.stream.close()


def _shown_task(task: "Task", there: "There | None") -> dict[str, Any]:
    from vitzoo.training import header, start

    changed = start.check(task, there.store, there.found) if there else []
    leaves = _leaves(task)
    print(f"\nparameters: {task.parameters:,}\n")
    titles = ["  leaf", "shape", "laid out over", "weight decay", "learning rate"]
    print(table([titles, *map(_shown_leaf, leaves)]))
    data = {"train": _counted(task.info)}
    data |= {name: _counted(evaluation.source.info) for name, evaluation in task.evaluations.items()}
    print("\ndata:\n")
    print(table([f"  {name}", f"{d['name']} {d['split']}", f"{d['n']:,} examples"] for name, d in data.items()))
    if told := {name: part for name, part in data.items() if any(part["class_counts"].values())}:
        classes = dict.fromkeys(name for part in told.values() for name in part["class_counts"])
        print(f"\n{class_table(list(classes), told)}")
    print()
    folder, found = (there.store.folder.parent, there.found) if there else (None, None)
    for word, text in header.plan(task, folder, found).items():
        print(f"{word:8}{text}")
    new = task.pretrained is not None and found is None and not task.resolved.experiment.init_from_state
    weights = start.pretrained_parameters(task)[1] if new else []
    notes = [*task.info.notes, *header.warnings(task), *changed]
    for line in [*weights, *notes, *header.changes(there.differences if there else {})]:
        print(line)
    print("\nNothing was trained or written (--dry-run).")
    return {
        "parameters": task.parameters,
        "total_steps": task.total_steps,
        "data": data,
        "leaves": leaves,
        "weights": weights,
        "warnings": notes,
    }


def _counted(info: "SourceInfo") -> dict[str, Any]:
    from vitzoo.data.check import class_counts

    counts = class_counts(info) if info.labels_at_hand else {}
    return {"name": info.name, "split": info.split, "n": info.n, "class_counts": counts}


def _leaves(task: "Task") -> list[dict[str, Any]]:
    from vitzoo.nn.paths import flatten
    from vitzoo.optim.rules import describe

    places = {path: place.spec for path, place in flatten(task.shardings["params"]).items()}
    found = []
    for row in describe(task.chain.rules, task.state["params"]):
        axes = [",".join(axis) if isinstance(axis, tuple) else axis for axis in places[row["path"]]]
        is_statistic = row["path"] in task.chain.statistics
        named = {"path": row.pop("path"), "shape": row.pop("shape"), "axes": axes}
        found.append({**named, **row, **({"frozen": "statistic"} if is_statistic else {})})
    return found


def _shown_leaf(leaf: dict[str, Any]) -> list[str]:
    shape, axes = ",".join(map(str, leaf["shape"])) or "one", ",".join(axis or "-" for axis in leaf["axes"])
    placed = [f"  {leaf['path']}", shape, axes if any(leaf["axes"]) else "all"]
    if isinstance(leaf["frozen"], str) or leaf["frozen"] is True:
        word = "frozen" if leaf["frozen"] is True else leaf["frozen"]
        return [*placed, word, word]
    still = set(leaf["frozen"] or ())
    decay, end, rate = (
        [value for layer, value in enumerate(values) if layer not in still] if isinstance(values, list) else [values]
        for values in (leaf["weight_decay"], leaf.get("weight_decay_end", leaf["weight_decay"]), leaf["learning_rate"])
    )
    moves = f" → {_range(end)}" if end != decay else ""
    which = f", layer{'s' * (len(still) > 1)} {','.join(map(str, sorted(still)))} frozen" if still else ""
    return [*placed, f"{_range(decay)}{moves}" if any(decay + end) else "-", f"x {_range(rate)}{which}"]


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
