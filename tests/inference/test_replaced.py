"""No command writes over what it reads, over a run's own files, or into a checkpoint: it is refused, all stays."""

import os
import shutil

import numpy as np
import PIL.Image
import pytest
from made_checkpoint import make_run
from made_text_run import make_text_run

from vitzoo.cli import main
from vitzoo.errors import Refused
from vitzoo.replaced import Reads, check_replaces_nothing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs, weights alone, photos, and a table of them."""
    root = tmp_path_factory.mktemp("made")
    photos = root / "photos"
    for number in range(6):
        (photos / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8), 40 * number, np.uint8)
        PIL.Image.fromarray(pixels).save(photos / f"class{number % 2}" / f"{number}.png")
    rows = [f"photos/class{n % 2}/{n}.png,{n % 2},test" for n in range(6)]
    (root / "labels.csv").write_text("\n".join(["file,label,split", *rows, ""]))
    (root / "run").mkdir()
    evaluate = {"test": {"name": "classification", "split": "test", "every_epochs": 1}}
    make_run(root / "run", data=f"csv:{root}/labels.csv", evaluate=evaluate)
    (root / "run" / "metrics.jsonl").write_text("")
    (root / "run" / "curves.png").write_bytes(b"a picture")
    shutil.copytree(root / "run" / "checkpoints" / "7", root / "step")
    make_text_run(root / "text", "gpt", f"text:{root}/book.txt")
    (root / "book.txt").write_text("a book\n")
    (root / "prompts.jsonl").write_text("a\nb\n")
    (root / "texts.csv").write_text("a\nb\n")
    np.savez(root / "weights.npz", a=np.zeros(3))
    (root / "published").mkdir()
    shutil.copy(root / "weights.npz", root / "published" / "model.npz")
    (root / "soft.npz").symlink_to("weights.npz")
    os.link(root / "weights.npz", root / "hard.npz")
    (root / "soft.csv").symlink_to("labels.csv")
    (root / "linked").symlink_to("run")
    return root


def contents(root):
    """Every file with its bytes."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


