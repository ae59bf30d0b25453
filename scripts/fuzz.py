"""Fuzzes the command line: valid config flags, config files, JSON, CSV, images, weights and run folders are damaged at
random and given to a command, each in a process of its own. Whatever the damage, a command must end with one of the
promised exit codes and one line; this counts and prints tracebacks, "unexpected" lines, other exit codes (1 before work
began among them), cases of over 10 s and of over 4 GB. Exits 1 if it found any.

    python scripts/fuzz.py --cases 10000 --seed 0                  # all surfaces in turn
    python scripts/fuzz.py --surface csv --seconds 60
    python scripts/fuzz.py --seed 0 --only csv:123 --keep kept     # one case again, with all that it prints
"""

import argparse
import collections
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fuzzing import made, surfaces
from fuzzing.runner import Case, Limits, Outcome, run


def main() -> int:
    """Runs the cases and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="over all surfaces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surface", action="append", choices=surfaces.SURFACES, help="this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="starts no case after so long")
    parser.add_argument("--only", metavar="SURFACE:NUMBER", help="one case")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keeps the inputs of what was found there")
    parser.add_argument("--verbose", action="store_true", help="prints each case's last line")
    parser.add_argument("--workers", type=int, default=2, help="cases that run at once")
    arguments = parser.parse_args()
    if arguments.only and not re.fullmatch(rf"({'|'.join(surfaces.SURFACES)}):\d+", arguments.only):
        parser.error(f"--only {arguments.only}: must be SURFACE:NUMBER, of {', '.join(surfaces.SURFACES)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vitzoo-fuzz-", ignore_cleanup_errors=True) as temporary:
        base = Path(temporary).resolve()
        made.prepare_process(base)
        print(f"imported in {time.monotonic() - began:.0f} s", flush=True)
        _make_runs(base, made.make(base))
        print(f"the valid inputs were made in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        names = [arguments.only] if arguments.only else _names(arguments, began)
        cases = (surfaces.case(name, arguments.seed, base) for name in names)
        return _report(run(cases, base / "cases", arguments.workers), arguments, base, began)


def _names(arguments: argparse.Namespace, began: float) -> Iterator[str]:
    """The cases' names, the surfaces in turn, until there are enough or time is over."""
    chosen = arguments.surface or list(surfaces.SURFACES)
    for count in range(arguments.cases):
        if time.monotonic() - began > arguments.seconds:
            return
        yield f"{chosen[count % len(chosen)]}:{count // len(chosen)}"


def _make_runs(base: Path, runs: Mapping[str, Callable[[], int]]) -> None:
    """Makes the session's runs, in its folder."""

    def make(work: Callable[[], int]) -> Callable[[], int]:
        os.chdir(base)
        return work

    cases = [Case(name, partial(make, work)) for name, work in runs.items()]
    for outcome in run(cases, base / "made", len(cases), Limits(seconds=300)):
        if outcome.fault or outcome.code:
            raise SystemExit(f"the session's inputs could not be made:\n{outcome.said}")


def _report(outcomes: Iterator[Outcome], arguments: argparse.Namespace, base: Path, began: float) -> int:
    counts, faults, codes = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    slowest = 0.0
    for outcome in outcomes:
        surface = outcome.case.name.partition(":")[0]
        counts[surface] += 1
        codes[f"{surface} {outcome.code}"] += 1
        slowest = max(slowest, outcome.seconds)
        if arguments.verbose:
            last = outcome.said.rstrip().rpartition("\n")[2][:200]
            print(f"{outcome.case.name} {outcome.code} {outcome.seconds:.1f} s: {last}", flush=True)
        place = base / "cases" / outcome.case.name.replace(":", "-")
        if outcome.fault or arguments.only:
            faults[outcome.fault or "none"] += 1
            print(_told(outcome, arguments), flush=True)
            if arguments.keep:
                _keep(place, arguments.keep)
        _remove(place)
    print(f"{counts.total()} cases in {time.monotonic() - began:.0f} s, the longest {slowest:.1f} s")
    for surface, count in counts.items():
        shown = ", ".join(f"{code.split()[1]}: {n}" for code, n in sorted(codes.items()) if code.split()[0] == surface)
        print(f"  {surface:8} {count:5}  exit codes {shown}")
    print(f"found: {dict(faults) or 'nothing'}")
    return 1 if set(faults) - {"none"} else 0


def _told(outcome: Outcome, arguments: argparse.Namespace) -> str:
    """A line on what was found, with the command that shows it again; of one case all that it printed."""
    trace = re.search(r"\(the trace is in (\S+);", outcome.said)
    with contextlib.suppress(OSError):
        extra = Path(trace[1]).read_text() if trace else ""
    lines = [line for line in outcome.said.splitlines() if line.strip()]
    where = re.findall(r'File ".*?/vitzoo/([\w/]+\.py)", line (\d+)', extra if trace else outcome.said)
    seen = f" at {where[-1][0]}:{where[-1][1]}" if where else ""
    said = f"{outcome.seconds:.1f} s, {outcome.bytes / 2**30:.1f} GB" if outcome.fault in ("hang", "memory") else ""
    head = f"{outcome.fault or 'no fault'} (exit code {outcome.code}){seen} {said}"
    again = f"python scripts/fuzz.py --seed {arguments.seed} --only {outcome.case.name}"
    if arguments.only:
        return f"{outcome.said}\n{extra if trace else ''}\n{head}"
    return f"{again}\n  {head}\n  {lines[0][:300] if lines else ''}\n  {lines[-1][:300] if lines else ''}"


def _keep(place: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(place, keep / place.name, symlinks=True, dirs_exist_ok=True)
    with contextlib.suppress(OSError):
        shutil.copy(place.with_suffix(".txt"), keep)


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.with_suffix(".txt").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
