"""transformers' `config.json` of a Vision Transformer: what it says beside shapes, and a ViT of ours as one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import SinCos2D
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.registry import Given, Reading
from vitzoo.weights.formats.vit_common import BLOCKS, LARGEST_SIDE, SIZES, Leaves, Size, num_heads, table_of
from vitzoo.weights.mapping import Ignored, NameMap

ACTIVATIONS = {
    "gelu": "exact",
    "gelu_pytorch_tanh": "tanh",
    "quick_gelu": "quick",
    "gelu_python": "exact",
    "gelu_new": "tanh",
    "gelu_fast": "tanh",
}
"""transformers' names → ours; of several for one, the first is written."""
DROPOUTS = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}


def body(
    source: Weights,
    names: NameMap,
    given: Given,
    placed: int,
    *,
    epsilon: float,
    gelu: str = "gelu",
    table_dimensions: int = 3,
    mlp_stated: bool = True,
) -> tuple[dict[str, Any], Size, list[str]]:
    """Fields of the Config that every family has, the image size that `config.json` says, and notes.

    Args:
        source: the file.
        names: how it names a ViT's leaves.
        given: settings that a user states.
        placed: how many rows of the table of positions belong to tokens before the patches.
        table_dimensions: of that table in the file.
        epsilon, gelu: transformers' defaults where `config.json` says none.
        mlp_stated: whether `intermediate_size` is a setting of the family; where it isn't, transformers looks at none.

    Raises:
        UserError: `config.json` contradicts the arrays, or has what no model here has.
    """
    file = Leaves(source, names)
    fields = file.fields(*SIZES)
    stated = {"hidden_size": "width", "num_hidden_layers": "depth", "num_channels": "channels"}
    stated |= {"intermediate_size": "mlp_dim"} if mlp_stated else {}
    settings.only(source, {theirs: fields[ours] for theirs, ours in stated.items()})
    patch = fields["patch_size"]
    if (said := _pair(source, "patch_size", patch)) != patch:
        raise source.refused(f"{source.config_name} has patch_size = {said}, and its patches are {patch}")
    rows = file.shape("positions/embedding", table_dimensions)[-2]
    inner = file.shape(f"{BLOCKS}/attention/query/kernel", 2)[0]
    heads, notes = _heads(source, given, fields["width"], inner)
    whole, size = _sizes(source, patch, rows, placed, given)
    eps = settings.epsilon(source, "layer_norm_eps", epsilon)
    if source.config and eps < 1e-6:
        notes.append(f"epsilon {eps:g}, as config.json says; most of such weights were trained with 1e-6")
    if not source.config:
        notes.append(f"there is no config.json: {gelu} and epsilon {epsilon:g}, the defaults of transformers")
    fields |= {
        "num_heads": heads,
        "head_dim": None if inner == fields["width"] else inner // heads,
        "image_size": size,
        "gelu": settings.named(source, "hidden_act", gelu, ACTIVATIONS),
        "norm_epsilon": eps,
        "position_resize": "bicubic",
    }
    return fields, whole, notes


def reading(
    source: Weights,
    fields: Mapping[str, Any],
    whole: Size,
    processor: str,
    names: NameMap,
    ignored: tuple[Ignored, ...],
    notes: Sequence[str],
    *,
    any_size: bool = False,
) -> Reading:
    """What a file holds, with the names of its classes and its preprocessing.

    Args:
        source: the file.
        fields: of the Config.
        whole: the image size that `config.json` says.
        processor: of images, of this kind of models.
        names, ignored, notes: as in `Reading`.
        any_size: as in `hf_images.read`.
    """
    problem, outputs = settings.problem_of(source), fields["num_classes"]
    if outputs and problem == "regression":
        raise source.refused("config.json has problem_type = regression; no model of images here tells numbers")
    classes = settings.labels(source, outputs)
    preprocessing, more = hf_images.read(
        source, processor, whole, fields["image_size"], fields["channels"], any_size=any_size
    )
    return Reading(
        model={"name": "vit", **fields},
        names=names,
        ignored=ignored,
        objective={"name": "classification"} | ({"loss": "sigmoid"} if problem == "multi_label_classification" else {}),
        classes=classes,
        preprocessing=preprocessing,
        notes=(*notes, *more),
    )


