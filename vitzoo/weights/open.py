"""CKPT, what a user writes for weights: a run or checkpoint of vitzoo's, or published weights in the place of one, with
the same description, the same parameters and the same uses."""

import dataclasses
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from vitzoo.checkpoints.arrays import read_params
from vitzoo.checkpoints.locate import Located, locate, published_weights
from vitzoo.checkpoints.manifest import MANIFEST
from vitzoo.checkpoints.metadata import describe
from vitzoo.checkpoints.steps import CHECKPOINTS
from vitzoo.config.model import config_class_of
from vitzoo.data.processors.image import described_images, for_channels
from vitzoo.data.processors.text import described_text
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.models.geometry import image_shape
from vitzoo.models.text import text_config
from vitzoo.nn.paths import unflatten
from vitzoo.nn.state import HostParams
from vitzoo.paths import named_path, readable_path
from vitzoo.schema import build, convert_fields, to_json
from vitzoo.spelling import nearest, shared_note
from vitzoo.staging import temporary_folder
from vitzoo.strict_json import JSON
from vitzoo.version import version
from vitzoo.weights import catalogue
from vitzoo.weights.files.open import is_published, open_weights_file
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats.registry import FORMATS, Format, Given, Reading, check_format, find_format, recognise
from vitzoo.weights.mapping import read_mapping
from vitzoo.weights.model import Part, part_of
from vitzoo.weights.tokenizers import stated_ends


@dataclasses.dataclass(frozen=True)
class Published(Located):
    """Published weights, recognised; their arrays are read when asked for.

    `folder` holds `assets/` with the tokenizer, as a checkpoint's does; `step` is 0.

    Attributes:
        source: the file.
        reading: what its names, shapes and config say.
        form: the format's name.
    """

    source: Weights
    reading: Reading
    form: str

    def params(self) -> tuple[HostParams, list[str]]:
        """Nested parameters, and lines for the report.

        Raises:
            UserError: arrays are missing, left over, of another shape than the model's, or not of finite numbers.
        """
        reading, source = self.reading, self.source
        flat, ignored = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name, reading.shapes)
        shared = shared_note(reading.classes or (), "classes")
        return unflatten(flat), [f"format  {self.form}", *source.notes, *reading.notes, *shared, *ignored]


def open_published(name: str, given: Mapping[str, JSON] | None = None, form: str = "", place: str = "") -> Published:
    """Published weights by path.

    Args:
        name: `FILE`, `FOLDER`, or either with `:subtree`; or another name, which `place` is the path of.
        given: settings of the model, for what can't be known from the files; what they say counts before it.
        form: the format's name; recognised where none is given.
        place: where they are, if the name doesn't say it.

    Raises:
        UserError: they can't be read, are of no known format, or something must be given (named).
    """
    if form and form not in FORMATS:
        raise UserError("--source-format", form, f"is none that is read; {nearest(form, FORMATS)}")
    source = open_weights_file(name, place)
    reader = find_format(form) if form else recognise(source)
    if form:
        check_format(source, reader)
    if (asked := (given or {}).get("name", reader.model)) != reader.model:
        raise UserError("model.name", asked, f"{source.name} holds {reader.model}; leave it out")
    stated = {key: value for key, value in (given or {}).items() if key not in ("name", "variant")}
    reading = _read(reader, source, cast(Given, convert_fields(config_class_of(reader.model), stated, "model")))
    config, folder = reading.config, source.folder
    if hasattr(config, "image_size"):
        inputs = {"image": _of_images(config, reading)}
    else:
        if reading.tokenizer is None:
            raise source.refused(
                "is a model of text without its tokenizer: put tokenizer.json (or vocab.txt, vocab.json with "
                f"merges.txt, spiece.model) into {source.folder}"
            )
        vocabulary_size = text_config(config).vocabulary_size
        assert vocabulary_size is not None  # the file says it
        folder = _scratch()
        ends = stated_ends(source, vocabulary_size)
        if ends == reading.tokenizer.end_ids:
            ends = ()
        tokenizer = reading.tokenizer.ending_with(ends).save(folder / "assets")
        inputs = {"tokens": described_text(build(Text, dict(reading.preprocessing), "inputs.tokens"), tokenizer)}
    description = describe(
        version=version(),
        model={"name": reading.model["name"], "variant": "", **to_json(config)},
        objective=dict(reading.objective),
        classes=None if reading.classes is None else list(reading.classes),
        data={"name": name, "split": "", "fingerprint": ""},
        step=0,
        examples=0,
        inputs=inputs,
    )
    return Published(folder, 0, None, description, source, reading, reader.name)


def _read(reader: Format, source: Weights, given: Given) -> Reading:
    """What a file holds; files are damaged in more ways than a format can look for."""
    try:
        return reader.read(source, given)
    except UserError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        text = f"isn't of the format {reader.name}: an array or a setting beside it is of another kind ({error})"
        raise source.refused(text) from None


def _of_images(config: Any, reading: Reading) -> dict[str, Any]:
    height, width, channels = image_shape(config)
    own = build(Preprocessing, dict(reading.preprocessing), "inputs.image")
    return described_images(for_channels(own, channels), (height, width), channels)


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(dir=temporary_folder()))


