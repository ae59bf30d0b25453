"""Evaluating a checkpoint: on its run's evaluators, or on any dataset and split."""

import functools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TextIO

from vitzoo.argument_types import checked
from vitzoo.config.layers import Overrides, nested
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation import own_evaluators
from vitzoo.evaluation.checkpoint import Ready, bound_objective, make_ready, state_beside
from vitzoo.evaluation.report import ClassReport, free_folder, has_predictions, write_report, write_text_report, written
from vitzoo.evaluation.results import Result, Results
from vitzoo.evaluation.run import Evaluation, Rows
from vitzoo.evaluation.settings import WithSignatures, of_evaluator
from vitzoo.nn.state import Params
from vitzoo.outputs import checked_file, checked_folder, only_writer
from vitzoo.overwriting import Reads, check_apart, check_files_in, check_holds_no_images, check_is_none_of
from vitzoo.parallel import processes
from vitzoo.parallel.mesh import show_mesh
from vitzoo.registry import UserPartFaults
from vitzoo.staging import remove_leftovers
from vitzoo.streams import counting
from vitzoo.strict_json import JSON
from vitzoo.version import version
from vitzoo.weights.open import name_of


@checked(shots=0)
def evaluate(
    checkpoint: str | Path,
    overrides: Overrides = (),
    *,
    weights: str = "auto",
    predictions: str | Path | None = None,
    output: str | Path | None = None,
    all_classes: bool = False,
    shots: int | None = None,
    out: TextIO | None = None,
) -> Results:
    """Measure a checkpoint, every example once; prints what it does and a table per class, and writes pictures.

        vitzoo.evaluate("runs/quickstart")                                       # the run's own evaluators
        vitzoo.evaluate("runs/quickstart@best", {"data.name": "mnist_5k", "data.split": "test"})

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        overrides: config settings, as `vitzoo.train` takes them. With `data.split` (and `data.name`) that data is
            evaluated in place of the run's evaluators; classes are matched by name.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        predictions: a CSV or JSON lines file to write: file (or id), label, prediction, probability; of generation
            source, reference, prediction. With several evaluators their names are added to its own.
        output: folder for `metrics.json`, `per_class.csv`, `confusion.png` and `mistakes.png`; else
            `RUN/eval/STEP-WEIGHTS/NAME`, NAME being the evaluator's, or DATASET-SPLIT for other data; none for a
            checkpoint outside a run.
        all_classes: where the data have only some of the model's classes, predictions among all of them; else among
            the data's.
        shots: solved training examples before each question, for the evaluators that ask some.
        out: where the report is printed; standard output by default.

    Returns:
        `{"checkpoint", "step", "weights", "results": {name: {"dataset", "split", "n", "metrics", "skipped"}}}`;
        fractions are 0..1, a metric that isn't finite is `None`, and `skipped` says why an evaluator of several
        couldn't run. BLEU and chrF are 0..100; their `signatures` say how they were counted.

    Raises:
        UserError: checkpoint, settings or data don't allow it.
        RunError: no evaluator of several could run, or data was lost or a file not written on the way.
    """
    out = processes.only_first(out or sys.stdout)
    _check_outputs(predictions, output, Reads.of(nested(overrides), [checkpoint]))
    reads = Reads()

    def check(values: Mapping[str, JSON], evaluators: Collection[str]) -> None:
        nonlocal reads
        reads = Reads.of(values, [checkpoint])
        for name in evaluators:
            _check_outputs(predictions_file(predictions, name, len(evaluators)), output, reads)

    ready = make_ready(str(checkpoint), overrides, weights, all_classes, shots, check=check)
    folders = {name: output_folder(ready, name, output) for name in ready.evaluators}
    _check_files(ready, folders, predictions, reads)
    with only_writer("--output", output if processes.is_first() else None):
        say_first(ready, out)
        results = _results(ready, folders, predictions, out)
    if all(result["skipped"] for result in results.values()):
        raise RunError(f"no evaluator could run: {'; '.join(r['skipped'] or '' for r in results.values())}")
    info = ready.info
    return {"checkpoint": info.checkpoint, "step": info.step, "weights": info.weights, "results": results}


