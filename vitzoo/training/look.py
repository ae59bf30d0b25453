"""A run's folder as a training would find it, looked at without a trace: for a dry run."""

import dataclasses
from pathlib import Path

from vitzoo.checkpoints.store import Store
from vitzoo.config import Resolved
from vitzoo.config.comparison import Differences
from vitzoo.training import lock, run_folder, start


@dataclasses.dataclass(frozen=True)
class There:
    """What a training would find.

    Attributes:
        store: the run's checkpoints.
        found: the step it would resume from; None for a new run.
        finished: whether nothing is left to do.
        differences: the execution settings that would change.
    """

    store: Store
    found: int | None
    finished: bool
    differences: Differences


def look(workdir: Path, resolved: Resolved) -> There:
    """What is in the folder of a run, or of one that is to begin.

    Raises:
        UserError: as a training in that folder would.
    """
    lock.check_usable(workdir)
    differences = run_folder.check_config(workdir, resolved.values)
    store = Store(workdir / "checkpoints", resolved.experiment.checkpoint.keep)
    found = store.look().step
    return There(store, found, start.is_finished(resolved, store, found), differences)
