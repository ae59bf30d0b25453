"""The devices, and the mesh they form: axes `data` (copies), `fsdp` (sharded state), `tensor` (sharded layers) and
`sequence` (sharded tokens).
"""

import math
import os
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from vitzoo import literals
from vitzoo.errors import UserError

AXES = ("data", "fsdp", "tensor", "sequence")
BATCH_AXES = ("data", "fsdp")
"""The mesh axes over which a batch is spread; devices along `tensor` or `sequence` see the same examples."""


def devices(platform: str = "") -> list[jax.Device]:
    """Every device of the platform, over all processes. Starts the backend; does no other work.

    Args:
        platform: `cpu`, `gpu`, `cuda`, `rocm`, `tpu`; empty for JAX's choice, which follows `JAX_PLATFORMS`.

    Raises:
        UserError: no such device here. The message names what is.
    """
    try:
        found = jax.devices(platform or None)
    except (RuntimeError, AssertionError) as error:  # JAX asserts where JAX_PLATFORMS names a backend it doesn't have
        limit = os.environ.get("JAX_PLATFORMS", "")
        message = f"no such device here; found {_present()}"
        if not platform:
            raise UserError("JAX_PLATFORMS", limit, message) from error
        # a command sets it to the platform it was given, which is then no news to the user
        limited = f" (JAX_PLATFORMS = {limit})" if limit not in ("", platform) else ""
        raise UserError("platform", platform, f"{message}{limited}") from error
    if found[0].platform != jax.devices()[0].platform:
        jax.config.update("jax_default_device", jax.local_devices(backend=platform)[0])
    return found


def _present() -> str:
    """What JAX finds when nothing is asked for, `cpu:8`."""
    asked = jax.config.jax_platforms  # type: ignore[attr-defined]
    try:
        jax.config.update("jax_platforms", None)
        found = jax.devices()
    except (RuntimeError, AssertionError) as error:
        return f"none ({error})"
    finally:
        jax.config.update("jax_platforms", asked)
    return f"{found[0].platform}:{len(found)}"


def parse_mesh(spec: str) -> dict[str, int]:
    """`"data:2,fsdp:4"` as sizes by axis; empty for `auto`. Needs no device.

    Raises:
        UserError: an axis that there isn't, one named twice, or a size that isn't a positive whole number.
    """
    sizes: dict[str, int] = {}
    for part in spec.split(",") if spec != "auto" else ():
        axis, _, size = (text.strip() for text in part.partition(":"))
        if axis not in AXES:
            raise UserError("mesh", spec, f"no axis {axis!r}; write auto, or sizes of {', '.join(AXES)}: data:2,fsdp:4")
        if axis in sizes:
            raise UserError("mesh", spec, f"names {axis} twice")
        if not (number := literals.counted(size)):
            raise UserError("mesh", spec, f"{axis} needs a whole number of devices, {axis}:4")
        sizes[axis] = number
    return sizes


def make_mesh(spec: str, devices: Sequence[jax.Device]) -> Mesh:
    """A mesh over all of `devices`; it has all four axes, those not named of size 1.

    Args:
        spec: `auto` (fsdp over all devices; a single device is data:1), or sizes, `data:2,fsdp:2,tensor:2`.
        devices: all devices of the run, over all processes.

    Raises:
        UserError: the text is wrong, or the sizes' product isn't the number of devices.
    """
    count = len(devices)
    sizes = parse_mesh(spec) or ({"fsdp": count} if count > 1 else {"data": 1})
    product = math.prod(sizes.values())
    if product != count:
        shown = f"{product} device{'s' * (product > 1)}"
        raise UserError("mesh", spec, f"takes {shown}, but there are {count} (auto takes all; or data:{count})")
    shape = tuple(sizes.get(axis, 1) for axis in AXES)
    types = (AxisType.Auto,) * len(AXES)
    if devices[0].platform == "cpu":  # simulated devices have no topology to fit
        return Mesh(np.asarray(devices).reshape(shape), AXES, axis_types=types)
    return jax.make_mesh(shape, AXES, axis_types=types, devices=devices)


def show_mesh(mesh: Mesh) -> str:
    """The axes larger than one, as a config writes them: `data:2,fsdp:4`."""
    return ",".join(f"{axis}:{size}" for axis, size in mesh.shape.items() if size > 1) or "data:1"


def batch_shards(mesh: Mesh) -> int:
    """In how many parts a batch is cut."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def padded_batch_size(batch_size: int, mesh: Mesh) -> int:
    """The smallest size from `batch_size` on that divides over the mesh: evaluation fills its batches up to it."""
    return -(-batch_size // batch_shards(mesh)) * batch_shards(mesh)


def validate_batch(batch_size: int, accumulate: int, mesh: Mesh) -> None:
    """A global batch must divide into micro-batches, and each micro-batch over the devices.

    Raises:
        UserError: it doesn't. The message names all the numbers and the nearest batch sizes that do.
    """
    unit = accumulate * batch_shards(mesh)
    if batch_size % unit == 0:
        return
    over = _batch_axes(mesh.shape)
    nearest = nearest_multiples(batch_size, unit)
    message = f"does not divide over {over} with accumulate = {accumulate} (nearest: {nearest})"
    raise UserError("data.batch_size", batch_size, message)


def nearest_multiples(size: int, unit: int) -> str:
    """The sizes above 0 next to `size` that `unit` divides: `48, 72`."""
    below = size // unit * unit
    return ", ".join(str(multiple) for multiple in (below, below + unit) if multiple)


def _batch_axes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{axis}:{sizes[axis]}" for axis in BATCH_AXES if sizes[axis] > 1) or "data:1"
