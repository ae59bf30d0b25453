"""What happens to a batch on the device: scaling to floats, random erasing, mixup and CutMix.

It acts on the whole global batch before that is split, so the result doesn't depend on devices, processes or
accumulation. Only jax is needed (with numpy and scipy, which it brings).
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from vitzoo.data.settings import Augment, Preprocessing
from vitzoo.errors import UserError

Batch = dict[str, jax.Array]
Prepare = Callable[[Mapping[str, jax.Array], jax.Array | None], Batch]

MIDDLE = 127.5  # the default mean and deviation: 0..255 becomes -1..1
QUANTILES = 4097
ERASED_AREA = (0.02, 1 / 3)
ERASED_ASPECT = (0.3, 1 / 0.3)


def make_prepare(
    augment: Augment | None,
    preprocessing: Preprocessing,
    num_classes: int,
    multi_label: bool = False,
    name: str = "image",
) -> Prepare:
    """`prepare(batch, key)` for a jitted step.

    The batch's images, `name`, uint8 [B, H, W, C] become float32, normalised. With `augment` and a key, images are
    erased and mixed; where mixup or CutMix is on, `label` becomes float32 [B, num_classes] whose rows sum to 1 (or, for
    several labels, are mixtures of the rows). Rows of weight 0 take no part: they are mixed into no row, nor any into
    them.
    """
    mixing = augment is not None and (augment.mixup > 0 or augment.cutmix > 0)

    def prepare(given: Mapping[str, jax.Array], key: jax.Array | None) -> Batch:
        batch = {**given, name: normalise(given[name], preprocessing)}
        if augment is None or key is None:
            return batch
        erase_key, mix_key = jax.random.split(key)
        if augment.random_erasing:
            noise = augment.random_erasing_fill == "noise"
            batch[name] = erase(batch[name], augment.random_erasing, erase_key, noise)
        if mixing:
            if not multi_label:
                batch["label"] = jax.nn.one_hot(batch["label"], num_classes, dtype=jnp.float32)
            batch = mix(batch, augment, mix_key, name)
        return batch

    return prepare


def normalise(image: jax.Array, preprocessing: Preprocessing) -> jax.Array:
    """(image - mean) / std in float32, mean and std on the 0..255 scale.

    Raises:
        UserError: there are more means than the images have channels.
    """
    mean, std = _scale(preprocessing, image.shape[-1])
    return (image.astype(jnp.float32) - mean) / std


def denormalise(image: jax.Array, preprocessing: Preprocessing) -> jax.Array:
    """The inverse of `normalise`: float32 on the 0..255 scale."""
    mean, std = _scale(preprocessing, image.shape[-1])
    return image * std + mean


def _scale(preprocessing: Preprocessing, channels: int) -> tuple[jax.Array, jax.Array]:
    scale = {}
    for field in ("mean", "std"):
        values = getattr(preprocessing, field) or (MIDDLE,)
        if len(values) not in (1, channels):
            raise UserError(f"inputs.image.{field}", values, f"doesn't fit images of {channels} channel(s)")
        scale[field] = jnp.asarray(values, jnp.float32)
    return scale["mean"], scale["std"]


def mix(batch: Batch, augment: Augment, key: jax.Array, name: str = "image") -> Batch:
    """Mixup (Zhang et al. 2018, https://arxiv.org/abs/1710.09412) or CutMix (Yun et al. 2019, https://arxiv.org/abs/1905.04899)
    with one share and one window for the batch, each row with the one half a batch before it. The rows stand in random
    order already, and copies of an image (repeated augmentation) next to each other; each device needs the rows of
    another, where partners from anywhere would bring it the whole batch. Odd batches work.

    A mixed row weighs what its parts weigh, in proportion; the batch's total weight stays.
    """
    share_key, window_key, choice_key, apply_key = jax.random.split(key, 4)
    image, label, weight = batch[name], batch["label"], batch["example_weight"]
    partner = {key: jnp.roll(batch[key], image.shape[0] // 2, axis=0) for key in (name, "label", "example_weight")}
    use_cutmix = _chooses_cutmix(augment, choice_key)
    share = jnp.where(use_cutmix, _beta(augment.cutmix, share_key), _beta(augment.mixup, share_key))
    inside = _window(image.shape[1:3], 1 - share, window_key)
    apply = jax.random.bernoulli(apply_key, augment.mix_probability)
    kept_where = jnp.where(use_cutmix, 1.0 - inside, share)  # [H, W]: how much of the row itself stays
    kept = jnp.where(use_cutmix, 1.0 - inside.mean(), share)
    both_real = (weight > 0) & (partner["example_weight"] > 0) & apply
    kept_where = jnp.where(both_real[:, None, None, None], kept_where[None, :, :, None], 1.0)
    kept = jnp.where(both_real, kept, 1.0)
    return {
        **batch,
        name: kept_where * image + (1 - kept_where) * partner[name],
        "label": kept[:, None] * label + (1 - kept[:, None]) * partner["label"],
        "example_weight": kept * weight + (1 - kept) * partner["example_weight"],
    }


def _chooses_cutmix(augment: Augment, key: jax.Array) -> jax.Array:
    """Where both are on, each acts on half of the batches."""
    if augment.mixup and augment.cutmix:
        return jax.random.bernoulli(key, 0.5)
    return jnp.asarray(augment.cutmix > 0)


def _beta(parameter: float, key: jax.Array) -> jax.Array:
    """A draw of Beta(parameter, parameter), from its quantiles: `jax.random.beta` takes seconds to compile."""
    if not parameter:
        return jnp.float32(1)
    steps = np.linspace(0, 1, QUANTILES)
    return jnp.interp(jax.random.uniform(key), steps, scipy.special.betaincinv(parameter, parameter, steps))


def _window(size: tuple[int, ...], area: jax.Array, key: jax.Array) -> jax.Array:
    """1 inside a window of this fraction of the area around a uniform centre, cut off at the border; float32 [H, W]."""
    centre = jax.random.uniform(key, (2,))
    sides = []
    for axis, length in enumerate(size):
        half = length * jnp.sqrt(area) / 2
        at = centre[axis] * length
        pixels = jnp.arange(length)
        sides.append((pixels >= jnp.round(at - half)) & (pixels < jnp.round(at + half)))
    return (sides[0][:, None] & sides[1][None, :]).astype(jnp.float32)


def erase(image: jax.Array, probability: float, key: jax.Array, noise: bool = False) -> jax.Array:
    """Random erasing (Zhong et al. 2020, https://arxiv.org/abs/1708.04896) of normalised images [B, H, W, C].

    A rectangle of 2 % to a third of the area, its aspect log-uniform in 0.3 .. 3.3, is set to 0, the mean colour, or
    filled with normal `noise`.
    """
    keys = jax.random.split(key, 5)
    count, height, width = image.shape[:3]
    area = jax.random.uniform(keys[0], (count,), minval=ERASED_AREA[0], maxval=ERASED_AREA[1]) * height * width
    low, high = jnp.log(jnp.asarray(ERASED_ASPECT))
    aspect = jnp.exp(jax.random.uniform(keys[1], (count,), minval=low, maxval=high))
    rows = _span(jnp.sqrt(area * aspect), height, keys[2])
    columns = _span(jnp.sqrt(area / aspect), width, keys[3])
    chosen = jax.random.bernoulli(keys[4], probability, (count,))
    erased = chosen[:, None, None] & rows[:, :, None] & columns[:, None, :]
    filling = jax.random.normal(jax.random.fold_in(key, 5), image.shape) if noise else jnp.zeros(())
    return jnp.where(erased[..., None], filling, image)


def _span(length: jax.Array, total: int, key: jax.Array) -> jax.Array:
    """Which of `total` pixels lie in a random run of `length`, for each example: bool [B, total]."""
    length = jnp.clip(jnp.round(length), 1, total)
    start = jnp.floor(jax.random.uniform(key, length.shape) * (total - length + 1))
    pixels = jnp.arange(total)
    return (pixels >= start[:, None]) & (pixels < (start + length)[:, None])
