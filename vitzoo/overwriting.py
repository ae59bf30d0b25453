"""What an output must not take the place of: what the command itself reads, a run's own files, a checkpoint."""

import contextlib
import contextvars
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vitzoo import strict_json
from vitzoo.errors import UserError
from vitzoo.paths import contents, expanded
from vitzoo.strict_json import JSON
from vitzoo.version import SOFTWARE

if TYPE_CHECKING:
    from PIL import Image

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg")
"""Images that commands write, and that are examples where a folder of images is read."""
_SOFTWARE_TAG = 0x0131  # of EXIF
JSON_LINES = (".jsonl", ".ndjson", ".json")
"""Of a folder of JSON lines, which may hold no others."""
CHECKPOINT_FILES = ("manifest.json", "model.json")
"""What a checkpoint's folder holds."""
KINDS = ("folder", "csv", "text", "jsonl")
"""What stands before the path in `data.name`."""
PREPARED = ("dataset_info.json", "features.json")
"""What lies beside the files of a prepared dataset."""
RUN_FOLDERS = ("checkpoints", "assets", "eval", "profile")
RUN_FILES = re.compile(
    r"config([.]before-\d+)?[.]json|provenance[.]json|metrics([.]lost)?[.]jsonl|curves[.]png|[.]lock|events[.]out[.].*"
)
"""What a run writes in its folder."""
of_command: contextvars.ContextVar[tuple[Path, ...]] = contextvars.ContextVar("of_command", default=())
"""Files that say what the command is: flag files, and the config's own."""


@dataclasses.dataclass(frozen=True)
class Reads:
    """What a command reads.

    Attributes:
        named: as the user names it: files, folders, `KIND:PATH`, `RUN@STEP`, `PATH:part`; whatever else is no path.
        weights: checkpoints; of a folder of published weights every file is read, of a run what it was trained on too.
        prepared: folders of prepared datasets, `data.dir`.
    """

    named: Sequence[str | os.PathLike[str]] = ()
    weights: Sequence[str | os.PathLike[str]] = ()
    prepared: Sequence[str | os.PathLike[str]] = ()

    @classmethod
    def of(cls, values: JSON, weights: Sequence[str | os.PathLike[str]] = ()) -> "Reads":
        """What a config's values and checkpoints name."""
        return cls(list(texts_in(values)), weights, list(texts_in(values, "dir")))

    def whole(self) -> "Reads":
        """With the command's own files, and what the checkpoints' runs were trained and measured on."""
        found = Reads((*self.named, *of_command.get()), self.weights, self.prepared)
        folders = dict.fromkeys(
            one for name in self.weights for path in _paths(name) for one in (path, *path.absolute().parents[:2])
        )
        for folder in folders:
            file = folder / ("config.json" if _is_run(folder) else "model.json")
            try:
                values = strict_json.read(file) if _is_run(folder) or _is_checkpoint(folder) else {}
                own = Reads.of(values)
            except (OSError, ValueError):  # the command says so
                continue
            found = Reads((*found.named, *own.named), self.weights, (*found.prepared, *own.prepared))
        return found


def texts_in(values: JSON, key: str = "") -> Iterator[str]:
    """Every text in nested settings, those that name what is read among them; or only those called `key`."""
    if isinstance(values, str):
        if not key:
            yield values
    elif isinstance(values, Mapping):
        for name, value in values.items():
            yield from texts_in(value, "" if name == key and isinstance(value, str) else key)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from texts_in(value, key)


def check_replaces_nothing(flag: str, path: str | os.PathLike[str], file: Path, reads: Reads) -> None:
    """Refuses a file to be written in the place of another that is needed.

    Args:
        flag, path: the setting that names it, and how.
        file: it.
        reads: what the command reads.

    Raises:
        UserError: it is, by any link, a file that is read, also one in a folder of data or that a table lists; it would
            be an example of a folder that is read; it lies in a checkpoint; it is one of a run's own files; or it is a
            picture of another's.
    """
    _check_is_not_read(flag, path, file, reads.whole())
    check_spoils_no_run(flag, path, file)
    _check_is_own_picture(flag, path, file)


def check_files_in(flag: str, folder: Path, names: Iterable[str], reads: Reads) -> None:
    """Refuses files to be written in a folder as `check_replaces_nothing` does; what lies in a run, as its evaluations
    do, may be replaced.
    """
    whole = reads.whole()
    for file in (folder / name for name in names):
        if not os.path.lexists(file):
            continue
        is_link = Path(os.path.realpath(file)) != Path(os.path.realpath(folder)) / file.name
        own = not is_link and any(map(_is_run, file.absolute().parents))
        _check_is_not_read(flag, file, file, whole, not own)
        if not own:
            _check_is_own_picture(flag, file, file)
        if is_link:
            check_spoils_no_run(flag, file, file)


