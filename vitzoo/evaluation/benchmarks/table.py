"""All benchmarks by name, and what a user's names stand for."""

from collections.abc import Sequence

from vitzoo.errors import UserError
from vitzoo.evaluation.benchmarks.images import IMAGES, measured_by
from vitzoo.evaluation.benchmarks.row import Benchmark
from vitzoo.evaluation.benchmarks.texts import TEXTS
from vitzoo.schema import nearest

BENCHMARKS: dict[str, Benchmark] = {row.name: row for row in (*IMAGES, *TEXTS)}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(row.group[0] for row in BENCHMARKS.values() if row.group[0]))


def asked_for(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks that names stand for, each once: a benchmark, a group of them, or NAME:EVALUATOR.

    Raises:
        UserError: there is no such; the nearest is named.
    """
    found: dict[str, Benchmark] = {}
    for name in names:
        base, colon, evaluator = name.partition(":")
        rows = [row for row in BENCHMARKS.values() if base and base in (row.name, row.group[0])]
        if not rows:
            raise UserError("--benchmark", name or "''", f"no such benchmark; {nearest(base, [*BENCHMARKS, *GROUPS])}")
        found |= {row.name: row for row in ([measured_by(row, evaluator) for row in rows] if colon else rows)}
    return list(found.values())
