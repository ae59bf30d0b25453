import jax
import numpy as np
import optax
import pytest

from vitzoo.errors import UserError
from vitzoo.optim.schedules import Constant, Cosine, InverseSquareRoot, Linear
from vitzoo.schema import build


def rates(schedule, steps, total_steps=100, batch_size=10, examples_per_epoch=200, peak=1.0):
    rate = schedule.make(total_steps, batch_size, examples_per_epoch, peak)
    return [float(rate(step)) for step in steps]


def test_warmup_starts_at_zero_and_reaches_the_peak_at_its_end():
    assert rates(Constant(warmup_steps=4), [0, 1, 2, 4, 5, 99], peak=2.0) == [0.0, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_warmup_can_start_above_zero():
    assert rates(Constant(warmup_steps=4, initial_fraction=0.2), [0, 2, 4]) == pytest.approx([0.2, 0.6, 1.0])


def test_cosine_is_optax_warmup_cosine_decay():
    steps = [0, 5, 10, 11, 55, 99, 100]
    expected = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 10, 100, 3e-4)
    ours = rates(Cosine(warmup_steps=10, final_fraction=0.1), steps, peak=3e-3)
    np.testing.assert_allclose(ours, [float(expected(step)) for step in steps], rtol=1e-6)


def test_cosine_goes_from_rate_to_rate_as_deit_does():
    # Touvron et al. 2021: 1e-6 up to the peak, then a cosine down to 1e-5
    peak = 3e-3
    rate = Cosine(warmup_steps=10, initial_fraction=1e-6 / peak, final_fraction=1e-5 / peak).make(100, 1, 100, peak)
    expected = [1e-6, peak, (peak + 1e-5) / 2, 1e-5]
    np.testing.assert_allclose([rate(step) for step in (0, 10, 55, 100)], expected, rtol=1e-5)


def test_cosine_passes_half_the_peak_halfway_and_ends_at_zero():
    assert rates(Cosine(warmup_steps=20), [20, 60, 100]) == pytest.approx([1.0, 0.5, 0.0], abs=1e-7)


def test_linear_goes_straight_to_its_final_rate():
    assert rates(Linear(warmup_steps=20, final_fraction=0.2), [20, 60, 100]) == pytest.approx([1.0, 0.6, 0.2])


def test_rsqrt_falls_to_one_over_root_two_after_its_timescale():
    values = rates(InverseSquareRoot(warmup_steps=10, timescale=30), [10, 40, 99], total_steps=1000)
    assert values == pytest.approx([1.0, 2**-0.5, (1 + 89 / 30) ** -0.5])  # big_vision: 1/sqrt(1 + (step - warmup)/t)


def test_cooldown_multiplies_the_shape_by_a_line_to_zero():
    assert rates(Constant(cooldown_steps=10), [90, 95, 99, 100]) == pytest.approx([1.0, 0.5, 0.1, 0.0], abs=1e-7)
    plain, cooled = (rates(InverseSquareRoot(timescale=50, cooldown_steps=n), [95])[0] for n in (0, 10))
    assert cooled == pytest.approx(plain / 2)


@pytest.mark.parametrize(
    "duration", [{"warmup_epochs": 0.5}, {"warmup_examples": 100}, {"warmup_fraction": 0.1}, {"warmup_steps": 10}]
)
def test_durations_are_the_same_in_every_unit(duration):
    # 200 examples in batches of 10: an epoch is 20 steps; 10 % of 100 steps, 100 examples and half an epoch are 10
    assert rates(Constant(**duration), [0, 5, 10]) == pytest.approx([0.0, 0.5, 1.0])


def test_a_duration_in_two_units_is_refused():
    with pytest.raises(UserError, match=r"schedule.warmup_epochs = 1.0: warmup_steps is set too"):
        build(Cosine, {"warmup_steps": 3, "warmup_epochs": 1.0}, "schedule")


def test_a_trial_shorter_than_its_warmup_stays_in_the_warmup():
    assert rates(Cosine(warmup_steps=10_000), [0, 10, 19], total_steps=20) == pytest.approx([0.0, 0.001, 0.0019])


def test_the_step_is_an_argument_of_the_compiled_schedule():
    traced = []

    def count(step):
        traced.append(step)
        return Cosine(warmup_steps=3).make(10, 1, 10, 1.0)(step)

    compiled = jax.jit(count)
    assert [float(compiled(step)) for step in range(4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert len(traced) == 1


def test_rsqrt_is_the_schedule_of_the_transformer_of_2017_and_that_of_t5():
    # Vaswani et al. 2017, section 5.3, width 512: 512^-0.5 · min(step^-0.5, step · 4000^-1.5)
    steps = [1, 1000, 4000, 9000, 100_000]
    schedule = InverseSquareRoot(warmup_steps=4000, timescale=4000)
    made = np.array(rates(schedule, steps, total_steps=100_000)) * (512 * 4000) ** -0.5
    published = [512**-0.5 * min(step**-0.5, step * 4000**-1.5) for step in steps]
    np.testing.assert_allclose(made, published, rtol=1e-5)
    # Raffel et al. 2020, section 3.1.2: 1/sqrt(max(step, 10^4))
    schedule = InverseSquareRoot(warmup_steps=10_000, initial_fraction=1.0, timescale=10_000)
    made = np.array(rates(schedule, [0, 9_999, 10_000, 40_000], total_steps=2**19)) * 1e-2
    np.testing.assert_allclose(made, [1e-2, 1e-2, 1e-2, 5e-3], rtol=1e-5)
