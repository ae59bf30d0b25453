"""How often a run saves, by its config or without one."""

from types import SimpleNamespace

import jax
import pytest

from vitzoo.config.experiment import Checkpoint
from vitzoo.training import saving
from vitzoo.training.saving import Saving


def of(total_steps=1000, **settings):
    """A training in batches of 10 on 200 examples: 20 steps an epoch."""
    experiment = SimpleNamespace(checkpoint=Checkpoint(**settings), data=SimpleNamespace(batch_size=10))
    info = SimpleNamespace(n=200)
    return Saving(SimpleNamespace(resolved=SimpleNamespace(experiment=experiment), total_steps=total_steps, info=info))


def test_without_an_interval_a_tenth_of_the_training_or_ten_minutes_are_lost_at_most(monkeypatch):
    made = of(total_steps=1000)
    assert [step for step in range(1, 301) if made.due(step)] == [100, 200, 300]
    now = saving.time.monotonic()
    monkeypatch.setattr(saving.time, "monotonic", lambda: now + 601)
    assert made.due(301)
    made.done()
    assert not made.due(302)
    assert of(total_steps=3).due(1)


def test_several_processes_go_by_steps_alone_since_their_clocks_differ(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    made = of(total_steps=1000)
    monkeypatch.setattr(saving.time, "monotonic", lambda: 1e9)
    assert [step for step in range(1, 61) if made.due(step)] == [20, 40, 60]


def test_an_interval_of_the_config_is_kept_whatever_the_time(monkeypatch):
    made = of(every_epochs=2)
    monkeypatch.setattr(saving.time, "monotonic", lambda: 1e9)
    assert [step for step in range(1, 100) if made.due(step)] == [40, 80]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "every 100 steps, at least every 10 minutes and at the end; the newest 2 stay"),
        ({"every_steps": 1}, "every step and at the end; the newest 2 stay"),
        ({"every_epochs": 0.5, "keep": 1}, "every 0.5 epochs and at the end; the newest stays"),
        (
            {"every_steps": 500, "keep": 1, "keep_best": "val/loss"},
            "every 500 steps and at the end; the newest and the best by val/loss stay",
        ),
        ({"every_steps": 1000, "keep": 3}, "at the end only; the newest 3 stay"),
    ],
)
def test_how_often_is_said_in_words(settings, said):
    assert str(of(**settings)) == said