def _results(
    ready: Ready, folders: dict[str, Path | None], predictions: str | Path | None, out: TextIO
) -> dict[str, Result]:
    """The result of each evaluator; of several, one that can't run is skipped with its reason."""
    results: dict[str, Result] = {}
    for name, folder in folders.items():
        try:
            with UserPartFaults():
                results[name] = evaluate_one(ready, name, folder, predictions, out)
        except UserError as error:
            refusal = of_evaluator(name, ready.evaluators[name], error) if ready.own else error
            if len(ready.evaluators) == 1:
                raise refusal from error.__cause__
            results[name] = skipped(ready, name, refusal)
            print(f"{name}: skipped: {refusal}", file=out)
    return results


def _check_outputs(predictions: str | Path | None, output: str | Path | None, reads: Reads) -> None:
    if predictions is not None:
        checked_file("--predictions", predictions, (".csv", ".jsonl"), reads)
    if output is not None:
        check_holds_no_images("--output", output, checked_folder("--output", output, reads))


def _check_files(ready: Ready, folders: dict[str, Path | None], predictions: str | Path | None, reads: Reads) -> None:
    """Refuses files in the evaluators' folders that can't be written, and removes what killed evaluations left there.

    Raises:
        UserError: one is read, or is what `--predictions` names.
    """
    outputs: list[tuple[str, Path | None]] = []
    for folder in folders.values():
        if folder is not None:
            check_files_in("--output", folder, names_of_files(ready), reads)
            outputs += [("--output", folder / one) for one in names_of_files(ready)]
    check_apart(*outputs, *(("--predictions", predictions_file(predictions, name, len(folders))) for name in folders))
    if processes.is_first():
        clear_folders(ready, [folder for folder in folders.values() if folder is not None])


def clear_folders(ready: Ready, folders: Iterable[Path]) -> None:
    """Removes what killed evaluations left in these folders, and in those of all evaluations of the run."""
    run = ready.located.run
    below = [] if run is None else [path for path in (run / "eval").glob("**/") if path.is_dir()]
    for place in dict.fromkeys((*folders, *below)):
        remove_leftovers(place)


def names_of_files(ready: Ready) -> tuple[str, ...]:
    """The files that an evaluator's folder may get."""
    mistakes = "mistakes.png" if ready.inputs.are_pictures else "mistakes.csv"
    return "metrics.json", "per_class.csv", "confusion.png", mistakes


def evaluate_one(ready: Ready, name: str, folder: Path | None, predictions: str | Path | None, out: TextIO) -> Result:
    """One evaluator: its pass, its report, and its part of the result."""
    with processes.first_alone():  # what is prepared and kept on disk is made once
        evaluation = bound(ready, name)
    info, count = evaluation.source.info, len(evaluation.examples)
    for one in () if folder is None else (folder / one for one in names_of_files(ready)):
        check_is_none_of("--output", one, one, getattr(info, "files", None) or ())
    print(f"data     {info.name} {info.split}: {count:,} examples", file=out)
    if not ready.inputs.are_pictures:
        print("".join(f"note     {note}\n" for note in evaluation.examples.info.notes), end="", file=out)
    if evaluation.classes is not None:
        print(f"classes  {evaluation.classes.text}", file=out, flush=True)
    elif predictions is not None and not has_predictions(evaluation):
        raise UserError("--predictions", predictions, f"{name} has no prediction for each example")
    rows, result = measure(name, evaluation, ready, out, state_beside(ready, evaluation))
    for metric, signature in result.get("signatures", {}).items():
        print(f"{metric}  {signature}", file=out)
    if not processes.is_first():
        return result
    if folder is not None and ready.located.run is not None and not ready.located.run.is_dir():
        raise RunError(f"{ready.located.run} was moved or deleted during the evaluation")
    file = predictions_file(predictions, name, len(ready.evaluators))
    if not ready.inputs.are_pictures:
        write_text_report(evaluation, rows, folder, file, out)
    elif evaluation.classes is not None:
        write_report(ClassReport(evaluation, evaluation.classes, rows, ready.info.channels), folder, file, out)
    if folder is not None:
        text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        written(folder / "metrics.json", lambda path: path.write_text(text), out)
    return result


