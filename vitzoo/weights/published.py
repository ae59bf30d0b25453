"""Published weights in the place of a checkpoint: the same description, the same parameters, the same uses."""

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.metadata import describe
from vitzoo.config.experiment import config_class_of
from vitzoo.data.image_feed import described_preprocessing, for_channels
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.models.geometry import image_shape
from vitzoo.nn.paths import unflatten
from vitzoo.schema import build, convert_fields, to_json
from vitzoo.spelling import nearest
from vitzoo.staging import temporary_folder
from vitzoo.version import version
from vitzoo.weights.files.open import open_source
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.registry import FORMATS, Format, Reading, check_format, find_format, recognise
from vitzoo.weights.mapping import read_mapping
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

    source: Source
    reading: Reading
    form: str

    def params(self) -> tuple[dict[str, Any], list[str]]:
        """Nested parameters, and lines for the report.

        Raises:
            UserError: arrays are missing, left over, of another shape than the model's, or not of finite numbers.
        """
        reading, source = self.reading, self.source
        flat, ignored = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name, reading.shapes)
        return unflatten(flat), [f"format  {self.form}", *self.source.notes, *self.reading.notes, *ignored]


def open_published(name: str, given: Mapping[str, Any] | None = None, form: str = "", place: str = "") -> Published:
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
    source = open_source(name, place)
    reader = find_format(form) if form else recognise(source)
    if form:
        check_format(source, reader)
    if (asked := (given or {}).get("name", reader.model)) != reader.model:
        raise UserError("model.name", asked, f"{source.name} holds {reader.model}; leave it out")
    stated = {key: value for key, value in (given or {}).items() if key not in ("name", "variant")}
    reading = _read(reader, source, convert_fields(config_class_of(reader.model), stated, "model"))
    config, folder = reading.config, source.folder
    tokenizer = None
    if hasattr(config, "image_size"):
        preprocessing = _of_images(config, reading)
    else:
        preprocessing = to_json(build(Text, dict(reading.preprocessing), "text"))
        if reading.tokenizer is None:
            raise source.refused(
                "is a model of text without its tokenizer: put tokenizer.json (or vocab.txt, vocab.json with "
                f"merges.txt, spiece.model) into {source.folder}"
            )
        folder = _scratch()
        ends = stated_ends(source, config.vocabulary_size)
        if ends == reading.tokenizer.end_ids:
            ends = ()
        tokenizer = reading.tokenizer.ending_with(ends).save(folder / "assets")
    description = describe(
        version=version(),
        model={"name": reading.model["name"], "variant": "", **to_json(config)},
        objective=dict(reading.objective),
        classes=None if reading.classes is None else list(reading.classes),
        data={"name": name, "split": "", "fingerprint": ""},
        step=0,
        examples=0,
        preprocessing=preprocessing,
        tokenizer=tokenizer,
    )
    return Published(folder, 0, None, description, source, reading, reader.name)


def _read(reader: Format, source: Source, given: Mapping[str, Any]) -> Reading:
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
    own = build(Preprocessing, dict(reading.preprocessing), "preprocessing")
    return described_preprocessing(for_channels(own, channels), (height, width), channels)


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(dir=temporary_folder()))
