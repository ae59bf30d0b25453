"""A run that learns from another run: what the teacher sees, where it is kept, and that it stays the same one."""

import dataclasses
import io
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_checkpoint import TINY, make_run
from striped import config

import vitzoo
from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.locate import locate
from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.config.assembly import columns_of
from vitzoo.errors import UserError
from vitzoo.nn import state as modules
from vitzoo.parallel import mesh as meshes
from vitzoo.steps.state import frozen_shardings
from vitzoo.training import loop, setup

TEACHER = dataclasses.replace(TINY, num_classes=2)
CLASSES = ("down", "across")  # the data's, in another order


def run(settings, workdir):
    out = io.StringIO()
    return loop.train(settings, workdir, out), out.getvalue()


def learning(teacher, **changes):
    """A student of 16 × 16 pixels, scaled otherwise than its teacher's."""
    return config(
        total_steps=4,
        objective={"name": "distillation", "teacher": str(teacher)},
        checkpoint={"every_steps": 2, "keep_best": ""},
        evaluate={"test": None, "learned": {"name": "objective", "split": "test"}},
        model={"image_size": 16},
        inputs={"image": {"mean": (100.0,), "std": (50.0,)}},
        ema=0.0,
        **changes,
    )


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    make_run(folder / "run", TEACHER, CLASSES)
    return folder / "run"


@pytest.fixture(scope="module")
def student(teacher, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("student") / "run"
    _, said = run(learning(teacher), workdir)
    return workdir, said


def task_of(settings):
    resolved = resolve(settings)
    return setup.prepare(resolved, setup.mesh_of(resolved.experiment))


def test_the_teacher_sees_the_students_images_at_its_own_size_and_scale(teacher):
    task = task_of(learning(teacher))
    task.stream.close()
    params = task.frozen_models.load(task.mesh)["teacher"]
    marks, answer = task.frozen_models.marks["teacher"], task.frozen_models.models["teacher"].classifier()
    pixels = np.random.default_rng(0).uniform(0, 255, (3, 16, 16, 1)).astype(np.float32)
    model, info = vitzoo.load(str(teacher))
    graph, weights = modules.split(model)

    def both(params, weights, pixels):
        shrunk = jax.image.resize(pixels, (3, 8, 8, 1), "bilinear")
        expected = modules.merge(graph, weights)((shrunk - 127.5) / 127.5)
        return answer(params, {"image": (pixels - 100) / 50}), expected

    given, expected = jax.jit(both)(params, weights, pixels)
    np.testing.assert_allclose(given, expected[:, ::-1], rtol=1e-4, atol=1e-4)
    assert (marks["step"], marks["weights"]) == (info.step, info.weights) == (7, "ema")


@pytest.mark.slow
def test_the_teacher_is_said_and_recorded_and_not_saved(teacher, student):
    workdir, said = student
    assert f"teacher {teacher}, step 7:" in said
    checkpoint = locate(workdir).folder
    assert {path.name for path in checkpoint.iterdir() if path.is_dir()} == {"params", "optimizer", "loop"}
    marks = metadata.read_description(checkpoint)["frozen"]["teacher"]
    assert (marks["checkpoint"], marks["step"], marks["weights"]) == (str(teacher), 7, "ema")
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["split"] == "train"][-1]
    assert last["loss"] == pytest.approx(last["loss_classification"] + last["loss_distillation"], rel=1e-5)
    model, _ = vitzoo.load(str(workdir))
    assert model(jnp.zeros((1, 16, 16, 1))).shape == (1, 2)