def open_weights(checkpoint: str | Path, given: Mapping[str, JSON] | None = None, form: str = "") -> Located:
    """Weights by name, found and checked; their arrays are read by `read_weights`.

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP`, a checkpoint's folder, or a part of one of these, `RUN:encoder`; a
            file or folder of published weights, or their name: on the hub (`org/name`, `org/name@REVISION`) or in the
            catalogue. A path that is there is taken as such.
        given: settings of the model, for what can't be known from published files.
        form: the format of published weights, where it isn't to be recognised.

    Raises:
        UserError: there is nothing there, it is damaged, or of no known kind.
    """
    text = str(checkpoint)
    path = _path(text)
    ours = _is_own(path)
    if ours and form:
        raise UserError(
            "--source-format", form, f"{text} is a run of vitzoo's, which is of no such format; leave it out"
        )
    if not path.exists() and (whole := _whole(text)):
        return part_of(locate(whole), text.rpartition(":")[2], text)
    if text and not ours and is_published(text):
        return open_published(text, given, form)
    if not path.exists() and (place := catalogue.path_of(text)) is not None:
        return open_published(text, given, form, place)
    try:
        return locate(checkpoint)
    except UserError as refusal:
        if (name := catalogue.meant(text)) is None or path.exists():
            raise
        raise UserError(refusal.field, refusal.value, f"{refusal.message}; did you mean {name}?") from None


def locate_own(checkpoint: str | Path) -> Located:
    """As `open_weights`, of vitzoo's own checkpoints only.

    Raises:
        UserError: there is none, it is damaged, or they are published weights or a part of a checkpoint.
    """
    text = str(checkpoint)
    path = _path(text)
    if text.strip() and not _is_own(path):
        if not path.exists() and _whole(text):
            convert = f"`vitzoo convert {shlex.quote(text)} NEW_FOLDER --format vitzoo`"
            message = f"is a part of a checkpoint, and a whole one is needed; {convert} makes one"
            raise UserError("checkpoint", text, message)
        if is_published(text):
            raise UserError("checkpoint", text, published_weights(text, "holds"))
        if not path.exists() and catalogue.find(text.partition("@")[0]) is not None:
            raise UserError("checkpoint", text, published_weights(text, "is the name of"))
    return locate(checkpoint)


def check_given(located: Located, given: Mapping[str, JSON]) -> None:
    """Checks that what a user states of a model is what its weights are, where nothing is to be changed.

    Args:
        located: from `open_weights`.
        given: settings of the model.

    Raises:
        UserError: one is unknown, or differs from the model's.
    """
    model = located.description["model"]
    fields = {key: value for key, value in given.items() if key not in ("name", "variant")}
    stated = {key: str(value) for key, value in given.items() if key not in fields}
    for key, value in (stated | convert_fields(config_class_of(model["name"]), fields, "model")).items():
        if _plain(value) != _plain(have := model.get(key)):
            shown = "has none" if have in (None, "") else f"has {','.join(map(str, _plain(have)))}"
            raise UserError(
                f"model.{key}", value, f"{name_of(located)} {shown}, and converting changes no model; leave it out"
            )


def _is_own(path: Path) -> bool:
    return path.is_dir() and ((path / CHECKPOINTS).is_dir() or (path / MANIFEST).exists())


def _whole(text: str) -> str:
    """The run or checkpoint of vitzoo's that a name wants a part of, without that part; empty for any other name."""
    whole = text.rpartition(":")[0]
    run = whole if Path(whole).exists() else whole.rpartition("@")[0]
    return whole if run and _is_own(_path(run)) else ""


def name_of(located: Located) -> str:
    """How weights are called in a message: as they were asked for, or by their checkpoint's folder."""
    if isinstance(located, Part):
        return located.name
    return located.source.name if isinstance(located, Published) else str(located.folder)


def _plain(value: Any) -> tuple[Any, ...]:
    """A setting's value, comparable: 224 and 224,224 are the same size."""
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    return values[:1] if len(set(map(str, values))) == 1 else values


def _path(text: str) -> Path:
    """The path that a name may be; one of the hub or of the catalogue is a path too, of nothing.

    Raises:
        UserError: no path can be so, or what is there can't be read.
    """
    path = named_path("checkpoint", text) if text.strip() else Path(text)
    return readable_path("checkpoint", text) if text.strip() and path.exists() else path


def read_weights(located: Located, weights: str = "auto") -> tuple[HostParams, str, list[str]]:
    """The arrays.

    Args:
        located: from `open_weights`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.

    Returns:
        Nested parameters, which they are (`ema`, `raw` or `published`), and lines for the report.

    Raises:
        UserError: `ema` is asked of weights without one, or they can't be read.
    """
    if not isinstance(located, Published):
        params, which = read_params(located, weights)
        params, lines = located.params(params) if isinstance(located, Part) else (params, [])
        return params, which, lines
    if weights == "ema":
        raise UserError("weights", "ema", f"{located.source.name} are published weights, without a moving average")
    params, lines = located.params()
    return params, "published", lines
