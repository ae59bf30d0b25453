"""Surfaces of checkpoints: published weights and run folders."""

import random
from collections.abc import Mapping
from pathlib import Path

import fuzz_weights

from fuzzing import made
from fuzzing.mutations import copied, damage_file, files_in, odd_entry, several, write

FINETUNE = "train --config vit/finetune --config.data.name=digits --workdir w --dry-run --config.init_from="
CONTENTS = ("[]", "5", "null", "{}", '""', "", "[" * 1500, "true", "\x00", "{}\n{}", "nan", '{"a": {"a": 1}}')
SPOTS = ("run", "run", "run", "run@best", "run@2", "run@99", "run/checkpoints/4", "run/checkpoints", "run@", "run@é")


def weights(draw: random.Random, base: Path) -> list[str]:
    """Published weights with damaged files."""
    golden = draw.choice(fuzz_weights.golden_places())
    folder = copied(golden, "weights") if golden.is_dir() else Path("weights")
    if not golden.is_dir():
        folder.mkdir()
        copied(golden, f"weights/{golden.name}")
    (folder / "expected.npz").unlink(missing_ok=True)
    largest = max(folder.rglob("*.*"), key=lambda file: file.stat().st_size)
    several(draw, lambda: _change_weights(folder, draw))
    place = draw.choice(("weights", str(largest)))
    given: Mapping[str, int] = next((given for name, given in fuzz_weights.HEADS.items() if name in str(golden)), {})
    convert = ["convert", place, "out", *(f"--config.model.{key}={value}" for key, value in given.items())]
    texts = draw.choice((["predict", "--text", "a"], ["generate", "--prompt", "a", "--max-new-tokens", "1"]))
    use = draw.choice((texts, ["predict", f"{base}/pictures/cats/a.png"]))
    return draw.choice((*[convert] * 5, f"{FINETUNE}{place}".split(), [*use, "--checkpoint", place]))


def _change_weights(folder: Path, draw: random.Random) -> None:
    files = files_in(folder)
    kind = draw.choice(("kind", "kind", "kind", "kind", "bytes", "bytes", "entry"))
    if files and kind == "kind":
        fuzz_weights.damage(folder, draw)
    elif files and kind == "bytes":
        damage_file(draw.choice(files), draw, files)
    elif files:
        odd_entry(draw.choice(files), draw)


def runs(draw: random.Random, base: Path) -> list[str]:
    """A run folder with damaged files."""
    name = draw.choice(("vit", "vit", "gpt", "bert"))
    folder = copied(base / "runs" / name, "run")
    several(draw, lambda: _change_run(folder, draw))
    spot, other = draw.choice(SPOTS), f"{base}/runs/{name}"
    flags = [flag.replace(":texts/", f":{base}/texts/") for flag in (*made.RUNS[name], *made.EXTRA[name])]
    light = (
        *(["report", "run", "--output", "o.html"], ["report", "run", other, "--output", "o.html"]),
        *(["train", "--workdir", "run", "--dry-run"], ["train", *flags, "--workdir", "run", "--dry-run"]),
        *(["train", *flags, "--workdir", "run"], ["convert", spot, "out"], ["soup", spot, other, "--output", "out"]),
        *(["average", "--workdir", "run", "--last", "2", "--output", "out"], f"{FINETUNE}{spot}".split()),
    )
    inputs = {"vit": ["predict", f"{base}/pictures/cats/a.png"], "bert": ["predict", "--text", "a"]}
    use = [*inputs.get(name, ["generate", "--prompt", "Line", "--max-new-tokens", "1"]), "--checkpoint", spot]
    measure = ["eval", "--checkpoint", spot, "--config.data.split=train[:8]", "--config.data.batch_size=8"]
    return draw.choice((*light, *light, use, measure))


def _change_run(folder: Path, draw: random.Random) -> None:
    files = files_in(folder)
    plain = [file for file in files if file.suffix in (".json", ".jsonl") or file.name == ".lock"]
    among = draw.choice((plain, plain, files))
    if not among:
        return
    file = draw.choice(among)
    kind = draw.choice(("file", "file", "file", "file", "entry", "folder", "content"))
    if kind == "entry":
        odd_entry(file, draw)
    elif kind == "folder":
        odd_entry(draw.choice(sorted(path for path in folder.rglob("*") if path.is_dir()) or [file]), draw)
    elif kind == "content":
        write(file, draw.choice(CONTENTS))
    else:
        damage_file(file, draw, files)
