"""transformers' `config.json` of a Vision Transformer: what it says beside shapes, and a ViT of ours as one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.base import Flat
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import SinCos2D
from vitzoo.weights.files.source import Source, shown
from vitzoo.weights.formats import hf_images, settings
from vitzoo.weights.formats.registry import Reading
from vitzoo.weights.formats.vit_common import LARGEST_SIDE, Size, num_heads, patch_of, table_of
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


@dataclasses.dataclass(frozen=True)
class Shapes:
    """What a file's arrays say of a body.

    Attributes:
        width: of a token.
        depth: number of blocks.
        mlp_dim: between the two layers of an MLP.
        inner: of all heads together.
        channels: of an image.
        patch: height and width of a patch.
        rows: of the table of positions.
        placed: how many of these belong to tokens before the patches.
    """

    width: int
    depth: int
    mlp_dim: int
    inner: int
    channels: int
    patch: Size
    rows: int
    placed: int

    @classmethod
    def found(
        cls, source: Source, *, patch: str, stack: str, query: str, down: str, rows: int, placed: int
    ) -> "Shapes":
        """Those of a file: by the names of its patch embedding, of its blocks up to their number, and of the first
        block's layer of queries and of the MLP's second.
        """
        width, channels, size = patch_of(source, f"{patch}.weight")
        return cls(
            width=width,
            depth=source.depth(f"{stack}."),
            mlp_dim=source.shape(f"{down}.weight", 2)[1],
            inner=source.shape(f"{query}.weight", 2)[0],
            channels=channels,
            patch=size,
            rows=rows,
            placed=placed,
        )


def body(
    source: Source,
    shapes: Shapes,
    given: Mapping[str, Any],
    *,
    epsilon: float,
    gelu: str = "gelu",
    mlp_stated: bool = True,
) -> tuple[dict[str, Any], Size, list[str]]:
    """Fields of the Config that every family has, the image size that `config.json` says, and notes.

    Args:
        source: the file.
        shapes: of its arrays.
        given: settings that a user states.
        epsilon, gelu: transformers' defaults where `config.json` says none.
        mlp_stated: whether `intermediate_size` is a setting of the family; where it isn't, transformers looks at none.

    Raises:
        UserError: `config.json` contradicts the arrays, or has what no model here has.
    """
    config, s = source.config, shapes
    sizes = {"hidden_size": s.width, "num_hidden_layers": s.depth, "num_channels": s.channels}
    settings.only(source, sizes | ({"intermediate_size": s.mlp_dim} if mlp_stated else {}))
    if (patch := _pair(source, "patch_size", s.patch)) != s.patch:
        raise source.refused(f"{source.config_name} has patch_size = {patch}, and its patches are {s.patch}")
    heads, notes = _heads(source, given, s)
    whole, size = _sizes(source, s, given)
    eps = settings.epsilon(source, "layer_norm_eps", epsilon)
    if config and eps < 1e-6:
        notes.append(f"epsilon {eps:g}, as config.json says; most of such weights were trained with 1e-6")
    if not config:
        notes.append(f"there is no config.json: {gelu} and epsilon {epsilon:g}, the defaults of transformers")
    fields = {
        "patch_size": s.patch,
        "width": s.width,
        "depth": s.depth,
        "mlp_dim": s.mlp_dim,
        "num_heads": heads,
        "head_dim": None if s.inner == s.width else s.inner // heads,
        "channels": s.channels,
        "image_size": size,
        "gelu": settings.named(source, "hidden_act", gelu, ACTIVATIONS),
        "norm_epsilon": eps,
        "position_resize": "bicubic",
    }
    return fields, whole, notes


def reading(
    source: Source,
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


def _heads(source: Source, given: Mapping[str, Any], shapes: Shapes) -> tuple[int, list[str]]:
    """Stated, transformers' default where `config.json` leaves it out, or by convention without one."""
    stated, note = settings.whole(source, "num_attention_heads", least=1), ""
    if stated is None and "num_heads" not in given:
        stated, note = (12, "") if source.config else num_heads(source, given, shapes.width)
    heads = settings.heads_that(source, stated, f"{source.config_name} says num_attention_heads", given, shapes.inner)
    return heads, [note] if note else []


def _sizes(source: Source, shapes: Shapes, given: Mapping[str, Any]) -> tuple[Size, Size]:
    """The image size that is stated, and the part of it that whole patches cover, which is all that is looked at."""
    if not source.config:
        size, _ = table_of(source, shapes.rows, shapes.patch, [("class", shapes.placed)], [], given)
        return size, size
    height, width = _pair(source, "image_size", (224, 224))
    rows, columns = height // shapes.patch[0], width // shapes.patch[1]
    if rows * columns != shapes.rows - shapes.placed:
        message = f"{rows} × {columns} patches, and its positions are {shapes.rows - shapes.placed}"
        raise source.refused(f"{source.config_name} has image_size = {height} × {width}: {message}")
    return (height, width), (rows * shapes.patch[0], columns * shapes.patch[1])


def _pair(source: Source, field: str, usual: Size) -> Size:
    """A size of `config.json`, one number or two."""
    stated = source.config.get(field, usual)
    values = list(stated) if isinstance(stated, list | tuple) else [stated, stated]
    if len(values) != 2 or not all(type(value) is int and 0 < value < LARGEST_SIDE for value in values):
        raise source.refused(f"{source.config_name} has {field} = {shown(stated)}; a number or two are right")
    return values[0], values[1]


def written(config: ViTConfig, where: str) -> dict[str, Any]:
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
