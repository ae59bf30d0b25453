"""Intervals, the window of metrics, and the progress display."""

import io
import re
import time
from fractions import Fraction
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

from vitzoo.errors import RunError
from vitzoo.planning.topology import peak_flops
from vitzoo.planning.training_data import total_steps
from vitzoo.training.progress import Progress
from vitzoo.training.saving import due, period
from vitzoo.training.window import Window


def every(**interval):
    return period(SimpleNamespace(**interval), batch_size=7, examples=10)


def test_an_epoch_that_is_no_whole_number_of_steps_is_due_at_the_step_that_completes_it():
    # 10 examples in batches of 7: epochs end within the batches 2, 3, 5, 6, 8
    assert [step for step in range(1, 9) if due(step, every(every_epochs=1))] == [2, 3, 5, 6, 8]
    assert [step for step in range(1, 9) if due(step, every(every_steps=3))] == [3, 6]
    assert [step for step in range(1, 9) if due(step, every(every_examples=14))] == [2, 4, 6, 8]
    assert every(every_steps=None) is None
    assert not due(5, None)


def test_a_tenth_of_an_epoch_means_a_tenth_and_not_its_binary_neighbour():
    assert period(SimpleNamespace(every_epochs=0.1), batch_size=1, examples=30) == 3


@pytest.mark.parametrize(
    ("length", "steps"),
    [
        ({"total_steps": 5}, 5),
        ({"total_epochs": 2.0}, 3),
        ({"total_examples": 15}, 3),
        ({"total_epochs": 0.01}, 1),
        ({"total_epochs": 2.0, "min_steps": 50}, 50),
    ],
)
def test_a_training_has_as_many_steps_as_see_every_example(length, steps):
    # 2 epochs of 10 are 20 examples: ceil(20 / 7) = 3 batches of 7
    unset = {"total_steps": None, "total_epochs": None, "total_examples": None, "min_steps": 0}
    experiment = SimpleNamespace(**{**unset, **length}, data=SimpleNamespace(batch_size=7))
    assert total_steps(experiment, 10) == steps


def metrics(loss, rate=0.1, skipped=0):
    return {
        "loss": jnp.float32(loss),
        "grad_norm": jnp.float32(loss),
        "learning_rate": rate * jnp.ones(()),
        "skipped": jnp.int32(skipped),
    }


def test_a_line_holds_means_but_the_last_learning_rate_and_count():
    window = Window(stop=False)
    for step, loss in enumerate((1, 2, 6), 1):
        window.add(step, metrics(loss, rate=step))
    assert window.line() == {"loss": 3.0, "grad_norm": 3.0, "learning_rate": 3.0, "skipped": 0}


def test_a_step_that_is_not_finite_is_left_out_of_the_means():
    window = Window(stop=False)
    for step, loss in enumerate((1, float("inf"), 2), 1):
        window.add(step, metrics(loss, skipped=int(step >= 2)))
    line = window.line()
    assert (line["loss"], line["skipped"]) == (1.5, 1)


def test_what_is_not_yet_logged_travels_in_the_checkpoint():
    straight, interrupted = Window(stop=False), Window(stop=False)
    for step in range(4):
        straight.add(step, metrics(0.1 * step))
    for step in range(4):
        interrupted.add(step, metrics(0.1 * step))
        interrupted = Window(False, interrupted.saved())
    assert interrupted.line() == straight.line()


def test_a_step_that_is_not_finite_ends_a_run_that_asks_for_it_at_the_latest_before_a_save():
    window = Window(stop=True)
    window.add(1, metrics(1.0))
    window.add(2, metrics(float("nan")))
    with pytest.raises(RunError, match="step 2: loss nan"):
        window.saved()


def test_a_run_that_skips_bad_steps_ends_when_it_learns_nothing_any_more():
    window = Window(stop=False)
    for step in range(1, 100):
        window.add(step, metrics(float("nan")))
    window.add(100, metrics(1.0))  # one good step, and counting starts again
    for step in range(101, 200):
        window.add(step, metrics(float("nan")))
    window = Window(False, window.saved())
    window.add(200, metrics(float("inf")))
    with pytest.raises(RunError, match="step 200: 100 steps in a row were not finite"):
        window.settle()


def uncounted(counted=False):
    return metrics(0.0) | {"counted": jnp.asarray(counted)}


def test_a_run_in_which_nothing_ever_counts_ends_and_one_whose_first_batches_do_not_count_goes_on():
    window = Window(stop=False)
    for step in range(1, 10):
        window.add(step, uncounted())
        window.line()
        window = Window(False, window.saved())
    window.add(10, uncounted())
    with pytest.raises(RunError, match="step 10: nothing was learned, for nothing counts in any batch so far"):
        window.line()
    short = Window(stop=False)
    short.add(1, uncounted())
    with pytest.raises(RunError, match="step 1: nothing was learned"):
        short.line(last=True)
    late = Window(stop=False)
    for step in range(1, 40):
        late.add(step, uncounted(step == 12))
    assert late.line(last=True)["loss"] == 0
    assert "uncounted" not in late.saved()


def test_progress_elsewhere_than_on_a_terminal_is_plain_lines():
    out = io.StringIO()
    progress = Progress(0, 2, 8, out)
    progress.step(1)
    progress.step(2)
    progress.train_line(2, {"loss": 0.123456})
    progress.evaluation_line(2, "val", {"n": 5, "accuracy": 0.5})
    progress.close()
    compiling, first, second, time = out.getvalue().splitlines()
    assert compiling == "compiling the first step ..."
    assert first.startswith("step 2/2  loss 0.1235  ")
    assert "examples/s" in first
    assert second == "step 2  val  n 5  accuracy 0.5"
    assert time.startswith("time    ")
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
def test_progress_on_a_terminal_keeps_its_lines_above_a_bar_that_fits(columns, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = Progress(0, 1_000_000, 4096, out, utilisation=lambda rate: 0.5)
    progress.step(1)
    time.sleep(0.01)
    progress.step(2)
    progress.train_line(2, {"loss": 0.123456, **{f"metric_{number}": 0.5 for number in range(9)}})
    progress.say("half way")
    time.sleep(0.5)  # it is drawn four times a second
    progress.close()
    drawn = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()))
    bars = [line.rstrip() for line in drawn if "2/1000000" in line and "examples/s" in line]
    assert bars
    assert all(bar.endswith("left") and len(bar) <= 80 for bar in bars)
    assert any(line.startswith("step 2/1000000  loss 0.1235  metric_0 0.5") for line in drawn)
    assert "half way" in drawn


def test_utilisation_is_shown_where_a_peak_is_known():
    out = io.StringIO()
    progress = Progress(0, 4, 8, out, utilisation=lambda rate: 0.5)
    progress.step(1)
    progress.step(2)
    progress.train_line(4, {})
    assert "MFU 50.0%" in out.getvalue()


def test_peaks_go_by_the_longest_name_that_fits():
    # data sheets: H100 SXM 989 TFLOP/s, PCIe 756; A100 312; TPU v5e 197, v5p 459
    assert peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    assert peak_flops("NVIDIA H100 PCIe") == 756e12
    assert peak_flops("NVIDIA A100-SXM4-40GB") == 312e12
    assert peak_flops("TPU v5 lite") == 197e12
    assert peak_flops("TPU v5") == 459e12
    assert peak_flops("Some card") is None


def test_the_steps_between_two_times_may_be_a_fraction():
    assert every(every_epochs=1) == Fraction(10, 7)
