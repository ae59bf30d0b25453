"""What is typed: flags by argparse, flag files as absl's, `--config.KEY=VALUE` kept as text for the config's schema.

Also the flags of commands that run as several processes, and running them so.
"""

import argparse
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from vitzoo.cli.output import Result
from vitzoo.errors import UserError
from vitzoo.limits import Limits, check_limits
from vitzoo.literals import FlagText
from vitzoo.overwriting import of_command
from vitzoo.parallel.cluster import cluster_of, joined
from vitzoo.paths import readable_path
from vitzoo.schema import convert
from vitzoo.spelling import misspelt, nearest, shell_flag

CONFIG_FLAG = re.compile(r"--(no)?config\.(.+)", re.DOTALL)


_NO_FLAG = "\0"  # no argument of a process holds it
"""Before what stands behind `--`: argparse takes it for no flag."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose faults are refusals that name the nearest flag.

    Args:
        prog: the command, `vitzoo train`.
        description: what it does.
        examples: shown at the end of its help.
    """

    def __init__(self, prog: str, description: str, examples: str):
        super().__init__(
            prog=prog,
            description=f"{description[0].upper()}{description[1:]}.",
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._typed: list[str] = []
        self.by_action: Mapping[str, Sequence[str]] = {}
        """Of a command with several actions, the flags that each takes: its help shows no others."""
        self.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        self.add_argument("--debug", action="store_true", help="print the whole trace of a fault")
        self.add_argument("--flagfile", metavar="FILE", help="read more flags from a file, one a line")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The flags and values, positional ones anywhere among the flags.

        Raises:
            UserError: what is unknown, missing or of the wrong kind.
        """
        for action in [argument for argument in arguments if argument in self.by_action][:1]:
            self._help_with(action)
        self._typed = list(arguments)
        if "--" in arguments:
            at = arguments.index("--")
            arguments = [*arguments[:at], *(_NO_FLAG + argument for argument in arguments[at + 1 :])]
        parsed, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            raise self._no_such(unknown)
        return parsed

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and action.nargs in (None, "+") and arg_strings == ["--"]:
            # of `--prompt=--`, which argparse takes for the end of the flags
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value if action.nargs is None else [value]
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        return super()._get_value(action, arg_string.removeprefix(_NO_FLAG))

    def _no_such(self, unknown: Sequence[str]) -> UserError:
        """Of an argument that the command hasn't, and what stands behind it."""
        flag, equals, value = unknown[0].partition("=")
        follows = unknown[1] if not equals and len(unknown) > 1 and not unknown[1].startswith("-") else ""
        hint = self._hint(flag, value or follows) if flag.startswith("-") else f"see {self.prog} --help"
        named = any(argument.partition("=")[0] == "--config" for argument in self._typed)
        if not (flag.startswith("-") or named) and "--config" in self._option_string_actions:
            hint = f"did you mean {shell_flag('--config', unknown[0])}?"
        return UserError(flag, None, f"no such argument of {self.prog}; {hint}")

    def _help_with(self, chosen: str) -> None:
        self.prog = f"{self.prog} {chosen}"
        others = {"action", *(flag for flags in self.by_action.values() for flag in flags)} - {*self.by_action[chosen]}
        for argument in self._actions:
            if argument.dest in others:
                argument.help = argparse.SUPPRESS

    def _hint(self, typed: str, value: str) -> str:
        """What may have been meant by a flag that there isn't: one of the command's own, or a setting of the config."""
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        own = [flag for flag in flags if not flag.endswith(".KEY")]
        settings = [flag.removesuffix("KEY") for flag in flags if flag.endswith(".KEY")]
        if not settings:
            return nearest(typed, own)
        if near := misspelt(typed, own):
            return f"did you mean {near}?"
        from vitzoo.config.fields import every_part, nearest_setting

        near = nearest_setting(typed, every_part())
        if near and f"--config.{near}".startswith(settings[0]):
            return f"did you mean {shell_flag(f'--config.{near}', value) if value else f'--config.{near}'}?"
        return f"settings are written {settings[0]}KEY=VALUE, and `vitzoo configs NAME` lists them"

    def as_typed(self, refusal: UserError) -> UserError:
        """The refusal with its field named as the flag that was given: `--platform`."""
        flag = f"--{refusal.field.replace('_', '-')}"
        known = any(flag in action.option_strings for action in self._actions)
        return UserError(flag, refusal.value, refusal.message) if known else refusal

    def error(self, message: str) -> NoReturn:
        """argparse's way to say that something is wrong."""
        named = re.fullmatch(r"argument ([^:]+): (.*)", message, re.DOTALL)
        missing = re.fullmatch(r"the following arguments are required: (.*)", message)
        if missing:
            # a flag that is missing may have been misspelt
            known = {flag for action in self._actions for flag in action.option_strings}
            for place, argument in enumerate(self._typed):
                if argument.startswith("--") and argument != "--" and argument.partition("=")[0] not in known:
                    raise self._no_such(self._typed[place:])
            raise UserError(missing[1], None, f"must be given; see {self.prog} --help")
        raise UserError(named[1] if named else self.prog, None, named[2] if named else message)


def typed(flag: str, annotation: Any, **limits: Any) -> Callable[[str], Any]:
    """A reader of a flag's text, by the rules that hold for config settings: `typed("--top", int, minimum=1)`."""

    def read(text: str) -> Any:
        value = convert(annotation, FlagText(text), flag)
        check_limits(Limits("", **limits), value, flag)
        return value

    return read


def expand_flagfiles(arguments: Sequence[str], within: Sequence[Path] = ()) -> list[str]:
    """The arguments with `--flagfile=FILE` replaced by the file's lines; empty lines and `#` or `//` comments aside.

    Args:
        arguments: as typed; what follows `--` is left alone.
        within: the flag files in which the arguments stand.

    Raises:
        UserError: a file can't be read, is no text, or names itself.
    """
    found: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*found, argument, *waiting]
        flag, equals, value = argument.partition("=")
        if flag != "--flagfile":
            found.append(argument)
            continue
        file = readable_path(flag, value if equals else waiting.pop(0) if waiting else "", pipe=True).resolve()
        if file in within:
            raise UserError(flag, file, "names itself, or a file that names it")
        of_command.set((*of_command.get(), file))
        found += expand_flagfiles(_flags_of(file), [*within, file])
    return found


