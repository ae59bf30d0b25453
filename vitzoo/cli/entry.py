"""Where every command begins and ends: its process is prepared, it is run, and whatever goes wrong is one line."""

import contextlib
import contextvars
import ctypes
import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from vitzoo.checkpoints.orbax import is_orbax_waiting
from vitzoo.cli.arguments import Parser, expand_flagfiles, set_platform, split_overrides
from vitzoo.cli.output import last_line, one_line
from vitzoo.errors import RunError, UserError, out_of_disk, out_of_memory
from vitzoo.parallel import cluster
from vitzoo.paths import current_folder, home
from vitzoo.registry import user_part_fault
from vitzoo.spelling import nearest
from vitzoo.staging import temporary_folder
from vitzoo.streams import for_people
from vitzoo.version import version

COMMANDS = {
    "train": "train or fine-tune a model from a config",
    "sweep": "train every combination of some settings' values",
    "eval": "measure a checkpoint on a dataset",
    "predict": "say what a checkpoint makes of images or texts",
    "generate": "write with a language model",
    "convert": "read published weights, or write them in another format",
    "average": "write the mean of a run's last checkpoints",
    "soup": "write the mean of several trainings of one model",
    "models": "list the models, their parameters and their cost",
    "configs": "list the configs, or what can be set in one",
    "plan": "forecast memory, time and money of a config on devices",
    "data": "prepare, check or show a dataset",
    "report": "compare runs on one page",
}
EXAMPLES = """\
examples:
  vitzoo train --config quickstart --workdir runs/quickstart
  vitzoo eval --checkpoint runs/quickstart
  vitzoo predict --checkpoint runs/quickstart photo.png
`vitzoo COMMAND --help` tells more; `vitzoo configs NAME` lists what --config.KEY=VALUE can change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        The exit code: 0 done, 1 failed after it had begun, 2 refused, 75 preempted and saved, 130 interrupted.
    """
    if argv is None:
        leave_on_sigterm(sys.argv[1:])
        keep_freed_memory()
    with for_people():
        # in a context of its own: which files say what the command is ends with it
        code = contextvars.copy_context().run(_main, list(sys.argv[1:] if argv is None else argv))
        if argv is None:
            cluster.end(code)
        if code == RunError.exit_code and argv is None and is_orbax_waiting():
            sys.stdout.flush()
            os._exit(code)  # Python would wait for those threads, for ten minutes
    return code


