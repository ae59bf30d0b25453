"""Runs cases, each in a process forked from this one, and judges how each ended."""

import contextlib
import dataclasses
import faulthandler
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

CODES = (0, 1, 2, 75, 130)
"""The exit codes that the command line promises; 1 only where work had begun."""
ESCAPED, BROKEN = 96, 97
"""Exit codes of a case whose command ended in an exception, and of one that could not be made: the fuzzer's fault."""
POLL = 0.005


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long and how large a case may become.

    Attributes:
        seconds: in which it ran or slept; what its threads waited for a processor that others hold doesn't count.
        bytes: resident memory.
    """

    seconds: float = 10.0
    bytes: int = 4 * 2**30


@dataclasses.dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: `SURFACE:NUMBER`.
        make: makes the inputs in the current folder, which is the case's own, and gives the command, which returns its
            exit code.
        may_fail: whether exit code 1 is right, given what was printed.
    """

    name: str
    make: Callable[[], Callable[[], int]]
    may_fail: Callable[[str], bool] = lambda said: False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes:
        fault: `traceback`, `unexpected`, `exit code`, `hang`, `memory`, `broken` (no case could be made), or "".
        code: the exit code; the signal's number, negative, where one ended it.
        said: all that it printed.
    """

    case: Case
    fault: str
    code: int
    seconds: float
    bytes: int
    said: str


@dataclasses.dataclass
class _Running:
    case: Case
    process: int
    output: Path
    began: float
    stopped: str = ""
    waited: dict[str, float] = dataclasses.field(default_factory=dict)


def run(cases: Iterable[Case], folder: Path, workers: int = 1, limits: Limits | None = None) -> Iterator[Outcome]:
    """The outcome of each case, as they end; `workers` of them run at once.

    Args:
        cases: taken one by one as there is room.
        folder: holds a folder for each case, and beside it what the case printed; both stay until the next is taken.
        workers: how many run at once.
        limits: of each case.
    """
    waiting, running, limits = iter(cases), list[_Running](), limits or Limits()
    try:
        while True:
            while len(running) < workers and (case := next(waiting, None)) is not None:
                running.append(_start(case, folder))
            if not running:
                return
            time.sleep(POLL)
            for one in list(running):
                if outcome := _look(one, limits):
                    running.remove(one)
                    yield outcome
    finally:
        for one in running:
            _kill(one)


def _start(case: Case, folder: Path) -> _Running:
    own = folder / case.name.replace(":", "-")
    own.mkdir(parents=True)
    output = own.with_suffix(".txt")
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if not process:
        _be(case, own, output)
    with contextlib.suppress(OSError):  # the child does it too: whoever is first
        os.setpgid(process, process)
    return _Running(case, process, output, time.monotonic())


def _be(case: Case, own: Path, output: Path) -> None:
    """The child's whole life."""
    code = BROKEN
    try:
        os.setpgid(0, 0)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "rw"[number > 0]) for number in range(3))
        faulthandler.register(signal.SIGUSR1, sys.stderr, all_threads=False)  # where a case that hangs is
        os.chdir(own)
        command = case.make()
        code = ESCAPED
        code = command()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _look(one: _Running, limits: Limits) -> Outcome | None:
    """The outcome of a case that has ended; one beyond its limits is ended."""
    process, status, used = os.wait4(one.process, os.WNOHANG)
    if not process:
        if not one.stopped:
            one.stopped = "memory" if resident(one.process) > limits.bytes else ""
            late = time.monotonic() - one.began > limits.seconds
            one.stopped = one.stopped or ("hang" if late and _spent(one) > limits.seconds else "")
            if one.stopped == "hang":
                with contextlib.suppress(OSError):
                    os.kill(one.process, signal.SIGUSR1)
                time.sleep(0.5)
            if one.stopped:
                _kill(one)
        return None
    _kill(one)  # whatever it started besides
    said = one.output.read_text(errors="replace") if one.output.exists() else ""  # it was ended before it began
    code = os.waitstatus_to_exitcode(status)
    peak = used.ru_maxrss * 1024
    fault = one.stopped or ("memory" if peak > limits.bytes else _judge(one.case, code, said))
    fault = "broken" if code == BROKEN else fault
    return Outcome(one.case, fault, code, time.monotonic() - one.began, peak, said)


def _judge(case: Case, code: int, said: str) -> str:
    if re.search(r"^\s*Traceback \(most recent call last\)", said, re.MULTILINE) or "Fatal Python error" in said:
        return "traceback"
    if re.search(r"^vitzoo: unexpected |\bpanicked at ", said, re.MULTILINE):
        return "unexpected"
    return "" if code in CODES and (code != 1 or case.may_fail(said)) else "exit code"


def _spent(one: _Running) -> float:
    """Seconds since it began, less those in which its threads waited for a processor."""
    for thread in Path(f"/proc/{one.process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):
            one.waited[thread.parent.name] = int(thread.read_text().split()[1]) / 1e9
    return time.monotonic() - one.began - sum(one.waited.values())


def resident(process: int) -> int:
    """Bytes of memory that a process holds."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def _kill(one: _Running) -> None:
    with contextlib.suppress(OSError):
        os.killpg(one.process, signal.SIGKILL)
