"""transformers' `preprocessor_config.json`: how an image becomes the model's input, in and out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.inputs import input_of
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, read_json, shown
from vitzoo.weights.formats.settings import flag, is_number, of_channels, only, theirs_of
from vitzoo.weights.formats.vit_common import LARGEST_SIDE, SMALLEST_CROP, Size, departures

FILE, WITH_TEXT = "preprocessor_config.json", "processor_config.json"
"""The second is a processor's of images and texts, with what the first holds inside."""
HALF = [0.5, 0.5, 0.5]
USUAL: dict[str, Any] = {
    "do_resize": True,
    "size": 224,
    "resample": 2,
    "do_center_crop": False,
    "crop_size": 224,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": HALF,
    "image_std": HALF,
}
"""What most processors do where the file doesn't say."""
CLIP: dict[str, Any] = {
    "resample": 3,
    "do_center_crop": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
KINDS: dict[str, dict[str, Any]] = {
    "ViTImageProcessor": {},
    "DeiTImageProcessor": {"size": 256, "resample": 3, "do_center_crop": True},
    "BitImageProcessor": CLIP,
    "CLIPImageProcessor": CLIP,
    "SiglipImageProcessor": {"resample": 3},
}
"""Processors → where they differ from that."""
SQUARE = ("ViTImageProcessor", "DeiTImageProcessor")
"""Those to which a size of one number is both sides; to the others it is the short one."""
RESAMPLES = ("nearest", "lanczos", "bilinear", "bicubic")
"""By PIL's numbers."""
OFFSET = "floor"
"""Where transformers begins a crop: `Preprocessing.crop_offset`."""
SMALLEST_FACTOR = 1e-6  # that pixels are multiplied by
ONLY = {"do_resize": True, "do_pad": False, "rescale_offset": False}
"""Settings that have one value here."""


def read(
    source: Weights, usual: str, whole: Size, size: Size, channels: int = 3, *, any_size: bool = False
) -> tuple[dict[str, JSON], list[str]]:
    """Fields of `Preprocessing`, and notes.

    Args:
        source: the file of weights, which `preprocessor_config.json` lies beside.
        usual: the processor of this kind of models, which the file may leave out.
        whole: the image size that the model's config says.
        size: the part of it that whole patches cover, which our model takes.
        channels: of the model's images.
        any_size: transformers' model takes images of other sizes than its config says, and refuses them otherwise.

    Raises:
        UserError: the file can't be read, says what no preprocessing here does, or makes images that the model refuses.
    """
    content = _content(source)
    seen = size[0] / whole[0]
    if content is None:
        note = f"there is no {FILE}: both sides are resized, pixels are taken to -1..1"
        return {"crop_fraction": seen, "crop_offset": OFFSET}, [note, *_notes(whole, whole, size)]
    kind = _kind(source, content, usual)
    values = {**USUAL, **KINDS[kind], **{k: v for k, v in content.items() if v is not None}}
    source = dataclasses.replace(source, config=values, config_name=FILE)
    only(source, ONLY)
    if type(values["resample"]) is not int or values["resample"] not in range(len(RESAMPLES)):
        raise source.refused(
            f"{FILE} has resample = {shown(values['resample'])}; known: 0 to 3, {', '.join(RESAMPLES)}"
        )
    resize, resized = _resized(source, values["size"], kind in SQUARE)
    kept = _sides(source, "crop_size", values["crop_size"]) if flag(source, "do_center_crop", False) else resized
    shares = {kept[axis] / resized[axis] for axis in (0, 1)}
    if len(shares) > 1 or not SMALLEST_CROP <= max(shares) <= 1:
        raise source.refused(f"{FILE} cuts {kept} out of {resized}; here both sides are cut by one share")
    fields: dict[str, JSON] = {
        "resize": resize,
        "interpolation": RESAMPLES[values["resample"]],
        "crop_fraction": shares.pop() * seen,
        "crop_offset": OFFSET,
        **_scale(source, values, channels),
    }
    if kept != whole and not any_size:
        made = f"{FILE} makes images of {kept[0]} × {kept[1]}"
        raise source.refused(f"{made}, and the model takes {whole[0]} × {whole[1]}: one of the two files is wrong")
    notes = _notes(kept, whole, size)
    if resize == "short_side_crop" and not values["do_center_crop"]:
        notes.append("images that aren't square are cut to the middle, where transformers leaves them as they are")
    return fields, notes


def written(description: Description, where: str) -> tuple[dict[str, JSON], tuple[str, ...]]:
    """The file of a model of ours, by name, and notes on what transformers will do otherwise; nothing where its
    preprocessing isn't known.

    Raises:
        UserError: transformers has no processor that does the same (the setting is named).
    """
    images = input_of(description, "image")
    if not images:
        return {}, ()
    height, width = images["size"]
    larger = [round(side / images["crop_fraction"]) for side in (height, width)]
    crop = larger != [height, width]
    if images["resize"] == "short_side_crop":
        if height != width:
            raise UserError("inputs.image.resize", "short_side_crop", f"has no place in {where} unless it is square")
        kind, size, crop = "BitImageProcessor", {"shortest_edge": larger[0]}, True
    elif images["resize"] == "squash":
        kind = "DeiTImageProcessor" if crop else "ViTImageProcessor"
        size = {"height": larger[0], "width": larger[1]}
    else:
        raise UserError("inputs.image.resize", images["resize"], f"has no place in {where}")
    if not images["antialias"] and images["interpolation"] != "nearest":
        raise UserError("inputs.image.antialias", False, f"has no place in {where}, which filters as PIL does")
    names = {str(index): name for index, name in enumerate(RESAMPLES)}
    content: dict[str, JSON] = {
        "image_processor_type": kind,
        "do_resize": True,
        "size": size,
        "resample": int(theirs_of("inputs.image.interpolation", images["interpolation"], names, where)),
        "do_center_crop": crop,
        **({"crop_size": {"height": height, "width": width}} if crop else {}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        **{f"image_{field}": [round(value / 255, 9) for value in images[field]] for field in ("mean", "std")},
    }
    return {FILE: content}, tuple(departures(images, (height, width), OFFSET, "transformers"))


def _content(source: Weights) -> dict[str, Any] | None:
    """What the file holds; None where there is none."""
    file, within = source.companion(FILE), False
    if file is None:
        file, within = source.companion(WITH_TEXT), True
    if file is None:
        return None
    whole = read_json(file)
    content = whole.get("image_processor") if within else whole
    if not isinstance(content, dict):
        raise source.refused(f"{file.name} holds no settings")
    return content


def _kind(source: Weights, content: Mapping[str, Any], usual: str) -> str:
    """The processor, under the one name of all its versions."""
    stated = content.get("image_processor_type") or content.get("feature_extractor_type") or usual
    name = str(stated).replace("FeatureExtractor", "ImageProcessor")
    for ending in ("Fast", "Pil"):
        name = name.removesuffix(ending)
    if name not in KINDS:
        raise source.refused(f"{FILE} has image_processor_type = {shown(stated)}; known: {', '.join(KINDS)}")
    return name


def _resized(source: Weights, stated: Any, square: bool) -> tuple[str, Size]:
    """Our `resize`, and the size that it gives, of a square image where only the short side is said."""
    if isinstance(stated, Mapping) and set(stated) == {"shortest_edge"}:
        return "short_side_crop", _sides(source, "size", stated["shortest_edge"])
    resize = "short_side_crop" if type(stated) is int and not square else "squash"
    return resize, _sides(source, "size", stated)


def _sides(source: Weights, field: str, stated: Any) -> Size:
    """Height and width, from both or from one number."""
    values = [stated, stated]
    if isinstance(stated, Mapping) and set(stated) == {"height", "width"}:
        values = [stated["height"], stated["width"]]
    if not all(type(value) is int and 0 < value < LARGEST_SIDE for value in values):
        raise source.refused(f"{FILE} has {field} = {shown(stated)}; height and width, or one number, are right")
    return values[0], values[1]


def _scale(source: Weights, values: Mapping[str, Any], channels: int) -> dict[str, tuple[float, ...]]:
    """Mean and deviation on the scale of pixels, 0..255."""
    factor = values["rescale_factor"] if flag(source, "do_rescale", True) else 1.0
    if not is_number(factor) or not SMALLEST_FACTOR <= factor <= 1:
        raise source.refused(f"{FILE} has rescale_factor = {shown(factor)}; 1/255 or another number up to 1 is right")
    plain = {"image_mean": 0.0, "image_std": 1.0}
    normalised = flag(source, "do_normalize", True)
    found = {name: values[name] if normalised else usual for name, usual in plain.items()}
    return {
        name.removeprefix("image_"): tuple(
            round(value / factor, 6) for value in of_channels(source, name, stated, channels)
        )
        for name, stated in found.items()
    }


def _notes(kept: Size, whole: Size, size: Size) -> list[str]:
    """Where the sizes of `preprocessor_config.json`, of `config.json` and of our model aren't one."""
    notes = []
    if kept != whole:
        sides = kept[0] if kept[0] == kept[1] else kept
        notes.append(f"{FILE} makes images of {kept}, the model's are {size}: give image_size={sides} for the former")
    if size != whole:
        notes.append(f"images are {whole}, of which transformers looks at the upper left {size}; here at the middle")
    return notes
