"""A ViT of ours as transformers has it: `config.json`, and one table of positions that are added to the tokens."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import SinCos2D
from vitzoo.weights.formats import settings
from vitzoo.weights.formats.hf_vit_config import ACTIVATIONS
from vitzoo.weights.formats.labels import placeholders
from vitzoo.weights.rows import Flat


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
    }


def written_labels(config: ViTConfig, description: Mapping[str, Any]) -> dict[str, Any]:
    """Names of classes, and whether an image may have several; nothing without a head."""
    outputs = config.num_classes or 0
    if not outputs:
        return {}
    names = description.get("classes") or placeholders(outputs)
    sigmoid = (description.get("objective") or {}).get("loss") == "sigmoid"
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": "multi_label_classification" if sigmoid else "single_label_classification",
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
