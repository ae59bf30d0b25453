"""Images, patches and grids: what the configs of image models have in common."""

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import jax
import jax.numpy as jnp

from vitzoo.errors import UserError
from vitzoo.schema import Settings
from vitzoo.strict_json import JSON

Size = int | tuple[int, int]
"""(height, width), or one number for both."""


def pair(size: Size) -> tuple[int, int]:
    """Height and width."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@runtime_checkable
class ImageConfig(Protocol):
    """What a model's settings say of the images that it takes."""

    @property
    def image_size(self) -> Size | None: ...

    @property
    def channels(self) -> int | None: ...


def image_shape(config: Settings | ImageConfig) -> tuple[int, int, int]:
    """Height, width and channels of an image, from a Config's `image_size` and `channels`; 224, 224 and 3 where it
    leaves them open.

    Raises:
        UserError: it has no such settings.
    """
    if not isinstance(config, ImageConfig):
        message = "has no settings image_size and channels, which a model of images needs"
        raise UserError("model.name", type(config).__name__, message)
    return (*pair(224 if config.image_size is None else config.image_size), config.channels or 3)


def patch_variant(variant: str, sizes: Mapping[str, Mapping[str, JSON]], published: Sequence[str]) -> dict[str, JSON]:
    """The config fields that a variant such as `S/16` fixes: those of its size, and `patch_size`.

    Raises:
        UserError: no such variant; the nearest is named.
    """
    size, _, patch = str(variant).partition("/")
    fits = re.fullmatch("[1-9][0-9]{0,3}", patch)
    if size in sizes and fits:
        return {**sizes[size], "patch_size": int(patch)}
    near = [f"{name}/{patch if fits else 16}" for name in sizes if name.casefold() == size.casefold()]
    near = near or difflib.get_close_matches(str(variant), published, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError("variant", variant, f"no such variant; {hint}It is a size ({', '.join(sizes)}) and a patch, S/16")


class ImageGeometry:
    """Sizes that follow from `image_size`, `patch_size` and `channels`."""

    patch_size: Size
    image_size: Size | None
    channels: int | None
    pad_to_patch: bool = False

    @property
    def patch_shape(self) -> tuple[int, int]:
        """Height and width of a patch, in pixels."""
        return pair(self.patch_size)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image; 224, 224 and 3 where nothing is set."""
        return image_shape(self)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches; the last ones may reach beyond the image."""
        return -(-self.image_shape[0] // self.patch_shape[0]), -(-self.image_shape[1] // self.patch_shape[1])

    @property
    def patches(self) -> int:
        """Number of patches."""
        return self.grid[0] * self.grid[1]

    def check_grid(self) -> None:
        """Refuses an image that doesn't divide into patches and shan't be padded, and names the sizes next to it."""
        for size, patch in zip(self.image_shape[:2], self.patch_shape, strict=True):
            if size % patch and not self.pad_to_patch:
                below = size // patch * patch
                near = ", ".join(str(n) for n in (below, below + patch) if n)
                message = f"does not divide by patch_size {patch} (nearest: {near}); pad_to_patch=true fills it up"
                raise UserError("image_size", size, message)

    def of_images(self, images: jax.Array) -> Self:
        """The config for images of this size: itself, where it is the config's.

        Args:
            images: floats [batch, height, width, channels].

        Raises:
            UserError: images that aren't that, that have other channels, or that the patch size doesn't divide.
        """
        shape = self.image_shape
        if images.ndim != 4 or images.shape[3] != shape[2] or 0 in images.shape[1:]:
            raise UserError("images", images.shape, f"the model takes [batch, height, width, channels] {shape}")
        if not jnp.issubdtype(images.dtype, jnp.floating):
            raise UserError("images", images.dtype, "the model takes floats, scaled as its weights were trained")
        if images.shape[1:] == shape:
            return self
        other: Any = dataclasses.replace(self, image_size=images.shape[1:3])  # type: ignore[type-var]
        other.check_grid()
        return other

    def padded(self, images: jax.Array) -> jax.Array:
        """Images with zeros, the mean colour, at the bottom and right where the last patches reach beyond them."""
        grid, patch = self.grid, self.patch_shape
        more = [grid[axis] * patch[axis] - images.shape[1 + axis] for axis in (0, 1)]
        return jnp.pad(images, ((0, 0), (0, more[0]), (0, more[1]), (0, 0))) if any(more) else images
