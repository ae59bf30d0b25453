"""What the commands do, from Python: plain values in and out."""

from pathlib import Path
from typing import Any

from vitzoo.argument_types import checked
from vitzoo.config import resolve
from vitzoo.config.assembly import assemble
from vitzoo.config.layers import Overrides
from vitzoo.config.model import ModelChoice
from vitzoo.errors import UserError
from vitzoo.registry import PARTS, find
from vitzoo.strict_json import JSON


@checked(seed=0)
def create_model(name: str, variant: str = "", *, seed: int = 0, **changes: JSON) -> Any:
    """A model with initial parameters.

    Args:
        name: `vit`, torchvision's `vit_b_16`, timm's `vit_base_patch16_224` and their like, or your own,
            `my_package.my_file:MyModel`.
        variant: a size and a patch, `B/16`; none where such a name says it.
        seed: of the initial parameters.
        changes: fields of the model's config, `num_classes=10`, `image_size=64`.

    Returns:
        An `nnx.Module`: `model(images)` maps `[batch, height, width, channels]` to `[batch, num_classes]`.

    Raises:
        UserError: an unknown name, variant or field, or fields that don't fit each other.
    """
    from vitzoo.nn import state

    made = assemble(choose_model(name, variant, changes))
    return state.merge(made.abstract[0], state.initialise(made, seed))


def choose_model(name: str, variant: str, changes: dict[str, JSON]) -> ModelChoice:
    """What `create_model` makes; see there."""
    own = name in PARTS["model"] or ":" in name
    for model in () if own else PARTS["model"]:
        aliases = getattr(find("model", model), "ALIASES", {})
        if name in aliases and variant:
            raise UserError("model.variant", variant, f"is said by the name {name}; leave it out, or name {model}")
        if name in aliases:
            size, settings = aliases[name]
            return ModelChoice(model, size, {**settings, **changes})
    return ModelChoice(name, variant, changes)


@checked()
def train(config: Any, workdir: str | Path, overrides: Overrides = ()) -> dict[str, Any]:
    """Trains, or resumes, as `vitzoo train` does.

    Args:
        config: a file, a name (`vit/imagenet:S/16`), or a config that a `get_config` made.
        workdir: the run's folder.
        overrides: `{"optimizer.learning_rate": 3e-4}`, or `["optimizer.learning_rate=3e-4"]`.

    Returns:
        `workdir`, `step`, `total_steps`, `finished`, `exit_code`, `best` and each split's last `metrics`.

    Raises:
        UserError: config, data, devices or folder don't allow it.
        RunError: it had begun and can't go on.
    """
    from vitzoo.training import loop

    return loop.train(resolve(config, overrides=overrides), workdir)


@checked()
def list_models(pattern: str = "*", *, pretrained: bool = False) -> list[dict[str, JSON]]:
    """The models' variants: `name`, `variant`, `parameters`, `gflops`, `bytes_float32`.

    Args:
        pattern: a model or variant, `vit`, `B/*`, `*/16`.
        pretrained: list published weights instead, whose name, family, model or variant fits: `name`, which `load`
            takes, `hub` or `file` and who `published` it, `parameters`, `licence`, `score`, `metric`, `score_source`,
            and so on.

    Raises:
        UserError: nothing fits.
    """
    if pretrained:
        from vitzoo.weights import catalogue

        return [entry.to_json() for entry in catalogue.table(pattern)]
    from vitzoo.planning import models

    return [row.to_json() for row in models.table(pattern)]
