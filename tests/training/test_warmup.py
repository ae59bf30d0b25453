"""A warm-up not shorter than the training, or longer with its cooldown: refused where the config says so, a warning
where a flag shortens the training."""

import contextlib
import io

import pytest
from striped import config

from vitzoo.cli import main
from vitzoo.cli.train import dry_run
from vitzoo.config import resolve
from vitzoo.config.fields import every_part, settings
from vitzoo.errors import UserError
from vitzoo.training import loop
from vitzoo.training.fits import COUNTED, check_warmup
from vitzoo.training.grid import Point
from vitzoo.training.sweep import sweep


def stated(schedule, **changes):
    """A training on 64 images in batches of 16: 4 steps an epoch."""
    changes = {"evaluate": {}, "checkpoint": {}, "total_steps": None} | changes
    return config(schedule={"name": "cosine", **schedule}, **changes)


def refusals(resolved, folder):
    """What each way to train says as it refuses."""
    for way in (lambda: loop.train(resolved, folder, io.StringIO()), lambda: dry_run(resolved, str(folder))):
        with contextlib.redirect_stdout(io.StringIO()), pytest.raises(UserError) as refusal:
            way()
        yield str(refusal.value)


TOO_LONG = [
    ({"warmup_steps": 20}, {"total_steps": 20}, "warmup_steps = 20", "total_steps = 20"),
    ({"warmup_steps": 21}, {"total_steps": 20}, "warmup_steps = 21", "total_steps = 20"),
    ({"warmup_steps": 20}, {"total_epochs": 5}, "warmup_steps = 20", "total_epochs = 5, 20 steps"),
    ({"warmup_epochs": 5.0}, {"total_steps": 20}, "warmup_epochs = 5.0", "total_steps = 20"),
    ({"warmup_epochs": 3.0}, {"total_epochs": 3}, "warmup_epochs = 3.0", "total_epochs = 3)"),
    ({"warmup_examples": 160}, {"total_examples": 150}, "warmup_examples = 160", "total_examples = 150, 10 steps"),
    ({"warmup_fraction": 1.0}, {"total_epochs": 3}, "warmup_fraction = 1.0", "total_epochs = 3"),
]


@pytest.mark.parametrize(("schedule", "length", "warmup", "told"), TOO_LONG)
def test_it_is_refused_by_every_way_to_train_and_nothing_is_written(schedule, length, warmup, told, tmp_path):
    for said in refusals(resolve(stated(schedule, **length)), tmp_path / "run"):
        assert said.startswith(f"schedule.{warmup}: is not shorter than the training ({told}")
        assert "optimizer.learning_rate = 0.01 is never reached" in said
        assert not any((tmp_path / "run").glob("[!.]*"))


OVERLAP = [
    ({"warmup_steps": 15, "cooldown_steps": 6}, {"total_steps": 20}, "cooldown_steps = 6", "warmup_steps = 15"),
    ({"warmup_fraction": 0.6, "cooldown_fraction": 0.5}, {"total_epochs": 5}, "cooldown_fraction = 0.5", "= 0.6 are"),
    (
        {"warmup_epochs": 3.0, "cooldown_epochs": 2.5},
        {"total_epochs": 5},
        "cooldown_epochs = 2.5",
        "warmup_epochs = 3.0",
    ),
    ({"warmup_epochs": 3.0, "cooldown_steps": 9}, {"total_epochs": 5}, "cooldown_steps = 9", "warmup_epochs = 3.0"),
    ({"warmup_examples": 160, "cooldown_fraction": 0.6}, {"total_steps": 20}, "cooldown_fraction = 0.6", "= 160 are"),
    ({"cooldown_steps": 21}, {"total_steps": 20}, "cooldown_steps = 21", "is longer than the training"),
]


@pytest.mark.parametrize(("schedule", "length", "named", "told"), OVERLAP)
def test_a_warm_up_and_a_cooldown_that_overlap_are_refused(schedule, length, named, told, tmp_path):
    for said in refusals(resolve(stated(schedule, **length)), tmp_path / "run"):
        assert said.startswith(f"schedule.{named}: ")
        assert told in said
        assert "longer than the training" in said
        assert "optimizer.learning_rate = 0.01 is never reached" in said


