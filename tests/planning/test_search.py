"""The fastest setting that fits, and what is said where none does."""

import dataclasses
import re

import pytest

from vitzoo.config import resolve
from vitzoo.errors import UserError
from vitzoo.planning import search
from vitzoo.planning.estimate import Forecast
from vitzoo.planning.search import Fixed
from vitzoo.planning.topology import parse


def shrunk(forecast, capacity):
    """The same devices with less memory, of which formulas may fill nine tenths."""
    device = dataclasses.replace(forecast.topology.device, memory=capacity / 0.9, usable=1.0)
    return forecast.on(dataclasses.replace(forecast.topology, device=device))


def test_where_all_fits_nothing_is_recomputed_and_the_batch_stays_whole(forecast_of):
    every = search.ranked(forecast_of("gpt", "h100:8"), Fixed())
    best = every[0]
    assert (best.setting.remat, best.setting.accumulate) == ("none", 1)
    # a tiny model is bound by what is sent: 2 · 7/8 of the gradients over `data`, 3 · 7/8 of the kernels over `fsdp`
    assert best.bound == "interconnect"
    middle = lambda one: (max(one.seconds.values()) + sum(one.seconds.values())) / 2  # noqa: E731
    assert middle(best) <= min(map(middle, every)) * 1.005


def test_with_less_memory_the_fastest_of_those_that_fit_wins(forecast_of):
    forecast = forecast_of("gpt", "h100:8")
    every = search.ranked(forecast, Fixed())
    for capacity in (every[0].memory.peak - 1, sorted(one.memory.peak for one in every)[len(every) // 8]):
        tight = search.ranked(shrunk(forecast, capacity), Fixed())
        fitting = [one for one in every if one.memory.peak <= capacity]
        assert tight[0].setting == min(fitting, key=lambda one: one.order).setting
        assert sum(one.fits for one in tight) == len(fitting)


def test_every_setting_divides_devices_and_batch(forecast_of):
    forecast = forecast_of("gpt", "h100:8")  # 256 rows
    found = list(search.settings(forecast, Fixed()))
    assert len(found) == len(set(found))
    for setting in found:
        data, fsdp, tensor, sequence = setting.mesh
        assert (data * fsdp * tensor, sequence) == (8, 1)
        assert 256 % (data * fsdp * setting.accumulate) == 0
    meshes = {(8, 1, 1, 1), (4, 2, 1, 1), (2, 4, 1, 1), (1, 8, 1, 1)}
    assert {setting.mesh for setting in found if setting.mesh[2] == 1} == meshes


def test_what_the_config_states_stays(forecast_of):
    flags = ("mesh=data:2,fsdp:4", "remat=dots", "accumulate=2")
    fixed = search.fixed_by(resolve("gpt/adder", overrides=flags))
    assert fixed == Fixed("data:2,fsdp:4", "dots", 2)
    assert [one.setting.mesh for one in search.ranked(forecast_of("gpt", "h100:8"), fixed)] == [(2, 4, 1, 1)]
    assert search.fixed_by(resolve("gpt/adder", overrides=["mesh=auto"])) == Fixed()


def test_a_batch_that_does_not_divide_is_refused_with_the_nearest(draw):
    drawn = draw("vit", "gpu", "data.batch_size=129")
    with pytest.raises(UserError, match=r"data.batch_size = 129: does not divide over fsdp:8 .*nearest: 128, 136"):
        search.ranked(Forecast(drawn, parse("h100:8")), Fixed("fsdp:8"))
    with pytest.raises(UserError, match=r"mesh = fsdp:4: takes 4 devices, but h100:8 has 8"):
        search.ranked(Forecast(drawn, parse("h100:8")), Fixed("fsdp:4"))


@pytest.mark.parametrize(
    ("fixed", "share", "flag"),
    [
        (Fixed(accumulate=1, remat="none"), 0.5, "--config.accumulate="),
        (Fixed("data:8", "full", 1), 0.5, "--config.mesh="),  # accumulation is tried first, and isn't enough
    ],
)
def test_a_remedy_is_accepted(forecast_of, fixed, share, flag):
    forecast = forecast_of("gpt", "h100:8")
    every = search.ranked(forecast, fixed)
    least = min(one.memory.peak for one in every)
    open_least = min(one.memory.peak for one in search.ranked(forecast, Fixed()))
    tight = shrunk(forecast, open_least + share * (least - open_least))
    assert not search.ranked(tight, fixed)[0].fits
    found = search.nearest(tight, fixed)
    assert found.flags.startswith(flag)
    changes = dict(re.findall(r"--config\.(\w+)=(\S+)", found.flags))
    changes |= {"accumulate": int(changes["accumulate"])} if "accumulate" in changes else {}
    assert search.ranked(tight, dataclasses.replace(fixed, **changes))[0].fits


@pytest.mark.slow
def test_where_the_state_alone_is_too_large_more_devices_are_named(forecast_of):
    forecast = forecast_of("gpt/gpt2:1558M", "v5e:1x1")  # 12 bytes for each of 1.56e9 parameters in 15.75 GiB
    with pytest.raises(UserError) as refusal:
        raise search.refusal(forecast, Fixed(), search.ranked(forecast, Fixed())[0])
    assert refusal.value.field == "topology"
    named = re.search(r"nearest that fits: --topology (\S+)$", refusal.value.message)[1]
    assert search.ranked(forecast.on(parse(named)), Fixed())[0].fits
