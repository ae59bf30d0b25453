"""Damages copies of the golden folders of published weights at random and reads them: what comes out must be a refusal
of one line, or a whole model of finite numbers. Prints the counts and whatever else came out; exits 1 if anything did.

    python scripts/fuzz_weights.py --cases 3000 --seed 0
    python scripts/fuzz_weights.py --seed 0 --only 1234        # one case again, with what it says
"""

import argparse
import collections
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from vitzoo.config.assembly import from_description
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.weights.open import open_weights, read_weights

GOLDENS = Path(__file__).parents[1] / "tests" / "goldens" / "weights"
HEADS = {name: {"num_heads": 3} for name in ("timm-vit/alone", "facebook-vit", "torchvision-vit", "vit-pytorch")}
"""What must be given of the goldens that don't say it."""
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 12, 2**31, 10**400, 0.0, 0.5, -1e-5, 1.0, 1e308, float("nan"), float("inf")),
    *("", "12", "gelu", "a\nb", "\ud83d", "../evil", "x" * 5000, [], [1], [[]], ["a"], {}, {"a": 1}, {"0": None}),
)
TEXTS = ("", "[" * 10**5, "[]", "null", "{", '{"a": 1, "a": 2}', "\ufeff{}", '{"\\ud83d": 1}', '{"a": NaN}')
TYPES = ("int32", "bool", "complex64", "float16", "float64", "uint8", "datetime64[s]", "U3")


def damage_json(file: Path, draw: random.Random) -> str:
    """One value by another or none, or the whole file."""
    content = json.loads(file.read_text())
    if draw.random() < 0.1 or not content:
        file.write_text(text := draw.choice(TEXTS))
        return f"{file.name} holds {text[:20]!r}"
    node, path = content, list[Any]()
    while isinstance(node, dict | list) and node and (not path or draw.random() < 0.5):
        above, key = node, draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node, path = node[key], [*path, key]
    above[key] = value = draw.choice(VALUES)
    if removed := draw.random() < 0.1:
        del above[key]
    file.write_text(json.dumps(content))
    return f"{file.name}: {path} {'removed' if removed else f'= {str(value)[:40]!r}'}"


def other(array: np.ndarray, draw: random.Random) -> np.ndarray:
    """An array of another type, rank or shape, or with a number that isn't one."""
    kind = draw.choice(("type", "rank", "shape", "number"))
    if kind == "type":
        return array.astype(draw.choice(TYPES))
    if kind == "rank":
        return draw.choice((array[None], array[..., None], array.ravel(), array.reshape(-1)[0], array.T))
    if kind == "shape":
        return draw.choice((array[:-1], array[..., :-1], array[:0], np.concatenate([array, array])))
    array = np.array(array, np.float64)
    array.flat[draw.randrange(array.size)] = draw.choice((np.nan, np.inf, -np.inf, 1e300))
    return array.astype(draw.choice((np.float32, np.float64, ml_dtypes.bfloat16)))


def damage_arrays(file: Path, draw: random.Random) -> str:
    """One array of a safetensors file or of a NumPy archive, or its name."""
    safe = file.suffix == ".safetensors"
    arrays = dict(safetensors.numpy.load_file(file) if safe else np.load(file))
    name = draw.choice(sorted(arrays))
    if draw.random() < 0.1:
        arrays[draw.choice((f"{name}.more", name.replace("0", "7"), "a\nb", "x" * 3000))] = arrays.pop(name)
        what = "renamed"
    else:
        arrays[name] = other(arrays[name], draw)
        what = f"{arrays[name].dtype} {arrays[name].shape}"
    if safe:
        safetensors.numpy.save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, file)
    else:
        np.savez(file, **arrays)
    return f"{name} is {what}"


def damage_pickle(file: Path, draw: random.Random) -> str:
    """The description within a torch file, which is packed anew so that its sums are right."""
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: bytearray(archive.read(entry)) for entry in archive.infolist()}
    content = next(content for name, content in entries.items() if name.endswith("data.pkl"))
    for _ in range(draw.randrange(1, 4)):
        content[draw.randrange(len(content))] = draw.randrange(256)
    with zipfile.ZipFile(file, "w") as archive:
        for name, entry in entries.items():
            archive.writestr(name, bytes(entry))
    return f"{file.name}: data.pkl"


