"""Measuring a checkpoint on benchmarks, several at once, with metrics beyond those of their evaluators."""

import collections
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from vitzoo.config.layers import Overrides, nested
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation.benchmarks.benchmark import Benchmark
from vitzoo.evaluation.benchmarks.binding import bound, with_data
from vitzoo.evaluation.benchmarks.table import asked_for, means, say_table
from vitzoo.evaluation.checkpoint import Ready, make_ready
from vitzoo.evaluation.evaluate import clear_folders, measure, say_first
from vitzoo.evaluation.language_modelling import perplexity
from vitzoo.evaluation.questions import MultipleChoice
from vitzoo.evaluation.report import safe, written
from vitzoo.evaluation.results import Result, Results
from vitzoo.evaluation.run import Evaluation, Rows
from vitzoo.outputs import checked_folder, only_writer
from vitzoo.overwriting import Reads, check_files_in, check_holds_no_images
from vitzoo.parallel import processes
from vitzoo.registry import find
from vitzoo.strict_json import JSON


def matthews_correlation(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """Matthews' correlation of label and prediction (GLUE's of CoLA)."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(*classes_of(evaluation, rows)))


def f1(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """F1 of the data's class 1 (GLUE's of MRPC and QQP); 0 where it neither occurs nor is predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(*(part == 1 for part in classes_of(evaluation, rows)), zero_division=0))