@pytest.mark.slow
def test_what_the_teacher_says_of_held_out_images_is_measured_during_and_after_the_training(teacher, student, capsys):
    lines = [json.loads(line) for line in (student[0] / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["split"] == "learned"][-1]
    assert last["loss"] == pytest.approx(last["loss_classification"] + last["loss_distillation"], rel=1e-6)
    assert main(["eval", "--checkpoint", str(student[0]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]["learned"]
    assert found["n"] == last["n"]
    assert found["metrics"] == pytest.approx({name: last[name] for name in found["metrics"]}, rel=1e-5)
    kept = teacher.with_name("kept")
    teacher.rename(kept)
    try:
        assert main(["eval", "--checkpoint", str(student[0])]) == 2
        assert f"objective.teacher = {teacher}: " in capsys.readouterr().err
        make_run(teacher, TEACHER, CLASSES, ema=False)
        assert main(["eval", "--checkpoint", str(student[0])]) == 2
        assert "has changed since this run began (weights ema, now raw, crc32" in capsys.readouterr().err
    finally:
        shutil.rmtree(teacher)
        kept.rename(teacher)


@pytest.mark.slow
def test_resuming_with_another_teacher_under_the_same_name_is_refused(teacher, student, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(student[0], workdir)
    shutil.rmtree(workdir / "checkpoints" / "4")
    whole = json.loads((workdir / "metrics.jsonl").read_text().splitlines()[-1])
    resumed = tmp_path / "resumed"
    shutil.copytree(workdir, resumed)
    run(learning(teacher), resumed)
    again = json.loads((resumed / "metrics.jsonl").read_text().splitlines()[-1])
    assert again["loss"] == whole["loss"]
    kept = teacher.with_name("kept")
    teacher.rename(kept)
    try:
        make_run(teacher, TEACHER, CLASSES, ema=False)
        with pytest.raises(UserError, match=r"objective\.teacher.*has changed.*weights ema, now raw, crc32") as refusal:
            run(learning(teacher), workdir)
        assert "a new workdir" in str(refusal.value)
    finally:
        shutil.rmtree(teacher)
        kept.rename(teacher)


def test_its_parameters_are_spread_as_a_models(teacher):
    task = task_of(learning(teacher))
    task.stream.close()
    mesh = meshes.make_mesh("fsdp:8", jax.devices())
    places = frozen_shardings(task.frozen_models.models, mesh)["teacher"]
    assert "fsdp" in places["encoder"]["blocks"]["*"]["mlp"]["up"]["kernel"].spec
    kernel = task.frozen_models.load(mesh)["teacher"]["encoder"]["blocks"]["*"]["mlp"]["up"]["kernel"]
    assert kernel.addressable_shards[0].data.size == kernel.size // 8


def test_a_plan_counts_the_teacher_that_is_named(teacher, tmp_path, capsys):
    def planned(recipe, *flags):
        settled = ("--config.mesh=data:2", "--config.remat=none", "--config.accumulate=1", "--topology", "cpu:2")
        return main(["plan", "--config", f"vit/fashion_mnist:{recipe}", *flags, *settled, "--json"])

    assert planned("student") == planned("distilled", f"--config.objective.teacher={teacher}") == 0
    alone, taught = (json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    # kernel and bias of the patches, a token, 5 places; two blocks (norms, attention, MLP); the last norm, the head
    numbers = 272 + 16 + 80 + 2 * (64 + 4 * 272 + 544 + 528) + 32 + 34
    assert taught["bytes_per_device"]["optimizer"] - alone["bytes_per_device"]["optimizer"] == 4 * numbers
    assert taught["notes"] == alone["notes"]
    assert planned("distilled", f"--config.objective.teacher={tmp_path / 'nothing'}") == 2
    assert f"objective.teacher = {tmp_path / 'nothing'}: " in capsys.readouterr().err


def test_its_answers_are_put_in_the_order_of_the_students_classes():
    assert columns_of("objective.teacher", "RUN", ["a", "b", "c"], 3, ["c", "a"], 2) == (2, 0)
    assert columns_of("objective.teacher", "RUN", ["a", "b"], 2, ["a", "b"], 2) is None
    assert columns_of("objective.teacher", "RUN", None, 2, ["a", "b"], 2) is None
    with pytest.raises(UserError, match=r"objective\.teacher = RUN: doesn't know 1 of the 2 classes, such as z"):
        columns_of("objective.teacher", "RUN", ["a", "b"], 2, ["a", "z"], 2)
    with pytest.raises(UserError, match=r"objective\.teacher = RUN: tells 3 classes apart, the student 2"):
        columns_of("objective.teacher", "RUN", None, 3, ["a", "b"], 2)


def test_a_teacher_that_is_not_there_is_refused_by_its_setting(tmp_path):
    with pytest.raises(UserError, match=r"objective\.teacher"):
        task_of(learning(tmp_path / "nothing"))
