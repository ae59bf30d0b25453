"""Where nothing fits: the setting nearest to what was asked that does."""

import dataclasses
from collections.abc import Iterator

from vitzoo.errors import UserError
from vitzoo.planning.estimate import Estimate, Forecast
from vitzoo.planning.search import Fixed, ranked
from vitzoo.planning.topology import Topology

LEAST_BATCH = 1


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change after which it fits.

    Attributes:
        flags: what to add to the command.
        estimate: what is then fastest.
    """

    flags: str
    estimate: Estimate


def nearest(forecast: Forecast, fixed: Fixed) -> Remedy | None:
    """The first of these that fits: what the config states left open, a smaller batch, more devices; None: nothing."""
    for candidate in (*_opened(forecast, fixed), *_smaller(forecast, fixed), *_larger(forecast, fixed)):
        if candidate is not None:
            return candidate
    return None


def refusal(forecast: Forecast, fixed: Fixed, least: Estimate) -> UserError:
    """What is said of a topology on which nothing fits.

    Args:
        least: the forecast that takes least memory.
    """
    gib = 2**30
    needs = f"needs {least.memory.peak / gib:,.1f} GiB a device at least, of {least.capacity / gib:,.1f}"
    how = f"with {least.setting.shown_mesh}, remat={least.setting.remat}, accumulate={least.setting.accumulate}"
    found = nearest(forecast, fixed)
    hint = "nothing larger of this kind would do" if found is None else f"nearest that fits: {found.flags}"
    return UserError("topology", str(forecast.topology), f"{needs} ({how}; formula); {hint}")


def _opened(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    """With what was stated of accumulation, of remat, of both, of the mesh left to the search."""
    for names in (("accumulate",), ("remat",), ("accumulate", "remat"), ("mesh",), ("mesh", "accumulate", "remat")):
        if any(getattr(fixed, name) is not None for name in names):
            best = _best(forecast, dataclasses.replace(fixed, **dict.fromkeys(names)))
            if best is not None:
                stated = [name for name in names if getattr(fixed, name) is not None]
                values = {"mesh": best.setting.shown_mesh, "remat": best.setting.remat}
                values["accumulate"] = str(best.setting.accumulate)
                yield Remedy(" ".join(f"--config.{name}={values[name]}" for name in stated), best)


def _smaller(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    size = forecast.blueprint.experiment.data.batch_size // 2
    while size >= LEAST_BATCH:
        best = _best(forecast.with_batch(size), fixed)
        if best is not None:
            yield Remedy(f"--config.data.batch_size={size}", best)
            return
        size //= 2


def _larger(forecast: Forecast, fixed: Fixed) -> Iterator[Remedy | None]:
    topology: Topology | None = forecast.topology.larger
    while topology is not None:
        best = _best(forecast.on(topology), dataclasses.replace(fixed, mesh=None))
        if best is not None:
            mesh = f" --config.mesh={best.setting.shown_mesh}" if fixed.mesh else ""
            yield Remedy(f"--topology {topology}{mesh}", best)
            return
        topology = topology.larger


def _best(forecast: Forecast, fixed: Fixed) -> Estimate | None:
    try:
        first = ranked(forecast, fixed)[0]
    except UserError:  # the batch doesn't divide
        return None
    return first if first.fits else None
