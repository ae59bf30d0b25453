"""The mean of several trainings of one model, of all or of those that make it better."""

import dataclasses
import io
import json

import jax
import numpy as np
import pytest
from made_checkpoint import TINY, make_run, random_params

from vitzoo.checkpoints.arrays import read_params
from vitzoo.checkpoints.locate import Located, locate
from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.evaluation import soup as soups
from vitzoo.evaluation.evaluate import evaluate
from vitzoo.evaluation.soup import soup

EVALUATE = {"val": {"name": "classification", "split": "five", "every_epochs": 1}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of one model; their moving averages are drawn apart."""
    folders = [tmp_path_factory.mktemp("runs") / name for name in ("a", "b", "c")]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("made_checkpoint.random_params", lambda config, seed=0, own=seed: random_params(config, own))
            make_run(folder, data="made_data:Many", evaluate=EVALUATE)
    return [str(folder) for folder in folders]


def params_of(folder):
    return read_params(locate(folder))[0]


def mean_of(folders):
    parts = [params_of(folder) for folder in folders]
    return jax.tree.map(lambda *leaves: np.mean([leaf.astype(np.float64) for leaf in leaves], 0).astype("f4"), *parts)


@pytest.mark.gate
def test_a_uniform_soup_is_the_mean_of_all_and_a_checkpoint_that_can_be_measured(runs, tmp_path, capsys):
    output = str(tmp_path / "soup")
    assert main(["soup", *runs, "--output", output, "--json"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"averaged 3 of 3: {', '.join(runs)}" in said
    assert said[-2] == f"next     vitzoo eval --checkpoint {output}"
    assert [row["taken"] for row in json.loads(said[-1])["ingredients"]] == [True] * 3
    jax.tree.map(np.testing.assert_array_equal, params_of(output), mean_of(runs))
    assert evaluate(output, out=io.StringIO())["results"]["val"]["n"] == 5


def greedy_by(monkeypatch, scores, better):
    """A greedy soup whose evaluator gives these numbers, one after another."""
    left = list(scores)
    monkeypatch.setattr(soups, "_scorer", lambda *_: (lambda params: left.pop(0), better))


@pytest.mark.gate
@pytest.mark.parametrize(
    ("scores", "better", "taken", "score"),
    [
        # alone a 0.5, b 0.7, c 0.6; with b and c 0.8: taken; with a too 0.79: left out
        ([0.5, 0.7, 0.6, 0.8, 0.79], max, [False, True, True], 0.8),
        # a tie is taken, as in the paper
        ([0.5, 0.7, 0.6, 0.7, 0.7], max, [True, True, True], 0.7),
        # what is not a number is never the best, wherever it stands
        ([float("nan"), 0.7, 0.6, 0.8, float("nan")], max, [False, True, True], 0.8),
        ([float("nan"), 0.7, 0.6, 0.65, float("nan")], min, [False, False, True], 0.6),
        # of a loss, less is better: alone a is the best, and neither of the others helps
        ([0.5, 0.7, 0.6, 0.8, 0.79], min, [True, False, False], 0.5),
    ],
)
def test_a_greedy_soup_takes_in_order_what_does_no_harm(runs, tmp_path, monkeypatch, scores, better, taken, score):
    greedy_by(monkeypatch, scores, better)
    values = soup(runs, tmp_path / "soup", greedy="val/accuracy", out=io.StringIO())
    assert [row["taken"] for row in values["ingredients"]] == taken
    assert [row["score"] for row in values["ingredients"]] == pytest.approx(scores[:3], nan_ok=True)
    assert values["score"] == score
    chosen = [run for run, is_taken in zip(runs, taken, strict=True) if is_taken]
    jax.tree.map(np.testing.assert_array_equal, params_of(str(tmp_path / "soup")), mean_of(chosen))


def test_without_a_score_or_with_weights_that_are_not_finite_there_is_no_soup(runs, tmp_path, monkeypatch):
    greedy_by(monkeypatch, [float("nan")] * 3, max)
    with pytest.raises(UserError, match=r"--greedy = val/loss: is not a number for any of the checkpoints"):
        soup(runs, tmp_path / "soup", greedy="val/loss", out=io.StringIO())
    broken = {"head": {"bias": np.array([np.nan], np.float32)}}
    monkeypatch.setattr(soups, "read_params", lambda *_: (broken, "raw"))
    with pytest.raises(UserError, match=rf"CKPT = {runs[0]}: its weights are not all finite \(head/bias\)"):
        soup(runs, tmp_path / "soup", out=io.StringIO())
    assert not (tmp_path / "soup").exists()


@pytest.mark.slow
def test_its_scores_are_those_of_the_evaluator(runs, tmp_path):
    out = io.StringIO()
    values = soup(runs, tmp_path / "soup", greedy="val/loss", out=out)
    alone = [evaluate(run, out=io.StringIO())["results"]["val"]["metrics"]["loss"] for run in runs]
    assert [row["score"] for row in values["ingredients"]] == pytest.approx(alone, rel=1e-6)
    whole = evaluate(str(tmp_path / "soup"), out=io.StringIO())["results"]["val"]["metrics"]["loss"]
    assert values["score"] == pytest.approx(whole, rel=1e-6)
    assert whole <= min(alone)


def test_what_makes_no_soup_is_refused_and_nothing_is_written(runs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    make_run(other, dataclasses.replace(TINY, depth=3), data="made_data:Many", evaluate=EVALUATE)
    output = tmp_path / "soup"
    for given, settings, message in [
        (runs[:1], {}, "two checkpoints or more"),
        ([runs[0], runs[0]], {}, "is given twice"),
        ([runs[0], str(other)], {}, f"CKPT = {other}: has another model than {runs[0]}: depth 3 and 2"),
        (runs, {"greedy": "vall/accuracy"}, "did you mean val"),
        (runs, {"greedy": "val/acuracy"}, "did you mean accuracy"),
        (runs, {"greedy": "val/accuracy", "overrides": ["model.depth=1"]}, "--config.model"),
        (runs, {"overrides": ["data.batch_size=8"]}, "--greedy"),
    ]:
        with pytest.raises(UserError) as refusal:
            soup(given, output, out=io.StringIO(), **settings)
        assert message in str(refusal.value)
        assert not output.exists()


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        (
            [{"seed": 0}, {"seed": 5}, {"seed": 5}],
            "a began with random parameters of seed 0, b with random parameters of ",
        ),
        ([{"init_from": "x"}, {"init_from": "x", "seed": 1}, {"init_from": "y"}], "a began with x, c with y"),
        ([{"init_from": "x"}, {}, {"init_from": "x"}], "a began with x, b with random parameters of seed 0"),
        ([{"seed": 2}, {"seed": 2}, {"seed": 2}], ""),
        ([{"init_from": "x"}, {"init_from": "x", "seed": 7}, {"init_from": "x"}], ""),
    ],
)
def test_trainings_from_different_weights_are_told(starts, said, tmp_path, capsys):
    for name, start in zip("abc", starts, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"total_steps": 7, **start}))
    soups._warn_of_starts("abc", [Located(tmp_path, 7, tmp_path / name, {}) for name in "abc"])
    warned = capsys.readouterr().err
    assert warned.count("\n") == bool(said)
    assert said in warned


def test_other_classes_are_named(runs, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    make_run(other, classes=tuple("abcdefghij"), data="made_data:Many", evaluate=EVALUATE)
    assert main(["soup", runs[0], str(other), "--output", str(tmp_path / "soup")]) == 2
    assert f"{other}: has other classes than {runs[0]}: " in capsys.readouterr().err