def f1_macro(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The mean of the F1 of all classes that are true or predicted (SuperGLUE's of CB)."""
    from sklearn.metrics import f1_score

    return float(f1_score(*classes_of(evaluation, rows), average="macro", zero_division=0))


def exact_match_by_question(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The fraction of questions all of whose answers are rightly judged (MultiRC)."""
    label, said = classes_of(evaluation, rows)
    asked: Any = evaluation.source
    right: dict[str, bool] = collections.defaultdict(lambda: True)
    for position, good in zip(rows["position"].tolist(), (label == said).tolist(), strict=True):
        right[asked.source.group(position)] &= good
    return float(np.mean(list(right.values())))


def word_perplexity(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The exponential of all loss over the number of words as WikiText counts them: what spaces divide, and the ends of
    lines.
    """
    source = evaluation.source
    texts = (source[index]["text"] for index in range(len(source)))
    words = sum(len(text.split()) + text.count("\n") for text in texts)
    return perplexity(metrics["loss"] * metrics["tokens"] / words)


MORE: dict[str, Callable[[Evaluation, Rows, Mapping[str, float]], float]] = {
    "matthews_correlation": matthews_correlation,
    "f1": f1,
    "f1_macro": f1_macro,
    "exact_match_by_question": exact_match_by_question,
    "word_perplexity": word_perplexity,
}


def classes_of(evaluation: Evaluation, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Label and prediction, int [n] each, as the data number their classes; -1 is a class that they don't have."""
    if "answer" in rows:
        assert isinstance(evaluation.evaluator, MultipleChoice)
        return rows["answer"], evaluation.evaluator.chosen(rows)
    mapping = evaluation.classes
    if mapping is None or mapping.columns is None or mapping.restricted:
        return rows["label"], rows["prediction"]
    number = np.full(mapping.count, -1)
    number[list(mapping.columns)] = np.arange(len(mapping.columns))
    return number[rows["label"]], number[rows["prediction"]]


TOLD = 3  # reasons that a failure gives; each is printed as it comes


def evaluate_benchmarks(
    checkpoint: str | Path,
    names: Sequence[str],
    overrides: Overrides = (),
    *,
    weights: str = "auto",
    output: str | Path | None = None,
    shots: int | None = None,
    out: TextIO | None = None,
) -> Results:
    """Measure a checkpoint on benchmarks and print one table, published scores beside its own.

        evaluate_benchmarks("runs/vit", ["imagenet", "imagenet-real", "vtab"])

    Args:
        checkpoint: as for `vitzoo.evaluate`.
        names: keys of `table.BENCHMARKS`, groups of them, or NAME:EVALUATOR.
        overrides: config settings; `data.dir` says where datasets lie, and `data.name` names the text of `perplexity`.
        weights: `ema`, `raw` or `auto`.
        output: folder for the results; else `RUN/eval/STEP-WEIGHTS/benchmarks`; none for a checkpoint outside a run.
        shots: solved examples before each question, for those that ask some.
        out: where the report is printed; standard output by default.

    Returns:
        As `vitzoo.evaluate`, a result for each benchmark and for the means of each whole group.

    Raises:
        UserError: there is no such benchmark, or the checkpoint or settings don't allow it.
        RunError: none could run.
    """
    out = processes.only_first(out or sys.stdout)
    rows = asked_for(names)
    flags = nested(overrides)
    data = flags.get("data", {})
    check_data(rows, data)
    check_effect(rows, flags, shots)
    if output is not None:
        whole = checked_folder("--output", output, Reads.of(flags, [checkpoint]))
        check_holds_no_images("--output", output, whole)
    ready = make_ready(str(checkpoint), overrides, weights, instead=data.get("name") or rows[0].dataset or "text")
    folder = folder_of(ready, output)
    if folder is not None:
        places = [folder / safe(row.name) for row in rows]
        for place in places:
            check_files_in("--output", place, ["metrics.json"], Reads.of(flags, [checkpoint]))
        if processes.is_first():
            clear_folders(ready, places)
    with only_writer("--output", output if processes.is_first() else None):
        say_first(ready, out)
        results = results_of(rows, ready, shots, data, out)
        info = ready.info
        found: Results = {"checkpoint": info.checkpoint, "step": info.step, "weights": info.weights, "results": results}
        say_table(rows, found, out)
        if processes.is_first() and folder is not None:
            write_results(folder, results, out)
    if all(result["skipped"] for result in results.values()):
        raise RunError(f"no benchmark could run: {reasons(results)}")
    return found


def results_of(
    rows: Sequence[Benchmark], ready: Ready, shots: int | None, data: Mapping[str, JSON], out: TextIO
) -> dict[str, Result]:
    """The result of each benchmark and the means of groups; one that can't run is skipped with its reason."""
    results: dict[str, Result] = {}
    for row in rows:
        try:
            results[row.name] = measured(row, ready, shots, data, out)
        except (UserError, RunError) as error:
            results[row.name] = skipped(row, str(error))
            print(f"{row.name}: skipped: {error}", file=out, flush=True)
    return results | means(rows, results)


def check_data(rows: Sequence[Benchmark], data: Mapping[str, JSON]) -> None:
    """Refuses a dataset or split of the user's where none of the benchmarks takes one, and none where all need it."""
    if not any(row.dataset for row in rows):
        with_data(rows[0], data)
    for key in ("name", "split"):
        if key in data and all(row.dataset for row in rows):
            message = "a benchmark has its own; leave it out, or leave --benchmark out"
            raise UserError(f"data.{key}", data[key], message)


def check_effect(rows: Sequence[Benchmark], flags: dict[str, Any], shots: int | None) -> None:
    """Refuses what would change nothing: settings of the run's evaluators, and shots where no benchmark asks."""
    if own := list(flags.get("evaluate", {})):
        message = "has no effect with --benchmark, which is measured in place of the run's evaluators; leave one out"
        raise UserError(f"evaluate.{own[0]}", None, message)
    asking = [row for row in rows if row.takes == "text" and hasattr(find("evaluator", row.evaluator), "shots")]
    if shots is not None and not asking:
        raise UserError("--shots", shots, "none of these benchmarks asks questions; leave it out")


def measured(row: Benchmark, ready: Ready, shots: int | None, data: Mapping[str, JSON], out: TextIO) -> Result:
    """One benchmark: its pass, and its part of the result."""
    with processes.first_alone():  # what is prepared and kept on disk is made once
        evaluation, notes = bound(row, ready, shots, data)
    info, count = evaluation.source.info, len(evaluation.examples)
    print(f"data     {info.name} {info.split}: {count:,} examples", file=out)
    print("".join(f"classes  {note}\n" for note in notes), end="", file=out, flush=True)
    return measure(row.name, evaluation, ready, out, more={name: MORE[name] for name in row.more})[1]


def skipped(row: Benchmark, reason: str) -> Result:
    """The result of a benchmark that couldn't run."""
    return {"dataset": row.dataset or None, "split": row.split, "n": 0, "metrics": {}, "skipped": reason}


def reasons(results: dict[str, Result]) -> str:
    """Why benchmarks couldn't run, the first of them."""
    found = list(dict.fromkeys(result["skipped"] or "" for result in results.values()))
    more = f" (and {len(found) - TOLD} more)" if len(found) > TOLD else ""
    return "; ".join(found[:TOLD]) + more


def folder_of(ready: Ready, output: str | Path | None) -> Path | None:
    """Where the results go."""
    if output is not None:
        return Path(output)
    run, info = ready.located.run, ready.info
    return None if run is None else run / "eval" / f"{info.step}-{info.weights}" / "benchmarks"


def write_results(folder: Path, results: dict[str, Result], out: TextIO) -> None:
    """A file of metrics for each result that there is; those of earlier benchmarks stay."""
    for name, result in results.items():
        if all(value is None for value in result["metrics"].values()):
            continue
        text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        written(folder / safe(name) / "metrics.json", functools.partial(Path.write_text, data=text), out)
