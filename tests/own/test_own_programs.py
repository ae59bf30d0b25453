"""Programs of a user's own, each one file with nothing in vitzoo edited: trained, killed and resumed, on any mesh."""

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

import vitzoo
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.checkpoints.average import average
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.evaluation.soup import soup
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import abstract, initialise, merge
from vitzoo.parallel import mesh as meshes
from vitzoo.parallel.sharding import put
from vitzoo.steps.state import create
from vitzoo.training import loop
from vitzoo.training import setup as setups
from vitzoo.training.metrics import read as read_metrics

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(HERE)
    yield
    for name in ("cnn", "dino", "focus", "hint", "mae", "simclr", "towers", "volumes"):
        sys.modules.pop(name, None)


def devices(monkeypatch, count):
    monkeypatch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:count])


def trained(name, workdir, *, stop=None, monkeypatch=None, **changes):
    """Trains the program; with `stop`, its process dies before that batch, and the same call goes on."""
    if stop is not None:
        put, count = loop.put, []

        def dying(batch, mesh):
            count.append(1)
            if len(count) == stop:
                raise KeyError("dies")
            return put(batch, mesh)

        with monkeypatch.context() as patch:
            patch.setattr(loop, "put", dying)
            with pytest.raises(KeyError, match="dies"):
                vitzoo.train(f"{name}.py", workdir, changes)
    return vitzoo.train(f"{name}.py", workdir, changes)


def state_of(workdir, item):
    return flatten(read_arrays(workdir / "checkpoints" / str(max(steps(workdir))) / item))


def steps(workdir):
    return [int(path.name) for path in (workdir / "checkpoints").iterdir() if path.name.isdecimal()]


