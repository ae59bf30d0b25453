"""Makes tests/goldens/optimizer_t5_adafactor.npz: what transformers' Adafactor makes of a T5's tensors in some steps.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers
    /tmp/peer/bin/python scripts/make_optimizer_goldens.py tests/goldens

The tensors have the names and the shapes of transformers' T5, linear layers [outputs, inputs]. Of each the file holds
`before/NAME`, `gradient/NAME` [steps, ...] and `after/NAME`. transformers factors every matrix, however small.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.optimization import Adafactor

WIDTH, HEADS, HEAD_DIM, HIDDEN, STEPS, RATE = 10, 3, 4, 14, 6, 0.1
SHAPES = {
    "SelfAttention.q.weight": (HEADS * HEAD_DIM, WIDTH),
    "SelfAttention.k.weight": (HEADS * HEAD_DIM, WIDTH),
    "SelfAttention.v.weight": (HEADS * HEAD_DIM, WIDTH),
    "SelfAttention.o.weight": (WIDTH, HEADS * HEAD_DIM),
    "DenseReluDense.wi.weight": (HIDDEN, WIDTH),
    "DenseReluDense.wo.weight": (WIDTH, HIDDEN),
    "layer_norm.weight": (WIDTH,),
}


def main(folder: Path) -> None:
    draw = np.random.default_rng(0)
    before = {name: draw.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    # rows and columns of unlike size, so that another factoring gives another update
    gradients = {
        name: (draw.normal(size=(STEPS, *shape)) * np.exp(draw.normal(size=(STEPS, *shape)))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in before.items()}
    optimizer = Adafactor(parameters.values(), lr=RATE, scale_parameter=True, relative_step=False, warmup_init=False)
    for step in range(STEPS):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradients[name][step])
        optimizer.step()
    arrays: dict[str, Any] = {f"before/{name}": value for name, value in before.items()}
    arrays |= {f"gradient/{name}": value for name, value in gradients.items()}
    arrays |= {f"after/{name}": parameter.detach().numpy() for name, parameter in parameters.items()}
    np.savez(folder / "optimizer_t5_adafactor.npz", rate=np.float32(RATE), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
