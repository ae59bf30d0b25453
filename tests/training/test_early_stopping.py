"""A run that no longer improves ends early, once, and as if nothing had come between."""

import signal

import numpy as np
import pytest
from test_loop import assert_same_end, at_batch, lines_of, run, send, steps_of

import vitzoo
from vitzoo.config import resolve
from vitzoo.errors import UserError

STILL = {"early_stopping": 2, "optimizer": {"name": "adamw", "learning_rate": 0.0}}
"""A rate at which nothing is learned."""


def periods(workdir, split):
    return [line["step"] for line in lines_of(workdir) if line["split"] == split]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "stopped"
    return workdir, *run(workdir, **STILL)


def test_it_ends_after_so_many_evaluations_in_a_row_without_a_better_one(stopped):
    workdir, summary, said = stopped
    evaluated = periods(workdir, "test")
    assert len(evaluated) == 3  # the first is the best; two more are no better
    last = evaluated[-1]
    assert last < 20
    assert (summary["step"], summary["finished"], summary["exit_code"]) == (last, True, 0)
    assert f"stopped at step {last} of 20: 2 evaluations in a row didn't improve on the best (early_stopping)" in said
    assert last in steps_of(workdir)
    assert periods(workdir, "train")[-1] == last


def test_it_is_finished(stopped):
    workdir, summary, _ = stopped
    again, said = run(workdir, **STILL)
    assert f"is finished (step {summary['step']}); nothing to do" in said
    assert again["metrics"] == summary["metrics"]


def test_it_is_evaluated_and_predicted_with_as_any(stopped):
    workdir, summary, _ = stopped
    for checkpoint in (workdir, f"{workdir}@best"):
        result = vitzoo.evaluate(checkpoint)["results"]["test"]
        assert result["n"] == summary["metrics"]["test"]["n"]


def test_one_that_was_interrupted_ends_where_and_as_the_other(stopped, tmp_path, monkeypatch):
    workdir, summary, _ = stopped
    at_batch(monkeypatch, 6, send(signal.SIGTERM))
    assert run(tmp_path, **STILL)[0]["exit_code"] == 75
    monkeypatch.undo()
    assert run(tmp_path, **STILL)[0]["finished"]
    assert_same_end(tmp_path, workdir, summary["step"])


@pytest.mark.gate
def test_one_that_improves_goes_on(tmp_path):
    summary, _ = run(tmp_path, early_stopping=5)
    assert summary["step"] == 20
    assert np.isfinite(summary["best"]["value"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["early_stopping=2", "checkpoint.keep_best="], "early_stopping = 2: needs checkpoint.keep_best"),
        (["early_stopping=-1"], "early_stopping = -1: must be at least 0"),
        (["early_stopping=1.5"], "early_stopping = 1.5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        resolve("quickstart", overrides=settings)