def measure(
    name: str,
    evaluation: Evaluation,
    ready: Ready,
    out: TextIO,
    state: Params | None = None,
    more: Mapping[str, Callable[[Evaluation, Rows, Mapping[str, float]], float]] | None = None,
) -> tuple[Rows, Result]:
    """A pass and its metrics, which are said.

    Args:
        name: what is measured, for the line.
        evaluation: bound to its data and to the model of `ready`.
        state: what of a checkpoint's state it needs besides the parameters.
        more: metrics that are counted besides the evaluator's own, from these.

    Returns:
        What the pass kept, and the part of the result.
    """
    count, data = len(evaluation.examples), evaluation.data
    with counting(name, count, out) as seen:
        rows = evaluation.rows(ready.params, seen, state)
    found = evaluation.metrics(rows)
    kept = len(rows["position"])
    n = int(found.pop("n", None) or kept)  # of examples to learn from none is counted
    found |= {metric: counted(evaluation, rows, found) for metric, counted in (more or {}).items()}
    metrics = {key: finite(value) for key, value in found.items()}
    say_metrics(name, ready.info.weights, n, count - kept, metrics, out, evaluation.left_out)
    result: Result = {"dataset": data.name, "split": data.split, "n": n, "metrics": metrics, "skipped": None}
    if isinstance(evaluation.evaluator, WithSignatures) and (signatures := evaluation.evaluator.signatures(rows)):
        own_evaluators.check_signatures(evaluation.settings, signatures)
        result["signatures"] = signatures
    return rows, result


def bound(ready: Ready, name: str) -> Evaluation:
    """The evaluator bound to its data and to the model."""
    return Evaluation(
        ready.evaluators[name],
        ready.graph,
        inputs=ready.inputs,
        config=ready.config,
        data=ready.experiment.data,
        classes=ready.info.classes,
        mesh=ready.mesh,
        objective=ready.experiment.objective,
        bound_objective=functools.partial(bound_objective, ready),
    )


def output_folder(ready: Ready, name: str, output: str | Path | None) -> Path | None:
    """Where an evaluator's files go."""
    if output is not None:
        return Path(output) if len(ready.evaluators) == 1 else Path(output) / name
    run, info = ready.located.run, ready.info
    if run is None:
        return None
    parent, data = run / "eval" / f"{info.step}-{info.weights}", ready.experiment.data
    kind = "-all_classes" if getattr(ready.evaluators[name], "all_classes", False) else ""
    return parent / f"{name}{kind}" if ready.own else free_folder(parent, data.name, data.split, kind)


def predictions_file(asked: str | Path | None, name: str, evaluators: int) -> Path | None:
    """The CSV file of one evaluator."""
    if asked is None or evaluators == 1:
        return None if asked is None else Path(asked)
    path = Path(asked)
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def skipped(ready: Ready, name: str, reason: Exception) -> Result:
    """The result of an evaluator that couldn't run."""
    data = ready.experiment.evaluation_data(name)
    return {"dataset": data.name, "split": data.split, "n": 0, "metrics": {}, "skipped": str(reason)}


def finite(value: float) -> float | None:
    """A number, `None` for NaN and infinity, which JSON doesn't have."""
    return value if math.isfinite(value) else None


def say_first(ready: Ready, out: TextIO) -> None:
    """Version and devices, checkpoint and weights, preprocessing, and where overrides depart from it."""
    info, first = ready.info, ready.mesh.devices.flat[0]
    weights = "ema (moving average)" if info.weights == "ema" else info.weights
    print(f"vitzoo {version()} on {first.platform}, mesh {show_mesh(ready.mesh)}", file=out)
    print(f"loads    {name_of(ready.located)}: step {info.step}, weights {weights}", file=out)
    print("\n".join(info.lines()), file=out)
    if info.report.notes:
        print("\n".join(info.report.lines()), file=out)
    for note in ready.notes:
        print(note, file=out)


def _shown(value: float) -> str:
    """A metric; large whole numbers are counts, and shown whole."""
    return f"{value:,.0f}" if value >= 1e4 and float(value).is_integer() else f"{value:.4g}"


def say_metrics(
    name: str, weights: str, n: int, lost: int, metrics: dict[str, float | None], out: TextIO, why: str
) -> None:
    """The metrics in one line, with the weights that were measured and the number of examples behind them."""
    shown = "  ".join(f"{key} {'–' if value is None else _shown(value)}" for key, value in metrics.items())
    unread = f" ({lost} {why}, left out)" if lost else ""
    print(f"{name}  weights={weights}  n={n}{unread}  {shown}", file=out, flush=True)
