"""Writes the small torch files that the tests read, with torch, which the tests don't need.

    python scripts/make_torch_files.py

Into tests/goldens/torch: `plain.pt` (a training's checkpoint: model, optimizer, arguments), `kinds.pt` (each type of
number, views, shared numbers, a parameter), `legacy.pt` (the form before 1.6), `program.pt` (TorchScript); and
`expected.npz`, what the tensors hold.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parents[1] / "tests" / "goldens" / "torch"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    saved = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 7,
        "best": np.float64(0.5),
        "args": argparse.Namespace(lr=0.1, output=Path("out")),
    }
    torch.save(saved, FOLDER / "plain.pt")
    torch.save(saved["model"], FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.jit.script(torch.nn.Linear(2, 2)).save(FOLDER / "program.pt")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    kinds = {
        **{str(kind).removeprefix("torch."): torch.tensor([0, 1, 1]).to(kind) for kind in KINDS},
        "transposed": base.T,
        "slice": base[1:3, 2:5],
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(base[0]),
    }
    torch.save(kinds, FOLDER / "kinds.pt")
    expected = {f"model/{name}": value.numpy() for name, value in saved["model"].items()}
    expected |= {name: value.detach().to(torch.float32).numpy() for name, value in kinds.items()}
    np.savez(FOLDER / "expected.npz", **expected)


KINDS = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip


if __name__ == "__main__":
    main()