def _main(arguments: list[str]) -> int:
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        return run(arguments)
    except (UserError, RunError) as error:
        return _end(error, as_json, debug)
    except SystemExit as end:  # argparse has printed the help
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("vitzoo: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (`| head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        fault = user_part_fault(error)
        if fault is None:
            return _unexpected(error, debug, as_json)
        fault.__cause__ = error
        return _end(fault, as_json, debug)


def run(arguments: list[str]) -> int:
    """Parses the arguments and runs their command.

    Raises:
        UserError, RunError: as the command does.
    """
    arguments = expand_flagfiles(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"vitzoo {version()}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise UserError("command", name, f"no such command; {nearest(name, COMMANDS)}")
    return _command(name, rest)


def _command(name: str, arguments: list[str]) -> int:
    command = importlib.import_module(f"vitzoo.cli.{name}")
    parser = Parser(f"vitzoo {name}", COMMANDS[name], command.EXAMPLES)
    command.arguments(parser)
    rest, overrides = split_overrides(arguments)
    if overrides and not command.TAKES_CONFIG:
        raise UserError(f"--config.{overrides[0].partition('=')[0]}", None, f"`vitzoo {name}` takes no config settings")
    parsed = parser.parse(rest)
    parsed.overrides = overrides
    set_platform(overrides)
    if home() is None:  # else Matplotlib warns that it made a folder
        os.environ.setdefault("MPLCONFIGDIR", str(temporary_folder()))
    here = current_folder()
    if here not in sys.path:  # the user's own parts, `my_model:MyModel`, lie beside where vitzoo is run
        sys.path.append(here)
    try:
        result = command.run(parsed)
    except UserError as refusal:
        raise refusal if command.TAKES_CONFIG else parser.as_typed(refusal) from refusal.__cause__
    sys.stdout.flush()
    if parsed.json:
        print(last_line(result.values), flush=True)
    return result.exit_code


def _help() -> str:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    about = "Transformers for images and text: trained, evaluated and used from a config file."
    return f"usage: vitzoo COMMAND ...\n\n{about}\n\n{listed}\n\n{EXAMPLES}"


def _end(error: UserError | RunError, as_json: bool, debug: bool = False) -> int:
    with contextlib.suppress(RunError):
        sys.stdout.flush()
    if debug and error.__cause__ is not None:
        traceback.print_exception(error.__cause__)
    print(f"vitzoo: {one_line(error)}", file=sys.stderr, flush=True)
    if as_json:
        field, value = getattr(error, "field", None), getattr(error, "value", None)
        message = getattr(error, "message", None) or one_line(error)
        with contextlib.suppress(RunError):  # standard output can't be written to: standard error has said what matters
            print(last_line({"error": {"field": field, "value": value, "message": message}}), flush=True)
    return error.exit_code


def _unexpected(error: Exception, debug: bool, as_json: bool) -> int:
    """A fault that no one foresaw: one line all the same, and the trace where it can be read."""
    if failed := out_of_memory(error) or out_of_disk(error):
        return _end(failed, as_json, debug)
    if debug:
        traceback.print_exception(error)
        where = ""
    else:
        file = _kept_trace(error)
        where = f" (the trace is in {file}; --debug prints it)" if file else " (--debug prints the trace)"
    return _end(RunError(f"unexpected {type(error).__name__}: {one_line(error)}{where}"), as_json)


def _kept_trace(error: Exception) -> Path | None:
    """A file with the trace; None where no temporary file can be written, as on a full disk."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="vitzoo-", suffix=".txt")
    except OSError:
        return None
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        Path(name).unlink(missing_ok=True)
        return None
    return Path(name)


PREEMPTED = 75
TRAINS = ("train", "sweep")


def leave_on_sigterm(arguments: Sequence[str]) -> None:
    """Lets a command that trains exit with 75, and one line, where SIGTERM finds it outside the loop, which has its own
    way to end: launchers start it again. `vitzoo --help` and dry runs end as every program does.
    """
    if not arguments or arguments[0] not in TRAINS or "--dry-run" in arguments:
        return
    ours = os.getpid()

    def leave(number: int, frame: FrameType | None) -> None:
        if os.getpid() != ours:  # a process that we forked
            os._exit(128 + number)
        os.write(2, b"vitzoo: SIGTERM: ends at once; nothing was to be saved, and the same command goes on\n")
        os._exit(PREEMPTED)

    signal.signal(signal.SIGTERM, leave)


# mallopt(3)
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8
GROWTH = 2**28  # bytes by which the heap grows
ACCELERATORS = ("libtpu", "jax_plugins")  # the second is where plugins for GPUs and others register


def keep_freed_memory() -> bool:
    """Lets the process keep what it frees, in one heap, for the next step to use.

    XLA allocates the temporaries of a step on the CPU anew each time. glibc returns large blocks to the kernel as soon
    as they are free, and the kernel clears every page of the next ones: about a tenth of the time of
    `t5/translate`, whose logits are large, and little of models with small ones (`scripts/bench_allocator.py`). To be
    called before threads begin, which would have heaps of their own.

    Returns:
        Whether it is so now. Not with another C library, where MALLOC_... in the environment says what is wanted, or
        where a plugin for an accelerator is installed: there the step's memory isn't the host's, and threads that
        decode images are better off with heaps of their own.
    """
    if any(name.startswith("MALLOC_") for name in os.environ) or _may_accelerate():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {ARENA_MAX: 1, MMAP_MAX: 0, TRIM_THRESHOLD: -1, TOP_PAD: GROWTH}
    return all(mallopt(name, value) == 1 for name, value in settings.items())


def _may_accelerate() -> bool:
    """Whether JAX may find anything but the CPU."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return any(importlib.util.find_spec(name) for name in ACCELERATORS)
