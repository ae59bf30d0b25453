"""What the hardware can do at most, one device as JAX counts devices."""

import dataclasses

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
        usable: share of the memory that programs get.
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
