"""How many devices of which kind (`v5e:16x16`, `h100:8`, `cpu:8`), and what each can do at most.

A device is what JAX counts as one.
"""

import dataclasses
import difflib
import math
import os
import re

from vitzoo import literals
from vitzoo.errors import UserError

PEAK_FLOPS: dict[str, float] = {
    "TPU v2": 22.5e12,  # JAX shows a v2 or v3 chip's two cores as two devices
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
    "TPU7x": 1153.5e12,  # half a chip's 2,307e12: a device is one of its two chiplets
    "NVIDIA V100": 125e12,
    "NVIDIA A100": 312e12,
    "NVIDIA A10": 125e12,
    "NVIDIA L4": 121e12,
    "NVIDIA L40S": 362e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA B200": 2250e12,
}
"""Dense matrix products of bfloat16, FLOP/s: the vendors' data sheets, without sparsity; the longest name that a
device's kind starts with counts."""


def peak_flops(kind: str) -> float | None:
    """The peak of a device by its `device_kind`; None where the table does not have it."""
    kind = kind.replace("Tesla ", "NVIDIA ").replace("NVIDIA NVIDIA", "NVIDIA")
    matching = [name for name in PEAK_FLOPS if kind.startswith(name)]
    return PEAK_FLOPS[max(matching, key=len)] if matching else None


@dataclasses.dataclass(frozen=True)
class Device:
    """One device as JAX counts devices; None where no figure is known.

    Attributes:
        name: as a topology names it.
        platform: `cpu`, `gpu` or `tpu`.
        memory: bytes.
        flops: peak of matrix products in bfloat16, FLOP/s, dense.
        flops_float32: peak of matrix products of float32 arrays as JAX computes them by default.
        bandwidth: of the memory, bytes/s.
        interconnect: bytes/s that a device sends to its neighbours, all links together, one direction.
        group: devices that are so connected; None: all of a slice.
        network: bytes/s of each device beyond its group.
        usable: fraction of the memory that programs get.
        ranks: dimensions of a topology, `16x16` has two; 0 where it is a number.
        kind: JAX's `device_kind` begins so.
    """

    name: str
    platform: str
    memory: float
    flops: float | None
    flops_float32: float | None
    bandwidth: float | None
    interconnect: float | None
    group: int | None = None
    network: float | None = None
    usable: float = 1.0
    ranks: int = 0
    kind: str = ""


GIB = 2.0**30
_XLA = 15.75 / 16
"""What a TPU's runtime leaves of the memory: a v5e's compiler says 15.75 of 16 GiB."""
_JAX_GPU = 0.75
"""What JAX takes of a GPU's memory unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise."""


def _tpu(name: str, memory: float, flops: float, bandwidth: float, links: float, ranks: int, kind: str) -> Device:
    # by default JAX rounds the factors of a float32 product to bfloat16, so that both have one peak
    return Device(name, "tpu", memory * GIB, flops, flops, bandwidth, links, usable=_XLA, ranks=ranks, kind=kind)


def _gpu(name: str, memory: float, flops: float, bandwidth: float, links: float, network: float, kind: str) -> Device:
    # by default JAX computes float32 products in TF32, at half the rate of bfloat16; eight GPUs share a board
    half = flops / 2
    return Device(name, "gpu", memory, flops, half, bandwidth, links, 8, network, usable=_JAX_GPU, kind=kind)


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        # Google Cloud's page of each TPU: memory, bfloat16 peak, memory bandwidth, half of the bidirectional
        # inter-chip bandwidth of a chip. Published: v4 2,400 Gbit/s, v5e 400 GB/s, v5p 1,200 GB/s, v6e 800 GB/s
        _tpu("v4", 32, 275e12, 1228e9, 150e9, 3, "TPU v4"),
        _tpu("v5e", 16, 197e12, 819e9, 200e9, 2, "TPU v5 lite"),
        _tpu("v5p", 95, 459e12, 2765e9, 600e9, 3, "TPU v5"),
        _tpu("v6e", 32, 918e12, 1640e9, 400e9, 2, "TPU v6 lite"),
        # NVIDIA's data sheets of the SXM boards: memory, dense bfloat16 peak, memory bandwidth, half of NVLink's
        # bidirectional bandwidth; beyond a board the network of a DGX: 400 Gbit/s a GPU (H100, H200), 200 (A100)
        _gpu("h100", 80e9, 989e12, 3.35e12, 450e9, 50e9, "NVIDIA H100"),
        _gpu("h200", 141e9, 989e12, 4.8e12, 450e9, 50e9, "NVIDIA H200"),
        _gpu("a100", 40e9, 312e12, 1.555e12, 300e9, 25e9, "NVIDIA A100"),
        _gpu("a100-80gb", 80e9, 312e12, 2.039e12, 300e9, 25e9, "NVIDIA A100"),
        # simulated devices of this machine, which share its memory; no peak known
        Device("cpu", "cpu", 0, None, None, None, None),
    )
}


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
        fraction = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "") if self.device.platform == "gpu" else ""
        is_fraction = re.fullmatch(r"0?\.[0-9]+|1(\.0*)?", fraction)
        return self.device.memory * (float(fraction) if is_fraction else self.device.usable)

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