def _flags_of(file: Path) -> list[str]:
    """The arguments that a flag file's lines are."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        what = "is a folder" if file.is_dir() else f"can't be read: {error.strerror}"
        raise UserError("--flagfile", file, what) from None
    except UnicodeDecodeError:
        raise UserError("--flagfile", file, "is not UTF-8 text") from None
    if "\0" in text:
        raise UserError("--flagfile", file, "holds a NUL character, which no flag has")
    found: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        # a line of a file is one argument, though `--workdir runs/x` is two
        spaced = re.fullmatch(r"(--[\w.-]+)\s+(\S.*)", line)
        if not line.startswith(("#", "//")):
            found += [spaced[1], spaced[2]] if spaced else [line]
    return found


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Ordinary arguments, and `--config.KEY=VALUE` (or `--config.KEY VALUE`, `--noconfig.KEY`) as `KEY=VALUE`."""
    rest: list[str] = []
    overrides: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*rest, argument, *waiting], overrides
        match = CONFIG_FLAG.fullmatch(argument)
        if not match:
            rest.append(argument)
        elif match[1]:
            overrides.append(f"{match[2]}=false")
        elif "=" in match[2]:
            overrides.append(match[2])
        else:
            follows = bool(waiting) and not waiting[0].startswith("--")
            overrides.append(f"{match[2]}={waiting.pop(0) if follows else 'true'}")
    return rest, overrides


def set_platform(overrides: Sequence[str]) -> None:
    """Tells JAX which platform is asked for before it is imported, so that it starts no other."""
    asked = [text.partition("=")[2] for text in overrides if text.startswith("platform=")]
    if asked and asked[-1] and "jax" not in sys.modules:
        os.environ["JAX_PLATFORMS"] = asked[-1]


Run = Callable[[argparse.Namespace], Result]


def add_process_flags(parser: Parser) -> None:
    """`--coordinator`, `--num-processes`, `--process-id`, `--distributed`."""
    parser.add_argument(
        "--coordinator", metavar="HOST:PORT", help="of several processes: where process 0 is to be reached"
    )
    parser.add_argument(
        "--num-processes", metavar="N", type=typed("--num-processes", int, minimum=1), help="how many they are"
    )
    parser.add_argument(
        "--process-id", metavar="I", type=typed("--process-id", int, minimum=0), help="which this is, from 0"
    )
    parser.add_argument(
        "--distributed",
        action=argparse.BooleanOptionalAction,
        help="one of several processes, which Slurm, Open MPI, a TPU slice or Kubernetes names (found by itself where "
        "srun, mpirun or a TPU slice on Kubernetes started several)",
    )


def runs_together(*, preemption: bool) -> Callable[[Run], Run]:
    """A command that runs with the other processes, where flags or environment name some.

    Args:
        preemption: SIGTERM asks the command for a checkpoint; else it ends the process.
    """

    def of(run: Run) -> Run:
        @functools.wraps(run)
        def started(args: argparse.Namespace) -> Result:
            cluster = cluster_of(args.coordinator, args.num_processes, args.process_id, args.distributed, os.environ)
            if cluster is None:
                return run(args)
            with joined(cluster, preemption=preemption):
                return run(args)

        return started

    return of