OF_DATA = ["--config.data.name=csv:ROOT/labels.csv", "--config.data.split=test"]
REFUSED = {
    "the table of labels": ["eval", "--checkpoint", "ROOT/run", *OF_DATA, "--predictions", "ROOT/labels.csv"],
    "the run's own table": ["eval", "--checkpoint", "ROOT/run", "--predictions", "ROOT/labels.csv"],
    "a link to it": ["eval", "--checkpoint", "ROOT/run", "--predictions", "ROOT/soft.csv"],
    "a run's metrics": ["eval", "--workdir", "ROOT/run", "--predictions", "ROOT/run/metrics.jsonl"],
    "into a step": ["eval", "--workdir", "ROOT/run", "--output", "ROOT/run/checkpoints/7/out"],
    "into a copied step": ["eval", "--workdir", "ROOT/run", "--output", "ROOT/step/out"],
    "among photos": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=folder:ROOT/photos",
                     "--config.data.split=all", "--output", "ROOT/photos/out"],
    "weights": ["predict", "--checkpoint", "ROOT/weights.npz", "ROOT/photos", "--features", "ROOT/weights.npz"],
    "weights by a link": ["predict", "--checkpoint", "ROOT/weights.npz", "ROOT/photos", "--features", "ROOT/soft.npz"],
    "weights by a hard link": ["predict", "--checkpoint", "ROOT/weights.npz", "ROOT/photos", "--features",
                               "ROOT/hard.npz"],
    "a folder's weights": ["predict", "--checkpoint", "ROOT/published", "ROOT/photos", "--features",
                           "ROOT/published/model.npz"],
    "a part of weights": ["predict", "--checkpoint", "ROOT/weights.npz:img", "ROOT/photos", "--features",
                          "ROOT/weights.npz"],
    "metrics by predict": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--output", "ROOT/run/metrics.jsonl"],
    "metrics by a link": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--output",
                          "ROOT/linked/metrics.jsonl"],
    "into a checkpoint": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--features",
                          "ROOT/run/checkpoints/7/f.npz"],
    "into an item": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--features", "ROOT/step/params/f.npz"],
    "texts": ["predict", "--checkpoint", "ROOT/text", "--input", "ROOT/texts.csv", "--output", "ROOT/texts.csv"],
    "prompts": ["generate", "--checkpoint", "ROOT/text", "--prompts", "ROOT/prompts.jsonl", "--output",
                "ROOT/prompts.jsonl"],
    "metrics by generate": ["generate", "--checkpoint", "ROOT/text", "--prompt", "a", "--output",
                            "ROOT/run/metrics.jsonl"],
    "a photo": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/photos/class0/0.png"],
    "a new photo": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/photos/class0/new.png"],
    "a photo of a table": ["data", "show", "csv:ROOT/labels.csv", "--split", "test", "--output",
                           "ROOT/photos/class0/0.png"],
    "curves": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/run/curves.png"],
    "prepared among photos": ["data", "prepare", "folder:ROOT/photos", "--dir", "ROOT/photos"],
    "a tokenizer in a step": ["data", "prepare", "text:ROOT/book.txt", "--config.tokenizer.kind=bpe", "--output",
                              "ROOT/step/tokenizer"],
    "a page in a step": ["report", "ROOT/run", "--output", "ROOT/run/checkpoints/7/r.html"],
    "a function in a step": ["convert", "ROOT/run", "ROOT/step/f.stablehlo"],
    "a run in a step": ["convert", "ROOT/run", "ROOT/step/new"],
    "a soup in a step": ["soup", "ROOT/run", "ROOT/step", "--output", "ROOT/step/soup"],
    "a mean among steps": ["average", "--workdir", "ROOT/run", "--last", "2", "--output", "ROOT/run/checkpoints/9"],
    "a run among photos": ["train", "--config", "quickstart", "--config.data.name=folder:ROOT/photos", "--workdir",
                           "ROOT/photos/run"],
    "a sweep among photos": ["sweep", "--config", "quickstart", "--config.data.name=folder:ROOT/photos", "--over",
                             "seed=0,1", "--workdir", "ROOT/photos/runs"],
    "a training in a step": ["train", "--config", "quickstart", "--workdir", "ROOT/step/run"],
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_output_in_the_place_of_an_input_is_refused_and_all_stays(case, made, capsys):
    before = contents(made)
    command = [part.replace("ROOT", str(made)) for part in REFUSED[case]]
    assert main(command) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert any(why in line for why in ("which is read", "are read", "the run ", "lies in the checkpoint"))
    assert contents(made) == before


def test_new_files_beside_what_is_read_are_written(made, tmp_path, capsys):
    root = shutil.copytree(made, tmp_path / "copy", symlinks=True)
    photos = str(root / "photos")
    for _ in range(2):  # and replaced, where they are no input
        assert main(["predict", "--checkpoint", str(root / "run"), photos, "--output", f"{photos}/p.csv"]) == 0
        assert main(["report", str(root / "run"), "--output", str(root / "run" / "report.html")]) == 0
        assert main(["data", "show", f"folder:{photos}", "--output", str(root / "run" / "sheet.png")]) == 0
    assert "replaced" in capsys.readouterr().out


def test_a_name_in_another_case_is_the_file_where_the_system_says_so(tmp_path, monkeypatch):
    (tmp_path / "labels.csv").write_text("x")
    (tmp_path / "LABELS.CSV").write_text("x")
    monkeypatch.setattr(os.path, "samefile", lambda a, b: str(a).lower() == str(b).lower())
    with pytest.raises(Refused, match="which is read"):
        check_replaces_nothing("--output", "x", tmp_path / "LABELS.CSV", Reads([f"csv:{tmp_path}/labels.csv"]))