def run_of(name, tmp_path_factory, **changes):
    """A program trained on one device: its folder, what it returned and what it said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HERE)
        patch.syspath_prepend(HERE)
        devices(patch, 1)
        workdir, said = tmp_path_factory.mktemp("own") / name, io.StringIO()
        with contextlib.redirect_stdout(said):
            return workdir, trained(name, workdir, **changes), said.getvalue()


@pytest.fixture(scope="module")
def cnn(tmp_path_factory):
    return run_of("cnn", tmp_path_factory)


def test_a_network_with_batch_normalisation_trains_and_its_average_is_evaluated(cnn):
    workdir, summary, said = cnn
    assert "keeps   6 statistics, each taken over a micro-batch of 16 examples (batch_size / accumulate)" in said
    assert summary["metrics"]["test"]["accuracy"] > 0.8  # of two classes
    params, average = state_of(workdir, "params"), state_of(workdir, "ema")
    statistics = {path for path in params if path.endswith(("/mean", "/variance"))}
    assert len(statistics) == 6
    for path in params:
        same = params[path].tobytes() == average[path].tobytes()
        assert same == (path in statistics), path  # the average has the statistics as they are
    assert not any(name in path for path in state_of(workdir, "optimizer") for name in ("/mean", "/variance"))
    assert not np.allclose(params["norm/mean"], 0)
    assert not np.allclose(params["norm/variance"], 1)


@pytest.mark.gate
def test_a_killed_one_ends_bitwise_as_if_undisturbed(cnn, tmp_path, monkeypatch):
    devices(monkeypatch, 1)
    trained("cnn", tmp_path / "killed", stop=18, monkeypatch=monkeypatch)
    for item in ("params", "ema", "optimizer"):
        left, right = state_of(cnn[0], item), state_of(tmp_path / "killed", item)
        assert {path: leaf.tobytes() for path, leaf in left.items()} == {p: leaf.tobytes() for p, leaf in right.items()}


def test_it_is_loaded_and_predicts_as_it_was_evaluated(cnn):
    import cnn as program

    model, info = vitzoo.load(str(cnn[0]))
    images = [program.bars(None).read(80 + index)["image"] for index in range(24)]
    logits = np.concatenate([model(info.preprocess(image)) for image in images])
    labels = np.arange(80, 104) % 2
    assert (logits.argmax(-1) == labels).mean() == cnn[1]["metrics"]["test"]["accuracy"]


def first_step(name, monkeypatch, count, batch=None, **changes):
    """Loss of the first step, and the whole state after it."""
    devices(monkeypatch, count)
    resolved = resolve(f"{name}.py", overrides=changes)
    mesh = setups.mesh_of(resolved.experiment)
    task = setups.prepare(resolved, mesh)
    params = initialise(task.assembly, 0, task.shardings["params"])
    state = create(params, task.chain, resolved.experiment.ema, task.shardings, task.objective)
    state |= {"frozen": task.frozen_models.load(mesh)} if task.frozen_models.models else {}
    batch = next(task.stream.iterate(0)) if batch is None else batch(next(task.stream.iterate(0)))
    state, scalars = task.train_step(state, put(batch, mesh))
    task.stream.close()
    return float(scalars["loss"]), {path: np.asarray(leaf) for path, leaf in flatten(state).items()}


@pytest.mark.slow
def test_one_and_eight_devices_give_the_same_statistics(monkeypatch):
    sgd = {"optimizer.name": "sgd", "optimizer.learning_rate": 0.1}
    (loss, one), (other_loss, eight) = (first_step("cnn", monkeypatch, count, **sgd) for count in (1, 8))
    assert loss == pytest.approx(other_loss, rel=1e-5)
    for path in one:
        np.testing.assert_allclose(one[path], eight[path], rtol=1e-4, atol=1e-5, err_msg=path)


def test_a_model_made_of_parts_hands_out_what_they_know_and_refuses_other_names():
    import focus as program

    config = program.Config(image_size=(8, 8), channels=3, num_classes=2)
    image = jax.ShapeDtypeStruct((5, 8, 8, 3), np.float32)

    def shapes(**options):
        build = lambda image: program.Focused(config, rngs=nnx.Rngs(0), execution=Execution())(image, **options)  # noqa: E731
        return jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(build, image))

    assert shapes() == (5, 2)
    logits, captured = shapes(capture={"attention", "blocks"})
    assert logits == (5, 2)
    assert captured == {"attention": (2, 5, 2, 16, 16), "blocks": (2, 5, 16, 16)}
    with pytest.raises(vitzoo.UserError, match="capture = pooled: no such name; known: blocks, attention"):
        shapes(capture={"pooled"})


@pytest.mark.slow
def test_a_loss_that_reads_attention_weights_is_the_same_on_one_and_eight_devices(monkeypatch):
    (loss, one), (other_loss, eight) = (first_step("focus", monkeypatch, count) for count in (1, 8))
    assert loss == pytest.approx(other_loss, rel=1e-5)
    assert loss > np.log(2)  # of two classes, and some entropy
    for path in one:
        np.testing.assert_allclose(one[path], eight[path], rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", pytest.param("simclr", marks=pytest.mark.slow)])
def test_rows_that_only_fill_up_a_batch_change_nothing(name, monkeypatch):
    sgd = {"optimizer.name": "sgd", "optimizer.learning_rate": 0.1}

    def half(batch):
        return {name: rows[:8] for name, rows in batch.items()}

    def padded(batch):
        noise = np.full_like(batch["image"][8:], 255)
        image = np.concatenate([batch["image"][:8], noise])
        return {**batch, "image": image, "example_weight": np.float32([1] * 8 + [0] * 8)}

    (loss, alone), (other_loss, filled) = (first_step("cnn", monkeypatch, 1, batch, **sgd) for batch in (half, padded))
    assert loss == pytest.approx(other_loss, rel=1e-6)
    for path in alone:
        np.testing.assert_allclose(alone[path], filled[path], rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.gate
def test_a_teacher_that_moves_is_saved_and_a_killed_run_ends_as_if_undisturbed(tmp_path, monkeypatch):
    devices(monkeypatch, 1)
    trained("dino", tmp_path / "straight")
    trained("dino", tmp_path / "killed", stop=18, monkeypatch=monkeypatch)
    for item in ("params", "objective", "optimizer"):
        left, right = state_of(tmp_path / "straight", item), state_of(tmp_path / "killed", item)
        assert {path: leaf.tobytes() for path, leaf in left.items()} == {p: leaf.tobytes() for p, leaf in right.items()}
    params, memory = state_of(tmp_path / "straight", "params"), state_of(tmp_path / "straight", "objective")
    assert {f"teacher/{path}" for path in params} | {"centre"} == set(memory)
    assert all(memory[f"teacher/{path}"].tobytes() != leaf.tobytes() for path, leaf in params.items())
    assert np.abs(memory["centre"]).max() > 0


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("dino", {"accumulate": 4}),
        pytest.param("dino", {"accumulate": 2, "devices": 8}, marks=pytest.mark.slow),
        pytest.param("simclr", {"accumulate": 4}, marks=pytest.mark.slow),
        pytest.param("simclr", {"accumulate": 2, "devices": 8}, marks=pytest.mark.slow),
    ],
)
def test_crops_memory_and_contrast_are_the_same_for_any_accumulation_and_mesh(name, how, monkeypatch):
    loss, right = first_step(name, monkeypatch, 1)
    other_loss, found = first_step(name, monkeypatch, how.get("devices", 1), accumulate=how["accumulate"])
    assert loss == pytest.approx(other_loss, rel=1e-5)
    assert ("objective/centre" in right) == (name == "dino")
    for path in right:
        np.testing.assert_allclose(right[path], found[path], rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.slow
def test_a_step_that_is_not_finite_leaves_statistics_and_memory_as_they_are(monkeypatch):
    def poisoned(batch):
        return {**batch, "example_weight": np.full_like(batch["example_weight"], np.nan)}

    for name, held in (("cnn", "params/norm/mean"), ("dino", "objective/centre")):
        _, state = first_step(name, monkeypatch, 1, poisoned)
        assert all(np.isfinite(leaf).all() for leaf in state.values())
        assert state["skipped"] == 1
        np.testing.assert_array_equal(state[held], 0)


GUIDE = "objective.guide"


@pytest.fixture(scope="module")
def hint(cnn, tmp_path_factory):
    return run_of("hint", tmp_path_factory, **{GUIDE: str(cnn[0])})


@pytest.mark.slow
def test_a_checkpoint_to_learn_from_is_named_and_not_saved(cnn, hint):
    workdir, summary, said = hint
    count = sum(leaf.size for leaf in state_of(cnn[0], "params").values())
    assert f"guide   {cnn[0]}, step 24: {count:,} parameters" in said
    checkpoint = workdir / "checkpoints" / "24"
    assert {path.name for path in checkpoint.iterdir() if path.is_dir()} == {"params", "optimizer", "loop"}
    marks = json.loads((checkpoint / "model.json").read_text())["frozen"]
    assert {**marks["guide"], "crc32": ""} == {"checkpoint": str(cnn[0]), "step": 24, "weights": "ema", "crc32": ""}
    losses = [line["loss"] for line in read_metrics(workdir) if line["split"] == "test"]
    assert losses[1] < losses[0]
    assert summary["metrics"]["test"]["loss"] == losses[1]


@pytest.mark.slow
def test_the_guide_sees_the_students_images_as_it_was_trained(cnn, monkeypatch):
    """The loss of the first step, by hand: of images that are scaled otherwise for each."""
    import cnn as program

    devices(monkeypatch, 1)
    resolved = resolve("hint.py", overrides={GUIDE: str(cnn[0])})
    task = setups.prepare(resolved, setups.mesh_of(resolved.experiment))
    image = next(task.stream.iterate(0))["image"].astype(np.float32)
    task.stream.close()
    guide, _ = vitzoo.load(str(cnn[0]))
    student = merge(abstract(task.assembly)[0], initialise(task.assembly, 0))
    wanted, found = guide(image / np.float32(127.5) - 1), student((image - 100) / 50)
    loss, _ = first_step("hint", monkeypatch, 1, **{GUIDE: str(cnn[0])})
    assert loss == pytest.approx(float(np.sqrt(1 + ((found - wanted) ** 2).sum(-1)).mean()), rel=1e-5)
    assert isinstance(guide, program.CNN)


@pytest.mark.gate
def test_a_killed_student_ends_bitwise_as_if_undisturbed_and_knows_its_guide(cnn, hint, tmp_path, monkeypatch, capsys):
    devices(monkeypatch, 1)
    guide = shutil.copytree(cnn[0], tmp_path / "guide")
    trained("hint", tmp_path / "killed", stop=18, monkeypatch=monkeypatch, **{GUIDE: str(guide)})
    for item in ("params", "optimizer"):
        left, right = state_of(hint[0], item), state_of(tmp_path / "killed", item)
        assert {path: leaf.tobytes() for path, leaf in left.items()} == {p: leaf.tobytes() for p, leaf in right.items()}
    assert main(["eval", "--checkpoint", str(tmp_path / "killed"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]["test"]["metrics"]
    assert found == {"loss": pytest.approx(hint[1]["metrics"]["test"]["loss"], rel=1e-5)}
    shutil.rmtree(guide / "checkpoints" / "24")  # the one before it is there still
    shutil.rmtree(tmp_path / "killed" / "checkpoints" / "24")
    with pytest.raises(vitzoo.UserError, match=rf"{GUIDE} = {guide}: has changed .*step 24, now 12, crc32 .*workdir"):
        trained("hint", tmp_path / "killed", **{GUIDE: str(guide)})


@pytest.mark.slow
def test_what_a_guide_says_is_the_same_for_any_accumulation_and_mesh(cnn, monkeypatch):
    sgd = {GUIDE: str(cnn[0]), "optimizer.name": "sgd", "optimizer.learning_rate": 0.1}
    loss, right = first_step("hint", monkeypatch, 1, **sgd)
    other_loss, found = first_step("hint", monkeypatch, 8, **sgd, accumulate=2)
    assert loss == pytest.approx(other_loss, rel=1e-5)
    for path in right:
        np.testing.assert_allclose(right[path], found[path], rtol=1e-5, atol=1e-6, err_msg=path)


def test_an_objective_that_does_not_take_its_guide_is_refused(monkeypatch):
    import hint as program

    monkeypatch.setattr(program.Hint, "bind", lambda self, info, model_config: self)
    message = (
        r"objective.name = hint:Hint: its `bind` takes no `guide`, the models .*unexpected keyword argument 'guide'"
    )
    with pytest.raises(vitzoo.UserError, match=message):
        resolve("hint.py", overrides={GUIDE: "RUN"})


def test_no_mean_is_made_of_weights_with_statistics(cnn, tmp_path):
    message = r"= .*/cnn(@12)?: keeps statistics of its batches \(blocks/0/norm/mean\)"
    with pytest.raises(vitzoo.UserError, match=message):
        average(cnn[0], 2, tmp_path / "mean")
    with pytest.raises(vitzoo.UserError, match=message):
        soup([f"{cnn[0]}@12", str(cnn[0])], tmp_path / "soup")
    assert not list(tmp_path.iterdir())


def test_a_contrast_with_a_model_that_keeps_statistics_is_refused(monkeypatch):
    with pytest.raises(vitzoo.UserError, match=r"objective.name = simclr:Contrast: .*keeps statistics .*blocks/0"):
        first_step("simclr", monkeypatch, 1, **{"model.name": "cnn:CNN"})


GATED = [
    pytest.param("dino", marks=pytest.mark.gate),
    *(pytest.param(n, marks=pytest.mark.slow) for n in ("cnn", "simclr")),
]


@pytest.mark.parametrize("name", ["hint", *GATED])
def test_a_program_of_ones_own_is_planned(name, capsys):
    assert main(["plan", "--config", f"{name}.py", "--topology", "cpu:2"]) == 0
    assert "run it" in capsys.readouterr().out


def test_a_dry_run_tells_statistics_from_what_trains(capsys):
    assert main(["train", "--config", "cnn.py", "--dry-run"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert lines["norm/mean"].split() == ["16", "all", "statistic", "statistic"]
    assert lines["norm/scale"].split() == ["16", "all", "-", "x", "1"]


@pytest.mark.slow
def test_rows_that_see_each_other_are_measured_in_the_same_batches_on_any_mesh(tmp_path, monkeypatch, capsys):
    devices(monkeypatch, 1)
    workdir = tmp_path / "run"
    loss = trained("simclr", workdir, total_steps=2)["metrics"]["test"]["loss"]
    assert loss > 0.1
    devices(monkeypatch, 8)
    assert main(["eval", "--checkpoint", str(workdir), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]["test"]["metrics"]
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert main(["eval", "--checkpoint", str(workdir), "--config.evaluate.test.batch_size=12"]) == 2
    assert "evaluate.test.batch_size = 12: doesn't divide over the mesh, and rows that" in capsys.readouterr().err


@pytest.mark.slow
def test_the_loss_on_held_out_data_is_measured_with_the_teacher_of_that_step(tmp_path, monkeypatch, capsys):
    devices(monkeypatch, 1)
    workdir = tmp_path / "run"
    summary = trained("dino", workdir, **{"optimizer.learning_rate": 0.003})  # slow enough that a loss is left
    lines = [line for line in read_metrics(workdir) if line["split"] == "test"]
    assert [(line["step"], line["n"]) for line in lines] == [(12, 24), (24, 24)]
    assert min(line["loss"] for line in lines) > 0.1
    assert summary["best"] == min(({"step": x["step"], "value": x["loss"]} for x in lines), key=lambda x: x["value"])
    devices(monkeypatch, 8)
    for line, size in zip(lines, (7, 20), strict=True):
        checkpoint, flag = f"{workdir}@{line['step']}", f"--config.evaluate.test.batch_size={size}"
        assert main(["eval", "--checkpoint", checkpoint, flag, "--json"]) == 0
        found = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]["test"]
        assert found["n"] == 24
        assert found["metrics"] == {"loss": pytest.approx(line["loss"], rel=1e-5)}
    assert main(["eval", "--checkpoint", str(workdir), "--config.data.split=test", "--json"]) == 0
    other = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]["eval"]  # of a model without classes
    assert other["metrics"] == {"loss": pytest.approx(lines[-1]["loss"], rel=1e-5)}
    average(workdir, 2, tmp_path / "mean")
    assert main(["eval", "--checkpoint", str(tmp_path / "mean")]) == 2
    said = capsys.readouterr().err
    assert "evaluate.test.name = objective: measures an objective that remembers, and " in said
    assert "holds weights without its memory" in said
    with pytest.raises(vitzoo.UserError, match="--greedy = test/loss: is of an objective that remembers"):
        soup([f"{workdir}@12", str(workdir)], tmp_path / "soup", greedy="test/loss")
