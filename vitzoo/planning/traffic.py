"""Bytes that a step sends between devices, each device's own, by the ways in which such a program is compiled.

Over n devices in a ring a gather of the whole from its parts, or a sum of which each keeps its part, sends
(n - 1) / n of the whole from every device; a sum of which each keeps the whole is both, one after the other.
"""

import dataclasses
from collections.abc import Mapping

from vitzoo.planning.layout import Layout, Leaf
from vitzoo.planning.live import Operation, Program
from vitzoo.planning.memory import OnDevice


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes that each device sends in a step.

    Attributes:
        gathers: of weights that lie over `fsdp`: before the forward and before the backward pass of each micro-batch.
        reductions: of their gradients, each device keeping its part.
        sums: of gradients over `data`, and of those that lie whole over `fsdp`.
        tensor: of activations over `tensor`.
        rows: of the batch, where each row is mixed with one of another device.
    """

    gathers: float
    reductions: float
    sums: float
    tensor: float
    rows: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.gathers + self.reductions + self.sums + self.tensor + self.rows


def traffic(
    layout: Layout, program: Program, weigh: OnDevice, remat: str, accumulate: int, itemsize: int, mixed: int = 0
) -> Traffic:
    """What a step sends.

    Args:
        layout: of the state.
        program: of a micro-batch, its layers in loops.
        weigh: what lies on a device.
        remat: the policy.
        accumulate: micro-batches.
        itemsize: bytes of a number in products, of which gathered weights and gradients under way are.
        mixed: bytes of a device's rows that others are mixed with.
    """
    sizes = layout.sizes
    gathers = reductions = sums = 0.0
    for leaf in layout.leaves:
        part = leaf.size * itemsize / leaf.cut({**sizes, "fsdp": 1})
        if "fsdp" in leaf.placed:
            # a loop's weights are gathered anew in its backward pass; others are kept
            gathers += (2 if leaf.stacked else 1) * part * _share(sizes["fsdp"])
            reductions += part * _share(sizes["fsdp"])
        sums += 2 * _summed(leaf, sizes, itemsize)
    tensor = 2 * _share(sizes["tensor"]) * _shared_sums(layout, program, weigh, remat)
    return Traffic(
        gathers=accumulate * gathers,
        reductions=accumulate * reductions,
        sums=accumulate * sums,
        tensor=accumulate * tensor,
        rows=mixed if sizes["data"] * sizes["fsdp"] > 1 else 0,
    )


def _share(count: int) -> float:
    return (count - 1) / count


def _summed(leaf: Leaf, sizes: Mapping[str, int], itemsize: int) -> float:
    """Bytes of the gradient that devices with the same part of a leaf sum up, one way."""
    copies = sizes["data"] * (1 if "fsdp" in leaf.placed else sizes["fsdp"])
    return leaf.size * itemsize / leaf.cut(sizes) * _share(copies)


def _shared_sums(layout: Layout, program: Program, weigh: OnDevice, remat: str) -> float:
    """Bytes of the sums over devices that share layers: in the forward pass what an output or down projection gives, in
    the backward pass the gradient of what attention or an MLP is given. Full remat does those of the forward pass
    again, but for a layer's last.
    """
    if weigh.tensor == 1:
        return 0.0
    loops = [one for one in program.operations if one.body is not None and _stream(program, one, weigh)]
    stacks = sorted({leaf.stack for leaf in layout.leaves if leaf.stacked}, key=lambda name: (name != "encoder", name))
    total = 0.0
    for stack, loop in zip(stacks, loops[: len(stacks)], strict=False):
        sums = sum(leaf.gives_parts for leaf in layout.leaves if leaf.stack == stack)
        again = max(sums - 1, 0) if remat == "full" else 0
        total += loop.length * _stream(program, loop, weigh) * (2 * sums + again)
    return total


def _stream(program: Program, loop: Operation, weigh: OnDevice) -> float:
    """Bytes of the tokens that a loop over layers carries on."""
    carried = [program.avals[var] for var in loop.made[: loop.carried]]
    return max((weigh.array(aval) for aval in carried if weigh.grows(aval)), default=0.0)
