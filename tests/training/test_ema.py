"""Whose weights a number is of: the moving average's or the raw ones, and whether that average forgot its start."""

import contextlib
import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from striped import Stripes, config

import vitzoo
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.cli import main
from vitzoo.cli.train import dry_run
from vitzoo.config import resolve
from vitzoo.config.assembly import from_description
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.training import loop

HELD_OUT = {"test": {"name": "classification", "split": "test", "every_steps": 2}}
SMALL = {
    "total_steps": 4,
    "model": {"name": "vit", "patch_size": 4, "width": 16, "depth": 1, "mlp_dim": 32, "num_heads": 2},
    "augment": {},
    "accumulate": 1,
    "evaluate": HELD_OUT,
    "checkpoint": {"keep_best": "test/loss", "every_steps": 1, "keep": 4},
    "ema_warm_start": True,
}


def said_by(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    assert code == 0, err.getvalue()
    return out.getvalue() + err.getvalue()


def trained(workdir, **changes):
    said = io.StringIO()
    loop.train(config(**SMALL, **changes), workdir, said)
    return workdir, said.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By whose weights they evaluate, a run and what it said."""
    folder = tmp_path_factory.mktemp("runs")
    return {which: trained(folder / which, ema=ema) for which, ema in (("ema", 0.9999), ("raw", 0.0))}


def measured(workdir, params):
    """The loss on the 20 images held out of a model with these parameters, counted here."""
    _, info = vitzoo.load(str(workdir))
    graph, _ = state.abstract(lambda rngs: ViT(from_description(info.description).config, rngs=rngs))
    held_out = Stripes(None).open("test")
    images = np.stack([held_out.table.read(row)["image"] for row in range(64, 84)])[..., None]
    pixels = (images.astype(np.float32) - info.preprocessing.mean) / info.preprocessing.std
    log_p = jax.nn.log_softmax(state.merge(graph, params)(jnp.asarray(pixels, jnp.float32)))
    return float(-np.asarray(log_p)[np.arange(20), held_out.info.labels()].mean())


@pytest.mark.gate
@pytest.mark.parametrize("which", ["ema", "raw"])
def test_evaluation_during_training_is_of_the_weights_that_it_names(runs, which):
    workdir, said = runs[which]
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    held_out = [line for line in lines if line["split"] == "test"]
    assert [line["weights"] for line in held_out] == [which, which]
    assert all("weights" not in line for line in lines if line["split"] == "train")
    assert f"step 4  test  weights {which}  n 20" in said
    assert f", weights {which}\n" in next(line + "\n" for line in said.splitlines() if line.startswith("best "))
    folder = workdir / "checkpoints" / "4"
    raw = measured(workdir, read_arrays(folder / "params"))
    own = measured(workdir, read_arrays(folder / "ema")) if which == "ema" else raw
    assert which == "raw" or abs(own - raw) > 1e-3  # else this test would show nothing
    assert held_out[-1]["loss"] == pytest.approx(own, rel=1e-5)


@pytest.mark.gate
@pytest.mark.parametrize(("asked", "which"), [("auto", "ema"), pytest.param("raw", "raw", marks=pytest.mark.slow)])
def test_every_command_says_whose_weights_it_takes(runs, asked, which, tmp_path):
    run = str(runs["ema"][0])
    said = said_by("eval", "--checkpoint", run, "--weights", asked, "--output", str(tmp_path / "eval"), "--json")
    assert f"test  weights={which}  n=20" in said
    assert json.loads(said.splitlines()[-1])["weights"] == which
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "a.png")
    assert f"weights {which}" in said_by("predict", "--checkpoint", run, str(tmp_path / "a.png"), "--weights", asked)
    made = said_by("convert", run, str(tmp_path / "made"), "--format", "vitzoo", "--weights", asked)
    assert f"{which} weights" in made
    soup = said_by("soup", run, f"{run}@2", "--output", str(tmp_path / "soup"), "--weights", asked)
    assert f"weights  {which}\n" in soup
    assert "weights raw" in said_by("average", "--workdir", run, "--last", "2", "--output", str(tmp_path / "mean"))


@pytest.mark.gate
def test_a_report_has_a_column_for_whose_weights_were_evaluated(runs, tmp_path):
    folders = [str(runs[which][0]) for which in ("ema", "raw")]
    said = said_by("report", *folders, "--output", str(tmp_path / "report.html"), "--json")
    told = json.loads(said.splitlines()[-1])["runs"]
    assert {name: row["weights"] for name, row in told.items()} == {"ema": "ema", "raw": "raw"}
    assert "<th>weights</th>" in (tmp_path / "report.html").read_text()


def dry(workdir, **changes):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        dry_run(resolve(config(**changes)), str(workdir))
    return said.getvalue()


@pytest.mark.parametrize(
    ("ema", "steps", "left"),
    [
        (0.9999, 400, "96.1%"),
        pytest.param(0.99, 200, "13.4%", marks=pytest.mark.slow),
        pytest.param(0.9, 28, "5.2%", marks=pytest.mark.slow),
        (0.9, 29, None),
    ],
)
def test_an_average_that_will_not_forget_its_start_is_remarked(ema, steps, left, tmp_path):
    # what is left of the first parameters after n steps is decay^n
    settings = {**SMALL, "ema": ema, "total_steps": steps}
    said = dry(tmp_path / "run", **{**settings, "ema_warm_start": False})
    warning = f"warning: ema = {ema} over {steps} steps: {left} of the moving average is still the parameters it began"
    assert (warning in said) == (left is not None)
    assert ("moving average is still" in said) == (left is not None)
    assert "moving average is still" not in dry(tmp_path / "run", **settings)


@pytest.mark.gate
def test_a_warm_start_forgets_the_first_parameters(runs):
    # the decay after n steps is (1 + n) / (10 + n) here: over 4 steps 2/11 · 3/12 · 4/13 · 5/14 = 0.5 % of the start
    folders = [runs["ema"][0] / "checkpoints" / str(step) for step in (1, 2, 3, 4)]
    params = [read_arrays(folder / "params")["head"]["bias"].astype(np.float64) for folder in folders]
    means = [read_arrays(folder / "ema")["head"]["bias"].astype(np.float64) for folder in folders]
    for n in (2, 3, 4):
        decay = (1 + n) / (10 + n)
        expected = decay * means[n - 2] + (1 - decay) * params[n - 1]
        np.testing.assert_allclose(means[n - 1], expected, rtol=1e-5, atol=1e-8)


def test_our_own_short_configs_start_it_warm_and_published_recipes_do_not():
    own = ["quickstart", "vit/fashion_mnist", "gpt/quickstart", "bert/classify", "t5/translate"]
    published = ["vit/imagenet", "vit/deit", "vit/augreg:i1k,B/16", "gpt/gpt2", "t5/c4:base", "transformer/wmt14"]
    for name in (*own, *published):
        assert resolve(name, complete=False).experiment.ema_warm_start == (name in own), name
