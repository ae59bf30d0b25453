"""Where a run's time goes."""

import io
import itertools
import time

import pytest

from vitzoo.training import progress
from vitzoo.training.progress import LOST, Goodput, Progress


class Clock:
    """Seconds that pass when told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress.time, "perf_counter", made)
    return made


def test_every_second_is_in_one_part(clock):
    spent = Goodput()
    with spent.spending("evaluating"):
        clock.now += 1  # an evaluation before the first step
    clock.now += 2
    spent.compiled()
    clock.now += 14  # training
    with spent.spending("saving"):
        clock.now += 3
    assert spent.shares() == {"training": 0.7, "compiling": 0.1, "evaluating": 0.05, "saving": 0.15, "waiting": 0.0}
    assert str(spent) == "time    70.0 % training, 10.0 % compiling, 5.0 % evaluating, 15.0 % saving"


@pytest.mark.parametrize(("busy", "lost"), [(True, 0.0), (False, 0.75)])
def test_a_wait_for_data_is_lost_only_where_the_device_has_nothing_to_do(clock, busy, lost):
    def slow():
        for number in itertools.count():
            clock.now += 3
            yield number

    spent = Goodput()
    batches = spent.waiting(slow(), lambda: busy)
    for _ in range(4):
        next(batches)
        clock.now += 1
    assert spent.shares()["waiting"] == lost
    assert list(Goodput().waiting(iter([1, 2]), lambda: False)) == [1, 2]


def test_the_display_measures_and_says_it_once_at_the_end():
    out = io.StringIO()
    progress = Progress(0, 2, 8, out)
    time.sleep(0.01)
    progress.step(1)
    with progress.paused("saving"):
        time.sleep(0.01)
    progress.close()
    progress.close()
    assert out.getvalue().count("time    ") == 1
    shares = progress.goodput.shares()
    assert set(shares) == {"training", *LOST}
    assert shares["compiling"] > 0
    assert shares["saving"] > 0
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)


def test_a_run_that_never_began_says_nothing():
    out = io.StringIO()
    Progress(2, 2, 8, out).close()
    assert out.getvalue() == ""