def damage_bytes(file: Path, draw: random.Random) -> str:
    """Some bytes, at the beginning or anywhere, or a part cut out."""
    content, kind = bytearray(file.read_bytes()), draw.choice(("bytes", "head", "cut"))
    start = draw.randrange(min(len(content), 2000 if kind == "head" else len(content)))
    if kind == "cut":
        del content[start : start + draw.randrange(1, len(content))]
    else:
        content[start : start + 1] = [draw.choice((0, 1, 34, 91, 123, 255, draw.randrange(256)))]
    file.write_bytes(content)
    return f"{file.name}: {kind}"


WAYS: Mapping[str, Any] = {
    ".json": (damage_json, damage_json, damage_json, damage_bytes),
    **dict.fromkeys((".safetensors", ".npz"), (damage_arrays, damage_arrays, damage_bytes)),
    **dict.fromkeys((".pth", ".pt"), (damage_pickle, damage_bytes)),
}


def damage(folder: Path, draw: random.Random) -> str:
    """One damage to one file; none where an earlier one left nothing that the tool can read."""
    file = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    try:
        return draw.choice(WAYS.get(file.suffix, (damage_bytes,)))(file, draw)
    except Exception:
        return "nothing more"


def golden_places() -> list[Path]:
    """The golden folders, and the files that stand alone."""
    found = sorted(path for path in GOLDENS.rglob("*") if path.suffix in (".safetensors", ".pth", ".pt", ".npz"))
    alone = ("big_vision", "vision_transformer")
    single = [path for path in found if path.parent.name in alone and path.suffix == ".npz" and path.stem != "expected"]
    return sorted({path.parent for path in found if path.suffix != ".npz"}) + single


def check(place: Path, given: Mapping[str, Any]) -> None:
    """Reads weights; AssertionError where what they give is no whole model."""
    located = open_weights(str(place), given)
    found = flatten(read_weights(located)[0])
    made = from_description(located.description)
    config, (_, shapes) = made.config, made.abstract
    right = {path: leaf.shape for path, leaf in flatten(shapes).items()}
    assert {path: leaf.shape for path, leaf in found.items()} == right, "leaves aren't the model's"
    assert all(leaf.dtype == np.float32 and np.isfinite(leaf).all() for leaf in found.values()), "numbers aren't finite"
    classes, count = located.description["classes"], getattr(config, "num_classes", None)
    assert classes is None or (len(classes) == count and all(isinstance(name, str) for name in classes)), "classes"
    json.dumps(located.description, allow_nan=False)


def run(golden: Path, draw: random.Random) -> tuple[str, str]:
    """One case: its outcome (`read`, `refused`, `WRONG`), and what was done and said."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        if golden.is_dir():
            shutil.copytree(golden, folder, ignore=shutil.ignore_patterns("expected.npz"))
        else:
            folder.mkdir()
            shutil.copy(golden, folder)
        what = [damage(folder, draw) for _ in range(draw.choice((1, 1, 1, 2)))]
        given = next((heads for name, heads in HEADS.items() if name in str(golden)), {})
        try:
            check(folder / "ckpt.pt" if golden.name == "nanogpt" else folder, given)
            return "read", f"{what}"
        except UserError as refusal:
            one_line = len(str(refusal).splitlines()) == 1
            return "refused" if one_line else "WRONG", f"{what}\n{refusal}".replace(temporary, "")
        except BaseException:
            return "WRONG", f"{what}\n{traceback.format_exc()}"


def main() -> int:
    """Runs the cases and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    goldens = golden_places()
    counts, begun = collections.Counter[str](), time.time()
    for number in range(arguments.cases) if arguments.only is None else [arguments.only]:
        draw = random.Random(f"{arguments.seed} {number}")
        golden = draw.choice(goldens)
        outcome, said = run(golden, draw)
        counts[outcome] += 1
        if outcome == "WRONG" or arguments.only is not None:
            print(f"case {number}, {golden.relative_to(GOLDENS)}, {outcome}: {said}", flush=True)
    print(f"{sum(counts.values())} cases in {time.time() - begun:.0f} s: {dict(counts)}")
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