def check_apart(*outputs: tuple[str, Path | None]) -> None:
    """Refuses two outputs of a command that are one file, or of which one is a folder above the other.

    Args:
        outputs: of each the setting that names it, and the file; None where there is none.
    """
    given = [(flag, file) for flag, file in outputs if file is not None]
    for place, (flag, file) in enumerate(given):
        for other_flag, other in given[:place]:
            here, there = Path(os.path.realpath(file)), Path(os.path.realpath(other))
            if _is_same(file, other) or here.is_relative_to(there) or there.is_relative_to(here):
                raise UserError(flag, str(file), f"is written by {other_flag} too ({other}); name another file")


def _check_is_not_read(
    flag: str, path: str | os.PathLike[str], file: Path, reads: Reads, in_folders: bool = True
) -> None:
    for name in (*reads.named, *reads.weights):
        for one in _paths(name):
            if one.is_file() and _is_same(one, file):
                raise UserError(flag, str(path), f"is {name}, which is read; name another file")
    for name in reads.named:
        kind = str(name).partition(":")[0]
        if kind == "jsonl" and file.suffix.lower() in JSON_LINES:
            if any(_is_same(folder, file.parent) for folder in _paths(name)):
                message = f"lies in {name}, which is read: what is written there would be part of it"
                raise UserError(flag, str(path), f"{message}; name another place")
        elif in_folders and file.suffix.lower() in IMAGE_ENDINGS:
            _check_not_below(flag, path, file, name)
        for one in _paths(name) if kind in KINDS and file.exists() else ():
            if (in_folders and _holds(one, file)) or (kind == "csv" and one.is_file() and _lists(one, file)):
                raise UserError(flag, str(path), f"is one of the files of {name}, which is read; name another file")
    for name in reads.weights if in_folders and file.exists() else ():
        for folder in _paths(name):
            if any(_is_same(one, file) for one in _files_of(folder)):
                raise UserError(flag, str(path), f"is one of the files of {name}, which is read; name another file")
    for name in reads.prepared if in_folders and file.exists() else ():
        for folder in _paths(name):
            if any(_holds(one, file) for one in _datasets(folder, reads.named)) or _is_directly_in(file, folder):
                raise UserError(flag, str(path), f"lies in {name}, which is read; name another file")


def _check_is_own_picture(flag: str, path: str | os.PathLike[str], file: Path) -> None:
    """Refuses a picture that is there and was not made here: a photo, whose place a picture of ours would take."""
    if file.suffix.lower() in IMAGE_ENDINGS and file.is_file() and not _is_own_picture(file):
        raise UserError(flag, str(path), f"is there, and no picture that {SOFTWARE} made; name another file")


def _is_own_picture(file: Path) -> bool:
    from PIL import Image

    with contextlib.suppress(Exception), Image.open(file, formats=("PNG", "JPEG")) as picture:
        return SOFTWARE in (picture.info.get("Software"), picture.getexif().get(_SOFTWARE_TAG))
    return False


def save_picture(picture: "Image.Image", file: Path) -> None:
    """Writes a PIL image as .png or .jpg that says it is ours, and may be replaced.

    Raises:
        OSError: it can't be written.
    """
    marks = picture.getexif()
    marks[_SOFTWARE_TAG] = SOFTWARE
    picture.save(file, exif=marks)


def check_holds_no_images(flag: str, path: str | os.PathLike[str], folder: Path) -> None:
    """Refuses a folder to be filled with pictures and tables that holds others' images, by themselves or in folders of
    classes: what is written there would be examples of them.

    Raises:
        UserError: it holds some.
    """
    for file in (*folder.glob("*"), *folder.glob("*/*")):
        if file.suffix.lower() in IMAGE_ENDINGS and file.is_file() and not _is_own_picture(file):
            message = f"holds images ({file.relative_to(folder)}), among which what is written would be taken for one"
            raise UserError(flag, str(path), f"{message}; name a folder of its own")


def check_stays_outside(flag: str, path: str | os.PathLike[str], folder: Path, reads: Reads) -> None:
    """Refuses a folder to be filled within a checkpoint, or within a folder whose images are read.

    Raises:
        UserError: it lies there.
    """
    check_spoils_no_run(flag, path, folder)
    for name in reads.named:
        if str(name).startswith("folder:"):
            _check_not_below(flag, path, folder, name)


def check_is_none_of(flag: str, path: str | os.PathLike[str] | None, file: Path, files: Iterable[str]) -> None:
    """Refuses a file to be written that is one of those a dataset lists."""
    if file.exists():
        for one in files:
            if _is_same(Path(one), file):
                raise UserError(flag, str(path), f"is {one}, one of the files that are read; name another file")


