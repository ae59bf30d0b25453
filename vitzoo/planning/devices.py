"""What the hardware can do at most: dense matrix products of bfloat16, FLOP/s of one device as JAX counts devices."""

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
"""The vendors' data sheets, without sparsity; the longest name that a device's kind starts with counts."""


def peak_flops(kind: str) -> float | None:
    """The peak of a device by its `device_kind`; None where the table does not have it."""
    kind = kind.replace("Tesla ", "NVIDIA ").replace("NVIDIA NVIDIA", "NVIDIA")
    matching = [name for name in PEAK_FLOPS if kind.startswith(name)]
    return PEAK_FLOPS[max(matching, key=len)] if matching else None