def _heads(source: Weights, given: Given, width: int, inner: int) -> tuple[int, list[str]]:
    """Stated, transformers' default where `config.json` leaves it out, or by convention without one."""
    stated, note = settings.whole(source, "num_attention_heads", least=1), ""
    if stated is None and "num_heads" not in given:
        stated, note = (12, "") if source.config else num_heads(source, given, width)
    heads = settings.heads_that(source, stated, f"{source.config_name} says num_attention_heads", given, inner)
    return heads, [note] if note else []


def _sizes(source: Weights, patch: Size, rows: int, placed: int, given: Given) -> tuple[Size, Size]:
    """The image size that is stated, and the part of it that whole patches cover, which is all that is looked at."""
    if not source.config:
        size, _ = table_of(source, rows, patch, [("class", placed)], [], given)
        return size, size
    height, width = _pair(source, "image_size", (224, 224))
    grid = height // patch[0], width // patch[1]
    if grid[0] * grid[1] != rows - placed:
        message = f"{grid[0]} × {grid[1]} patches, and its positions are {rows - placed}"
        raise source.refused(f"{source.config_name} has image_size = {height} × {width}: {message}")
    return (height, width), (grid[0] * patch[0], grid[1] * patch[1])


def _pair(source: Weights, field: str, usual: Size) -> Size:
    """A size of `config.json`, one number or two."""
    stated = source.config.get(field, usual)
    values = list(stated) if isinstance(stated, list | tuple) else [stated, stated]
    if len(values) != 2 or not all(type(value) is int and 0 < value < LARGEST_SIDE for value in values):
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; a number or two are right")
    return values[0], values[1]


def written(config: ViTConfig, where: str) -> dict[str, JSON]:
    """Settings of `config.json` that every family has."""
    size, patch = config.image_shape, config.patch_shape
    return {
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "image_size": size[0] if size[0] == size[1] else list(size[:2]),
        "patch_size": patch[0] if patch[0] == patch[1] else list(patch),
        "num_channels": size[2],
        "hidden_act": settings.theirs_of("gelu", config.gelu, ACTIVATIONS, where),
        "layer_norm_eps": config.norm_epsilon,
        **({"head_dim": config.head_dim} if config.head_size * config.num_heads != config.width else {}),
    }


def as_table(config: ViTConfig, params: Flat, placed: int, where: str) -> tuple[ViTConfig, Flat]:
    """The same model with all that is added to tokens in one table, `placed` rows of it for tokens before the patches.

    Raises:
        UserError: positions are of a kind that isn't added, or others of these tokens have rows.
    """
    params, rows = dict(params), 0
    if config.positions == "learned1d":
        table, rows = params.pop("positions/embedding"), config.placed_prefix
    elif config.positions == "learned2d":
        x, y = params.pop("positions/x"), params.pop("positions/y")
        halves = (np.broadcast_to(half, (len(y), len(x), half.shape[-1])) for half in (x[None], y[:, None]))
        table = np.concatenate(list(halves), axis=-1).reshape(1, config.patches, config.width)
    elif config.positions == "sincos2d":
        table = np.asarray(SinCos2D(config.grid, config.width)())
    elif config.positions == "none":
        table = np.zeros((1, config.patches, config.width), np.float32)
    else:
        raise UserError("model.positions", config.positions, f"has no place in {where}, where they are added to tokens")
    if rows not in (0, placed):
        raise UserError("model.prefix_positions", config.prefix_positions, f"has no place in {where}")
    zeros = np.zeros_like(table, shape=(1, placed - rows, config.width))
    changed = dataclasses.replace(config, positions="learned1d", prefix_positions="class")
    return changed, params | {"positions/embedding": np.concatenate([zeros, table], axis=1)}
