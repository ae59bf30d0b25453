"""What may differ when a run is resumed, and what may not."""

import pytest

from vitzoo.config import compare, resolve


@pytest.fixture
def values(write):
    return lambda *overrides: resolve(write(), overrides=overrides).values


# DESIGN, Config: mesh, platform, remat, scan, accumulate, data.dir, data.workers, data.prefetch, log.*, checkpoint.*,
# evaluate.* and profile are execution; every other setting is the run's meaning.
EXECUTION = {
    "mesh": "data:1",
    "platform": "cpu",
    "remat": "full",
    "scan": "false",
    "accumulate": "2",
    "data.dir": "/data",
    "data.workers": "2",
    "data.prefetch": "4",
    "log.every_steps": "7",
    "checkpoint.keep": "5",
    "evaluate.val.every_epochs": "2.0",
    "profile": "1:2",
}
MEANING = {
    "seed": "1",
    "total_epochs": "91.0",
    "model.depth": "3",
    "objective.label_smoothing": "0.2",
    "data.batch_size": "512",
    "data.split": "train",
    "inputs.image.crop_fraction": "0.875",
    "augment.flip": "true",
    "optimizer.learning_rate": "0.5",
    "schedule.warmup_steps": "3",
    "ema": "0.9",
    "precision": "bfloat16",
    "non_finite": "stop",
}


def test_execution_settings_may_differ(values):
    meaning, execution = compare(values(), values(*(f"{key}={value}" for key, value in EXECUTION.items())))
    assert meaning == {}
    assert set(execution) == set(EXECUTION)
    assert execution["evaluate.val.every_epochs"] == (1.0, 2.0)


def test_settings_of_meaning_are_named_with_both_values(values):
    meaning, execution = compare(values(), values(*(f"{key}={value}" for key, value in MEANING.items())))
    assert execution == {}
    assert set(meaning) == set(MEANING)
    assert meaning["optimizer.learning_rate"] == (0.001, 0.5)


def test_another_part_differs_by_name_and_by_what_one_of_the_two_lacks(values):
    meaning, _ = compare(values(), values("optimizer.name=sgd"))
    assert meaning["optimizer.name"] == ("adamw", "sgd")
    assert meaning["optimizer.beta2"] == (0.95, "unset")


def test_an_evaluator_may_be_added_or_left_out(values):
    added = values("evaluate.test.name=classification", "evaluate.test.split=test")
    meaning, execution = compare(values(), added)
    assert meaning == {}
    assert execution["evaluate.test.split"] == ("unset", "test")


def test_the_same_config_does_not_differ(values):
    assert compare(values(), values()) == ({}, {})


def test_data_that_have_moved_may_be_named_at_their_new_place(values):
    then = values("data.name=folder:/a/photos")
    for name, moved in (("folder:/b/photos", True), ("folder:/a/other", False), ("text:/b/photos", False)):
        meaning, execution = compare(then, values(f"data.name={name}"))
        assert (set(meaning), set(execution)) == ((set(), {"data.name"}) if moved else ({"data.name"}, set()))
