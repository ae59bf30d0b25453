"""How many devices of which kind: `v5e:16x16`, `h100:8`, `cpu:8`."""

import dataclasses
import difflib
import math
import os
import re

from vitzoo import literals
from vitzoo.errors import UserError
from vitzoo.planning.devices import DEVICES, Device

SLICES = {
    "v5e": ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
    "v6e": ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"),
}
"""The slices that Google Cloud lists; of v4 and v5p there are many, of sides 1, 2 and multiples of 4."""
LARGEST = {"v4": 4096, "v5p": 8960}
PLATFORMS = ("tpu", "gpu", "cuda", "rocm")
"""Which are no kinds, and near to other ones' names."""
FORMS = "cpu:8, v5e:16x16, v6e:16x16, v5p:4x4x4, v4:4x4x4, h100:8, h200:8, a100:16, a100-80gb:16"


@dataclasses.dataclass(frozen=True)
class Topology:
    """Devices of one kind, connected.

    Attributes:
        device: the kind.
        shape: of a TPU slice; one number elsewhere.
    """

    device: Device
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many devices."""
        return math.prod(self.shape)

    @property
    def capacity(self) -> float:
        """Bytes that programs get of a device's memory; of a CPU's simulated devices, its part of the machine's."""
        if self.device.platform == "cpu":
            return machine_memory() / self.count
        share = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "") if self.device.platform == "gpu" else ""
        is_share = re.fullmatch(r"0?\.[0-9]+|1(\.0*)?", share)
        return self.device.memory * (float(share) if is_share else self.device.usable)

    @property
    def interconnect(self) -> float | None:
        """Bytes/s that a device sends in a collective over all devices: the slowest part of the way."""
        group = self.device.group
        return self.device.interconnect if group is None or self.count <= group else self.device.network

    def peak(self, dtype: str) -> float | None:
        """FLOP/s of one device in matrix products of a type."""
        return self.device.flops if dtype == "bfloat16" else self.device.flops_float32

    @property
    def larger(self) -> "Topology | None":
        """The next larger one of the kind; None where there is none."""
        name = self.device.name
        if name in SLICES:
            texts = SLICES[name]
            place = texts.index("x".join(map(str, self.shape))) + 1
            return parse(f"{name}:{texts[place]}") if place < len(texts) else None
        side = min(range(len(self.shape)), key=lambda axis: self.shape[axis])
        shape = tuple(2 * size if axis == side else size for axis, size in enumerate(self.shape))
        made = dataclasses.replace(self, shape=shape)
        return made if made.count <= LARGEST.get(name, 4096) else None

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.device.name}:{'x'.join(map(str, self.shape))}"


def parse(text: str) -> Topology:
    """The topology that a text stands for.

    Raises:
        UserError: an unknown kind, or a number or slice that there isn't; what would be right is named.
    """
    kind, _, size = text.partition(":")
    if kind not in DEVICES:
        near = [] if kind.lower() in PLATFORMS else difflib.get_close_matches(kind.lower(), DEVICES, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UserError("topology", text, f"no such device {kind!r}{hint} It is written KIND:SIZE: {FORMS}")
    device = DEVICES[kind]
    example = next(form for form in FORMS.split(", ") if form.startswith(f"{kind}:"))
    sides = size.split("x")
    if not all(0 < (literals.counted(side) or 0) < 100_000 for side in sides) or len(sides) != (device.ranks or 1):
        what = (
            f"the sides of a slice, {device.ranks} whole numbers from 1 on" if device.ranks else "a number of devices"
        )
        raise UserError("topology", text, f"{kind} is followed by {what}: {example}")
    made = Topology(device, tuple(map(int, sides)))
    _check_slice(text, made)
    _check_boards(text, made)
    return made


def _check_boards(text: str, made: Topology) -> None:
    group = made.device.group
    if group and made.count > group and made.count % group:
        below = made.count // group * group
        near = f"{made.device.name}:{below}, {made.device.name}:{below + group}"
        raise UserError("topology", text, f"more than {group} {made.device.name} are whole boards of {group}: {near}")


def _check_slice(text: str, made: Topology) -> None:
    name = made.device.name
    if name in SLICES:
        slices = SLICES[name]
        if "x".join(map(str, made.shape)) not in slices:
            raise UserError("topology", text, f"no such slice of {name}; there are {', '.join(slices)}")
    elif made.device.ranks:
        odd = [side for side in made.shape if side > 2 and side % 4]
        if odd or made.count > LARGEST[name]:
            message = f"sides of a {name} slice are 1, 2 or multiples of 4, with {LARGEST[name]:,} chips at most"
            raise UserError("topology", text, message)


def machine_memory() -> float:
    """Bytes of this machine's memory."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
