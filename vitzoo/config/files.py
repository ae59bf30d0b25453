"""Config files: found by path or by name, run or read, and every fault in one told in one line with its place."""

import ast
import dataclasses
import difflib
import inspect
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from vitzoo import strict_json
from vitzoo.argument_types import checked
from vitzoo.config.defaults import NoSuchChoice, choices_asked
from vitzoo.config.experiment import Experiment
from vitzoo.errors import UserError, as_text
from vitzoo.overwriting import of_command
from vitzoo.paths import named_path

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "configs", PACKAGE.parent / "configs")
"""Where configs are found by name: inside the installed package, or beside it in a checkout."""

SECTIONS = tuple(field.name for field in dataclasses.fields(Experiment) if field.default is dataclasses.MISSING)
NEEDED = ("model", "objective", "data")
"""Sections that every run's config has."""
KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


@checked()
def load(config: str | Path, arg: str | None = None) -> Any:
    """What a config file's `get_config` returns, or the dict that a `config.json` holds.

    Args:
        config: a file, or a name in `configs/` such as `vit/imagenet`; either may end in `:ARG`.
        arg: passed to `get_config`, in place of `:ARG`.

    Raises:
        UserError: there is no such config, or it fails; its file and line are named.
    """
    path, given = find_config(config)
    arg = given if arg is None else arg
    of_command.set((*of_command.get(), path.absolute()))
    if path.suffix == ".json":
        if arg is not None:
            raise UserError("config", f"{config}", f"{path.name} takes no argument ({arg})")
        return read_object(path, "config")
    name = str(config) if given is None else str(config).removesuffix(f":{given}")
    return _run(path, arg, f"{name}:{arg}" if arg is not None else name)


def find_config(config: str | Path) -> tuple[Path, str | None]:
    """The file that a config's name or path stands for, and the text after its colon.

    Raises:
        UserError: there is none; the nearest name is given.
    """
    text = str(config)
    whole = _find(text)
    if whole:
        return whole, None
    name, colon, arg = text.partition(":")
    path = _find(name)
    if path is None:
        near = difflib.get_close_matches(name, [known for known, _ in named_configs()], 1, 0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError("config", text, f"no such file, and no config of that name; {hint}`vitzoo configs` lists them")
    return path, arg if colon else None


def _find(name: str) -> Path | None:
    if not name:
        return None
    candidates = [named_path("config", name)]
    if not candidates[0].is_absolute():
        candidates += [folder / f"{name.removesuffix('.py').removeprefix('configs/')}.py" for folder in FOLDERS]
    for path in candidates:
        try:
            if path.is_file():
                return path
        except OSError:  # a name too long for the file system
            continue
    return None


def named_configs() -> Iterator[tuple[str, Path]]:
    """Every config that can be named, and its file."""
    folder = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[0])
    for path in sorted(folder.rglob("*.py")):
        if not any(part.startswith("_") for part in path.relative_to(folder).parts):
            yield path.relative_to(folder).with_suffix("").as_posix(), path


def list_configs() -> list[tuple[str, str]]:
    """Every config that can be named, with the first line of its docstring."""
    return [(name, docstring(path).partition("\n")[0]) for name, path in named_configs()]


def docstring(path: Path) -> str:
    """What a config says of itself; it is not run."""
    try:
        return ast.get_docstring(ast.parse(path.read_text())) or ""
    except (SyntaxError, OSError, UnicodeDecodeError) as error:
        return f"(can't be read: {error})"


@dataclasses.dataclass(frozen=True)
class Argument:
    """What a config takes after its colon.

    Attributes:
        default: what it takes where none is given; None for a config that takes no argument, or always needs one.
        choices: the names it knows, for each part of the argument that it looks up; empty where it takes any text.
    """

    default: str | None = None
    choices: Sequence[Sequence[str]] = ()

    def __str__(self) -> str:
        if self.default is None:
            return ""
        if len(self.choices) == 1:
            others = [f":{name}" for name in self.choices[0] if name != self.default]
            return ", ".join([f":{self.default} (default)", *others])
        several = "; then ".join(", ".join(names) for names in self.choices)
        return f":{self.default} (default){f': {several}' if several else ', or another'}"


def argument_of(path: Path) -> Argument:
    """What a config takes after its colon; it is run with its default."""
    if path.suffix != ".py":
        return Argument()
    try:
        get_config = _get_config(path, str(path))
        given = [one.default for one in inspect.signature(get_config).parameters.values()]
        if not given or not isinstance(given[0], str):
            return Argument()
        with choices_asked() as choices:
            get_config()
        return Argument(given[0], choices)
    except (Exception, SystemExit):  # told when it is used
        return Argument()


def _run(path: Path, arg: str | None, shown: str) -> Any:
    try:
        get_config = _get_config(path, shown)
        if arg is not None and not inspect.signature(get_config).parameters:
            raise UserError("config", shown, f"its get_config takes no argument, so write it without :{arg}")
        config = get_config() if arg is None else get_config(arg)
    except NoSuchChoice as refusal:
        raise UserError("config", shown, refusal.message) from None
    except UserError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and what a library of the user's may raise
        given = f" (its argument was {arg!r})" if arg is not None else ""
        raise UserError("config", shown, f"{_place(error, path)}: {_said(error)}{given}") from error
    if not hasattr(type(config), "items"):
        raise UserError("config", shown, f"its get_config returns {type(config).__name__}, no config")
    return config


def _get_config(path: Path, shown: str) -> Callable[..., Any]:
    # not imported as a module: it leaves no __pycache__ beside the user's file and is read anew each time
    module = types.ModuleType(f"vitzoo_config_{path.stem}")
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    get_config = module.__dict__.get("get_config")
    if not callable(get_config):
        raise UserError("config", shown, "defines no function get_config")
    return get_config


def _place(error: BaseException, path: Path) -> str:
    """FILE:LINE of the config's own line that failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}:{error.lineno}"
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}:{frames[-1]}" if frames else path.name


def _said(error: BaseException) -> str:
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    if isinstance(error, SyntaxError):
        text = error.msg
    first = as_text(text).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def read_object(file: Path, field: str) -> dict[str, Any]:
    """The settings that a JSON file holds.

    Args:
        file: the file.
        field: what names it, for the message.

    Raises:
        FileNotFoundError: there is none.
        UserError: it can't be read, is no JSON, names a field twice, is nested too deeply, or holds no object.
    """
    try:
        values = strict_json.read(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(field, str(file), f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(values, dict):
        raise UserError(field, str(file), f"holds {_kind(values)}, where a JSON object of settings is right")
    return values


def read_kept(file: Path, field: str, needed: Collection[str] = NEEDED) -> dict[str, Any]:
    """The settings of a run's `config.json`.

    Args:
        file, field: as for `read_object`.
        needed: sections that must be there.

    Raises:
        FileNotFoundError: there is none.
        UserError: as `read_object`, a section is missing, or is no object.
    """
    values = read_object(file, field)
    for name in SECTIONS:
        if name not in values and name in needed:
            raise UserError(field, str(file), f"lacks the section {name!r}: it isn't as the run wrote it")
        if name in values and not isinstance(values[name], dict):
            message = f"its section {name!r} is {_kind(values[name])}, where an object of settings is right"
            raise UserError(field, str(file), message)
    return values


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "a number")