def test_a_sweep_refuses_it_before_its_first_run(tmp_path):
    points = [
        Point(f"{steps}", {"schedule.warmup_steps": steps}, resolve(stated({"warmup_steps": steps}, total_steps=20)))
        for steps in (5, 20)
    ]
    with pytest.raises(UserError, match="warmup_steps = 20: is not shorter than the training"):
        sweep(points, tmp_path / "sweep", io.StringIO())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("schedule", "length"),
    [
        ({"warmup_steps": 19}, {"total_steps": 20}),
        ({"warmup_steps": 19}, {"total_epochs": 5}),
        ({"warmup_epochs": 4.99}, {"total_epochs": 5}),
        ({"warmup_examples": 16}, {"total_examples": 17}),
        ({"warmup_fraction": 0.1}, {"total_steps": 1}),  # rounded up to one step
        ({"warmup_steps": 15, "cooldown_steps": 5}, {"total_steps": 20}),  # the peak is reached once
        ({"warmup_fraction": 0.5, "cooldown_fraction": 0.5}, {"total_steps": 3}),
        ({"warmup_epochs": 1.5, "cooldown_fraction": 0.7}, {"total_epochs": 5}),
    ],
)
def test_a_shorter_one_is_taken(schedule, length, tmp_path):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        dry_run(resolve(stated(schedule, **length)), str(tmp_path / "run"))
    assert "is not shorter than" not in said.getvalue()


FILE = """
import striped


def get_config():
    schedule = dict(name="cosine", {schedule})
    length = {{"total_steps": None, **dict({length})}}
    return striped.config(**length, evaluate={{}}, checkpoint={{}}, schedule=schedule)
"""


def run_of(folder, length, schedule, *flags):
    (folder / "recipe.py").write_text(FILE.format(length=length, schedule=schedule))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["train", "--config", str(folder / "recipe.py"), "--dry-run", *(f"--config.{f}" for f in flags)])
    return code, out.getvalue(), err.getvalue()


BOTH = "warmup_steps=10, cooldown_steps=20"


@pytest.mark.parametrize(
    ("length", "schedule", "flag"),
    [
        ("total_epochs=10", "warmup_steps=10", "total_steps=10"),
        ("total_epochs=10", "warmup_steps=10", "total_epochs=2"),
        ("total_steps=40", "warmup_steps=10", "total_examples=100"),
        ("total_epochs=10", "warmup_steps=10", "data.batch_size=64"),
        ("total_examples=640", "warmup_steps=10", "data.batch_size=64"),
        ("total_steps=40", "warmup_epochs=5", "data.batch_size=4"),
        ("total_steps=40", "warmup_examples=160", "data.batch_size=4"),
        ("total_epochs=10", "warmup_steps=10", "data.split=train[:10%]"),
        ("total_epochs=2, min_steps=40", "warmup_steps=10", "min_steps=0"),
        ("total_steps=40", BOTH, "total_steps=20"),
        ("total_epochs=10", BOTH, "data.batch_size=32"),
    ],
)
def test_a_flag_that_shortens_the_training_to_try_a_recipe_is_only_warned_of(length, schedule, flag, tmp_path):
    code, said, error = run_of(tmp_path, length, schedule, flag)
    assert (code, error) == (0, "")
    told = "and the cooldown of 20 overlap in " if "cooldown" in schedule else "is not over at the end, step "
    assert "warning: the warm-up of " in said
    assert told in said


@pytest.mark.parametrize(
    ("length", "schedule", "flags"),
    [
        ("total_steps=40", "warmup_steps=10", ["schedule.warmup_steps=40"]),
        ("total_steps=40", "warmup_steps=10", ["total_steps=10", "schedule.warmup_steps=10"]),
        ("total_epochs=10", "warmup_steps=10", ["data.batch_size=64", "schedule.warmup_steps=10"]),
        ("total_steps=40", BOTH, ["schedule.cooldown_steps=31"]),
        ("total_steps=40", BOTH, ["total_steps=25", "schedule.warmup_steps=10"]),
        # these flags change nothing of how long the one is beside the other
        ("total_steps=40", "warmup_steps=40", ["data.batch_size=64"]),
        ("total_epochs=2", "warmup_epochs=2", ["data.batch_size=64"]),
        ("total_steps=40", "warmup_fraction=1.0", ["total_steps=10"]),
        ("total_epochs=2", "warmup_steps=10", ["data.workers=0"]),
    ],
)
def test_a_flag_that_makes_the_warm_up_too_long_is_refused(length, schedule, flags, tmp_path):
    code, _, error = run_of(tmp_path, length, schedule, *flags)
    assert code == 2
    assert error.startswith("vitzoo: schedule.")
    assert "is never reached; shorten the warm-up" in error


def test_a_shortened_run_goes_on_by_its_folder_alone(tmp_path):
    resolved = resolve(stated({"warmup_steps": 10}, total_steps=40), overrides={"total_steps": 10})
    (tmp_path / "config.json").write_text("{}")  # what a run leaves that has begun
    again = resolve(resolved.values)
    check_warmup(again, tmp_path)
    with pytest.raises(UserError):
        check_warmup(again, tmp_path / "new")


def test_what_decides_the_length_of_an_epoch_are_settings_that_there_are():
    known = set(settings(every_part()))
    assert all(any(name.startswith(one) for name in known) for one in COUNTED)
