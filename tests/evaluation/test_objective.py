"""The evaluator of what is trained for gives an objective's loss on a whole split, by whatever it is batched."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from made_checkpoint import DIGITS, TINY, make_run
from made_data import Holed
from made_text_run import make_text_run

from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.errors import UserError
from vitzoo.evaluation.objective import ObjectiveEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.nn import state
from vitzoo.parallel.mesh import make_mesh


class Brightness(nnx.Module):
    """An image's mean pixel, scaled to -1..1, times a factor."""

    def __init__(self, rngs):
        self.factor = nnx.Param(jnp.full((), 3.0))

    def __call__(self, image, train=False, key=None):
        assert not train
        return self.factor.get_value() * image.mean((1, 2, 3))


class Uneven:
    """Two terms over different rows, one that nothing counts for, a metric, and a draw for each row."""

    term_weights = {"bright": 2.0, "low": 0.5, "none": 7.0}

    def counts(self, batch):
        low = (batch["label"] < 3) * batch["example_weight"]
        return {"bright": batch["example_weight"].sum(), "low": 4 * low.sum(), "none": jnp.zeros(())}

    def sums(self, model, batch, key=None, *, train=True, memory=None, step=0):
        assert not train
        weight = batch["example_weight"]
        found = jnp.where(weight > 0, model(batch["image"], train=train), jnp.nan)  # padding says nothing
        low = (batch["label"] < 3) * weight
        drawn = jax.vmap(jax.random.uniform)(batch["key"])
        sums = {"bright": jnp.where(weight > 0, found, 0).sum(), "low": jnp.where(low > 0, found**2, 0).sum()}
        pairs = {"drawn": ((weight * drawn).sum(), weight.sum()), "never": (jnp.zeros(()), jnp.zeros(()))}
        return sums | {"none": jnp.zeros(())}, pairs | {"step": (jnp.float32(step), jnp.ones(()))}, {}


def evaluation(objective, batch_size, devices, name="made_data:Holed", build=Brightness, classes=None, split="test"):
    return Evaluation(
        ObjectiveEvaluator(split=split),
        state.abstract(lambda rngs: build(rngs=rngs))[0],
        inputs=Inputs({"image": ImageProcessor(Preprocessing())}),
        config=TINY,
        data=Data(name=name, batch_size=batch_size, bad_files="skip", in_memory="never"),
        classes=classes,
        mesh=make_mesh("auto", jax.devices()[:devices]),
        bound_objective=lambda info: objective,
    )