def check_spoils_no_run(flag: str, path: str | os.PathLike[str], output: Path) -> None:
    """Refuses what would lie within a checkpoint, or among a run's checkpoints, or replace one of a run's own files.

    Raises:
        UserError: it would.
    """
    for start in dict.fromkeys((output.absolute(), Path(os.path.realpath(output)))):
        for above in (start, *start.parents):
            if _is_checkpoint(above):
                raise UserError(flag, str(path), f"lies in the checkpoint {above}; name another place")
            if above.name == "checkpoints" and _holds_steps(above):
                message = f"lies among the checkpoints of the run {above.parent}; name another folder"
                raise UserError(flag, str(path), message)
        for run in start.parents if start.is_file() else ():
            first, *below = start.relative_to(run).parts
            own = first in RUN_FOLDERS if below else RUN_FILES.fullmatch(first)
            if own and _is_run(run):
                raise UserError(flag, str(path), f"is a file of the run {run}; name another")


def _check_not_below(flag: str, path: str | os.PathLike[str], output: Path, name: str | os.PathLike[str]) -> None:
    real = Path(os.path.realpath(output))
    for folder in _paths(name):
        if folder.is_dir() and real.is_relative_to(os.path.realpath(folder)):
            message = f"lies in {folder}, whose images are read: what is written there would be one of them"
            raise UserError(flag, str(path), f"{message}; name another place")


def _paths(name: str | os.PathLike[str]) -> list[Path]:
    """The paths that a name may stand for: PATH, KIND:PATH, PATH:part, RUN@STEP."""
    if not isinstance(name, str | os.PathLike):
        return []
    text = os.fsdecode(name)
    kind, _, rest = text.partition(":")
    texts = [rest] if kind in KINDS else [text, rest, text.rpartition(":")[0], text.rpartition("@")[0]]
    found = []
    for one in dict.fromkeys(filter(None, texts)):
        try:
            path = expanded(one)
            found += [path] if path.exists() else []
        except (OSError, ValueError, RuntimeError):  # no path
            continue
    return found


def _holds(folder: Path, file: Path) -> bool:
    """Whether a file lies below a folder, by links of both kinds too."""
    real, number = Path(os.path.realpath(file)), file.stat()
    if not folder.is_dir():
        return False
    if real.is_relative_to(os.path.realpath(folder)):
        return True
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                target = Path(os.path.realpath(entry.path))
                if target == real or (target.is_dir() and real.is_relative_to(target)):
                    return True
            elif entry.is_dir():
                waiting.append(Path(entry.path))
            elif number.st_nlink > 1 and entry.inode() == number.st_ino and _is_same(Path(entry.path), file):
                return True
    return False


def _lists(table: Path, file: Path) -> bool:
    """Whether a table of files names a file, in whichever column; separators are those that tables have."""
    name = Path(os.path.realpath(file)).name
    try:
        lines = contents(table).decode("utf-8-sig", errors="replace").splitlines()
    except OSError:
        return False
    cells = (cell.strip(' "') for line in lines if name in line for cell in re.split("[,;\t]", line))
    return any(_is_same(table.parent / expanded(cell), file) for cell in cells if name in cell)


def _datasets(folder: Path, named: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    """The datasets in a folder of prepared ones: it may be one itself; one may be named and hold what it likes."""
    if any((folder / name).exists() for name in PREPARED):
        yield folder
    for one in folder.iterdir() if folder.is_dir() else ():
        is_one = one.name in {str(name).partition("/")[0] for name in named}
        if is_one or any(next(one.glob(f"{depth}{name}"), None) for depth in ("", "*/", "*/*/") for name in PREPARED):
            yield one


def _is_directly_in(file: Path, folder: Path) -> bool:
    """Whether a folder holds a file; not asked of the current folder and those above it, which hold other things."""
    real = Path(os.path.realpath(folder))
    return Path(os.path.realpath(file)).parent == real and not Path.cwd().is_relative_to(real)


def _files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else iter(())


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are one file: by links of both kinds, or in another case where the system knows none."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one isn't there
        return False


def _is_checkpoint(folder: Path) -> bool:
    return all((folder / name).is_file() for name in CHECKPOINT_FILES)


def _holds_steps(folder: Path) -> bool:
    steps = [one for one in folder.iterdir() if one.name.isdecimal()] if folder.is_dir() else []
    return any((one / CHECKPOINT_FILES[0]).exists() for one in steps)


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(
        (folder / name).exists() for name in ("provenance.json", "metrics.jsonl", "checkpoints")
    )
