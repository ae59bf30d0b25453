"""The evaluators' examples: those that are trained on are said, and a resume knows when they have changed."""

import shutil

import numpy as np
import pytest
from PIL import Image

from vitzoo.cli import main


def pictures(folder, split, count, seed=0):
    random = np.random.default_rng(seed)
    for label in ("cat", "dog"):
        (folder / split / label).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
            Image.fromarray(pixels).save(folder / split / label / f"{number}.png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "photos"
    pictures(folder, "train", 5)
    pictures(folder, "validation", 2, seed=1)
    return folder


@pytest.fixture(scope="module")
def config(tmp_path_factory, photos):
    file = tmp_path_factory.mktemp("configs") / "tiny.py"
    file.write_text(f"""
import vitzoo

def get_config():
    config = vitzoo.config.default()
    config.total_steps = 2
    sizes = dict(patch_size=8, width=8, depth=1, num_heads=1, mlp_dim=8, image_size=8)
    config.model = dict(name="vit", variant="Ti/16", **sizes)
    config.objective = dict(name="classification")
    config.data = dict(name="folder:{photos}", split="train", batch_size=4)
    config.optimizer = dict(name="adamw", learning_rate=1e-3)
    config.schedule = dict(name="constant")
    config.mesh = "data:1"
    config.log = dict(tensorboard=False)
    config.evaluate = dict(
        val=dict(name="classification", split="validation", every_steps=1),
        other=dict(name="classification", split="validation", every_steps=2),
    )
    config.checkpoint = dict(keep_best="val/loss", every_steps=1, keep=3)
    return config
""")
    return file


@pytest.mark.parametrize(
    ("train", "measured", "said"),
    [
        ("all", "validation", "4 of its 4 examples are trained on (data.split = all), and val/loss chooses the best"),
        ("train[:60%]", "train[50%:]", "1 of its 5 examples are trained on"),
        ("train+validation[1:]", "validation", "3 of its 4 examples are trained on"),
        ("train", "train", "10 of its 10 examples are trained on"),
        ("train[:50%]", "train[50%:]", None),
        ("train", "validation", None),
    ],
)
def test_an_evaluator_of_examples_that_are_trained_on_is_said(train, measured, said, config, tmp_path, capsys):
    flags = [f"--config.data.split={train}", f"--config.evaluate.val.split={measured}"]
    assert main(["train", "--config", str(config), *flags, "--workdir", str(tmp_path / "run"), "--dry-run"]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if "evaluate.val.split" in line and "warning" in line
    ]
    assert (said in lines[0]) if said else not lines


def twice(folder, kind):
    """Eight pictures, four of which are there twice, the second time behind the others; and the name of the data."""
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (8, 8, 3), np.uint8) for _ in range(8)]
    images, labels = images + images[:4], ["cat", "dog"] * 6
    (folder / "of").mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / "of" / f"{number:02}.png")
    rows = [f"of/{number:02}.png,{label}" for number, label in enumerate(labels)]
    (folder / "pictures.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    if kind == "csv":
        return f"csv:{folder / 'pictures.csv'}", []
    where = str(folder / "prepared")
    whole = "--config.data.validation_fraction=0"
    assert main(["data", "prepare", f"csv:{folder / 'pictures.csv'}", "--dir", where, "--shards", "2", whole]) == 0
    if kind == "as TFDS writes":  # without the keys
        for name in ("image_keys.npz", "checksums.json"):
            next((folder / "prepared").rglob(name)).unlink()
    return "pictures", [f"--config.data.dir={where}"]


@pytest.mark.parametrize("kind", ["csv", "prepared", "as TFDS writes"])
@pytest.mark.parametrize(
    ("train", "measured", "count"),
    [
        ("train[:8]", "train[8:]", "4 of its 4"),
        ("train[:75%]", "train[75%:]", "3 of its 3"),
        ("train[4:8]", "train[8:]", ""),
    ],
)
def test_an_evaluator_of_copies_of_what_is_trained_on_is_said(kind, train, measured, count, config, tmp_path, capsys):
    name, flags = twice(tmp_path, kind)
    said = capsys.readouterr().out
    # the slices that are proposed, 90% and 10%: of the last, 11th image (from 0) a copy is trained on
    assert ("1 of the 1 images of train[90%:] are equal to others in train[:90%]" in said) == (kind != "csv")
    flags += [f"--config.data.name={name}", f"--config.data.split={train}", "--config.data.validation_fraction=0"]
    flags += [f"--config.evaluate.val.split={measured}", f"--config.evaluate.other.split={train}"]
    flags = [flag for flag in flags if kind == "csv" or "fraction" not in flag]
    assert main(["train", "--config", str(config), *flags, "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: evaluate.val.split")]
    told = f"{count} examples are equal to others, which are trained on (data.split = {train})"
    assert [told in line for line in lines] == ([True] if count else [])


@pytest.fixture(scope="module")
def run(config, photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "--config", str(config), "--workdir", str(folder)]) == 0
    shutil.rmtree(folder / "checkpoints" / "2")  # as if it had been ended there
    return folder


@pytest.mark.gate
@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ([], 2, "checkpoint.keep_best = val/loss: its examples have changed since this run began"),
        (["--config.checkpoint.keep_best="], 0, "evaluate.val: its examples have changed since this run began"),
    ],
)
def test_a_resume_whose_evaluators_measure_other_examples(
    flags, code, said, dry, run, config, photos, tmp_path, capsys
):
    folder, moved = shutil.copytree(run, tmp_path / "run"), photos / "validation" / "cat" / "0.png"
    aside = moved.rename(tmp_path / "0.png")
    try:
        flags = [*flags, "--config.data.prefetch=3"]  # a config of its own, whose data these tests open anew
        command = ["train", "--config", str(config), *flags, "--workdir", str(folder)]
        assert main([*command, "--dry-run"] if dry else command) == code
        printed = capsys.readouterr()
        assert said in printed.out + printed.err
    finally:
        aside.rename(moved)