@pytest.mark.parametrize(("batch_size", "devices"), [(7, 1), (20, 1), (20, 8)])
def test_sums_and_counts_are_those_of_the_split_whatever_the_batch_and_the_devices(batch_size, devices):
    bound, params = evaluation(Uneven(), batch_size, devices), {"factor": np.float32(3.0)}
    rows = bound.rows(params, state={"step": np.int32(12)})
    found = bound.metrics(rows)
    data, real = Holed(None), np.array([index for index in range(50) if index not in (3, 49)])
    value = 3 * ((data.images[real] - 127.5) / 127.5).mean((1, 2), dtype=np.float64)
    low = data.labels[real] < 3
    parts = {"bright": 2 * value.mean(), "low": 0.5 * (value[low] ** 2).sum() / (4 * low.sum())}
    # the key of the row at place i of the split, where i counts rows that can't be read too
    drawn = [float(jax.random.uniform(jax.random.fold_in(jax.random.key(0), int(place)))) for place in real]
    assert rows["position"].tolist() == real.tolist()
    assert list(found) == ["loss", "loss_bright", "loss_low", "loss_none", "drawn", "never", "step"]
    assert found["loss"] == pytest.approx(sum(parts.values()), rel=1e-6)
    assert [found["loss_bright"], found["loss_low"]] == pytest.approx(list(parts.values()), rel=1e-6)
    assert found["drawn"] == pytest.approx(np.mean(drawn), rel=1e-6)
    assert found["step"] == 12 * -(-50 // batch_size) / -(-50 // batch_size)
    assert np.isnan(found["loss_none"])
    assert np.isnan(found["never"])


@pytest.mark.parametrize(("batch_size", "devices"), [(24, 1), (24, 8), (50, 1)])
def test_rows_that_see_each_other_are_those_of_a_batch(batch_size, devices):
    class Pairs:
        term_weights = {"pairs": 1.0}

        def counts(self, batch):
            return {"pairs": batch["example_weight"].sum()}

        def embeddings(self, model, batch, key=None, *, train=True):
            return {"value": model(batch["image"], train=train)}

        def sums_of(self, embeddings, params, batch, *, memory=None, step=0):
            value = embeddings["value"] * batch["example_weight"]
            return {"pairs": params["factor"] * (value[:, None] * value[None]).sum()}, {}, {}

    found = evaluation(Pairs(), batch_size, devices)({"factor": np.float32(3.0)})
    value = 3 * ((Holed(None).images - 127.5) / 127.5).mean((1, 2), dtype=np.float64)
    value[[3, 49]] = 0  # unreadable
    # of each batch the sum over all pairs of its rows, which is the square of the sum over them
    sums = [value[start : start + batch_size].sum() ** 2 for start in range(0, 50, batch_size)]
    assert found == {"n": 48, "loss": pytest.approx(3 * sum(sums) / 48, rel=1e-5)}


def test_batches_of_rows_that_see_each_other_are_not_filled_up():
    class Pairs(Uneven):
        def embeddings(self, model, batch, key=None, *, train=True): ...

        def sums_of(self, embeddings, params, batch, *, memory=None, step=0): ...

    with pytest.raises(UserError, match=r"batch_size = 20: doesn't divide over the mesh, .* one size: 24"):
        evaluation(Pairs(), 20, 8)


def test_a_split_in_which_nothing_counts_has_no_loss():
    class Never(Uneven):
        def counts(self, batch):
            return dict.fromkeys(self.term_weights, jnp.zeros(()))

    with pytest.raises(UserError, match="split = test: holds nothing that the objective counts"):
        evaluation(Never(), 50, 1)({"factor": np.float32(3.0)})


def test_labels_that_are_numbered_otherwise_than_the_models_classes_are_refused():
    for name in ("Four", "Strangers"):
        with pytest.raises(UserError, match=f"data.name = {name.lower()}: has other classes than the model"):
            evaluation(Uneven(), 8, 1, f"made_data:{name}", classes=DIGITS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each family, with the evaluator beside the one that it has to agree with."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    rows = [{"source": f"{word} {number}", "target": word} for number, word in enumerate(words)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    part = {"split": "all", "batch_size": 3}
    for name in ("gpt", "t5"):
        both = {"own": {"name": "objective", **part}, "known": {"name": "perplexity", **part}}
        make_text_run(folder / name, name, f"jsonl:{folder}/pairs.jsonl", evaluate=both)
        values = json.loads((folder / name / "config.json").read_text())
        values["data"]["split"] = "all"
        (folder / name / "config.json").write_text(json.dumps(values))
    both = {"own": {"name": "objective", "split": "five"}, "known": {"name": "classification", "split": "five"}}
    data = {"name": "made_data:Many", "split": "test", "batch_size": 4}
    make_run(folder / "vit", data="many", evaluate=both)
    values = json.loads((folder / "vit" / "config.json").read_text()) | {"data": data}
    (folder / "vit" / "config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.gate
@pytest.mark.parametrize("name", ["vit", "gpt", pytest.param("t5", marks=pytest.mark.slow)])
def test_it_agrees_with_the_familys_own_evaluator(runs, name, capsys):
    assert main(["eval", "--checkpoint", str(runs / name), "--json"]) == 0
    results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    own, known = results["own"], results["known"]
    assert own["n"] == known["n"] > 0
    assert own["metrics"]["loss"] == pytest.approx(known["metrics"]["loss"], rel=1e-6)
    assert own["metrics"]["accuracy"] == pytest.approx(known["metrics"]["accuracy"], rel=1e-6)
    assert set(own["metrics"]) <= {"loss", "accuracy", "top5_accuracy"}


def test_it_says_nothing_of_single_examples(runs, tmp_path, capsys):
    file = tmp_path / "p.csv"
    how = ["--config.evaluate.known=none", "--predictions", str(file)]
    assert main(["eval", "--checkpoint", str(runs / "vit"), *how]) == 2
    assert f"--predictions = {file}: own has no prediction for each example" in capsys.readouterr().err
    assert not file.exists()


def test_a_best_checkpoint_is_chosen_by_its_loss_alone():
    settings = {
        "total_steps": 1,
        "model": {"name": "vit", "variant": "Ti/16"},
        "objective": {"name": "classification"},
        "data": {"name": "digits"},
        "evaluate": {"val": {"name": "objective", "split": "test"}},
    }
    resolved = resolve(settings | {"checkpoint": {"keep_best": "val/loss"}})
    assert resolved.experiment.evaluate["val"].BETTER["loss"] is min
    with pytest.raises(UserError, match="val has no metric 'accuracy'"):
        resolve(settings | {"checkpoint": {"keep_best": "val/accuracy"}})
