"""No command writes over what it reads, over a run's own files, or into a checkpoint: it is refused, all stays."""

import concurrent.futures
import os
import shutil

import numpy as np
import pytest
from made_checkpoint import make_run
from made_text_run import make_text_run
from PIL import Image

from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.overwriting import Reads, check_replaces_nothing


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs, weights alone, photos, and a table of them."""
    root = tmp_path_factory.mktemp("made")
    photos = root / "photos"
    for number in range(6):
        (photos / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8), 40 * number, np.uint8)
        Image.fromarray(pixels).save(photos / f"class{number % 2}" / f"{number}.png")
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
    for folder in ("lines", "texts", "prepared/digits/1.0.0"):
        (root / folder).mkdir(parents=True)
    for file in ("lines/train.jsonl", "lines/validation.jsonl", "texts/notes.csv", "texts/a.txt"):
        (root / file).write_text('{"text": "a b"}\n')
    for file in ("dataset_info.json", "features.json", "digits-train.jsonl"):
        (root / "prepared" / "digits" / "1.0.0" / file).write_text("{}")
    (root / "lines.jsonl").symlink_to("lines/train.jsonl")
    os.link(root / "texts" / "notes.csv", root / "notes.csv")
    (root / "photos" / "notes.csv").write_text("x")
    for folder in ("table", "linked_table", "linked_image", "listed", "in_lines"):
        (root / folder).mkdir()
    (root / "table" / "per_class.csv").write_text((root / "labels.csv").read_text().replace("photos", "../photos"))
    (root / "linked_table" / "metrics.json").symlink_to("../labels.csv")
    (root / "linked_image" / "confusion.png").symlink_to("../photos/class0/0.png")
    shutil.copy(root / "photos" / "class0" / "0.png", root / "listed" / "mistakes.png")
    (root / "listed" / "mine.csv").write_text("file,label,split\nmistakes.png,0,test\n")
    shutil.copy(root / "photos" / "class0" / "0.png", root / "in_lines" / "mistakes.png")
    (root / "in_lines" / "test.jsonl").write_text('{"file": "./m\\u0069stakes.png", "label": "0"}\n')
    (root / "mine").mkdir()
    for name in ("photo.png", "confusion.png"):
        shutil.copy(root / "photos" / "class0" / "0.png", root / "mine" / name)
    Image.new("RGB", (3, 3)).save(root / "mine" / "photo.jpg", comment="vitzoo")
    (root / "mine" / "notes.png").write_text("vitzoo")
    (root / "flags.csv").write_text(f"--checkpoint={root}/run\n--output={root}/flags.csv\n")
    (root / "p.csv").write_text("mine")
    (root / "link.csv").symlink_to("new.npz")
    (root / "new.npz").write_text("x")
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
    "another photo": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/mine/photo.png"],
    "another photo as JPEG": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/mine/photo.jpg"],
    "what is no picture": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/mine/notes.png"],
    "another's picture among results": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/mine"],
    "among other photos": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/photos"],
    "as a class of photos": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/photos/class0"],
    "of text, among photos": ["eval", "--checkpoint", "ROOT/text", "--output", "ROOT/photos"],
    "of a benchmark, among photos": ["eval", "--checkpoint", "ROOT/run", "--benchmark", "cifar10", "--output",
                                     "ROOT/photos"],
    "curves": ["data", "show", "folder:ROOT/photos", "--output", "ROOT/run/curves.png"],
    "prepared among photos": ["data", "prepare", "folder:ROOT/photos", "--dir", "ROOT/photos"],
    "a tokenizer in a step": ["data", "prepare", "text:ROOT/book.txt", "--config.inputs.tokens.tokenizer.kind=bpe",
                              "--output", "ROOT/step/tokenizer"],
    "a page in a step": ["report", "ROOT/run", "--output", "ROOT/run/checkpoints/7/r.html"],
    "a function in a step": ["convert", "ROOT/run", "ROOT/step/f.stablehlo"],
    "a run in a step": ["convert", "ROOT/run", "ROOT/step/new"],
    "a soup in a step": ["soup", "ROOT/run", "ROOT/step", "--output", "ROOT/step/soup"],
    "a mean among steps": ["average", "--workdir", "ROOT/run", "--last", "2", "--output", "ROOT/run/checkpoints/9"],
    "a run among photos": ["train", "--config", "quickstart", "--config.data.name=folder:ROOT/photos", "--workdir",
                           "ROOT/photos/run"],
    "a sweep among photos": ["sweep", "--config", "quickstart", "--config.data.name=folder:ROOT/photos", "--over",
                             "seed=0,1", "--workdir", "ROOT/photos/runs"],
    "lines of a folder": ["eval", "--checkpoint", "ROOT/text", "--config.data.name=jsonl:ROOT/lines",
                          "--config.data.split=validation", "--predictions", "ROOT/lines/train.jsonl"],
    "new lines of a folder": ["eval", "--checkpoint", "ROOT/text", "--config.data.name=jsonl:ROOT/lines",
                              "--config.data.split=validation", "--predictions", "ROOT/lines/test.jsonl"],
    "lines by a link": ["eval", "--checkpoint", "ROOT/text", "--config.data.name=jsonl:ROOT/lines",
                        "--config.data.split=validation", "--predictions", "ROOT/lines.jsonl"],
    "a file beside texts": ["eval", "--checkpoint", "ROOT/text", "--config.data.name=text:ROOT/texts",
                            "--config.data.split=all", "--predictions", "ROOT/texts/notes.csv"],
    "its hard link": ["eval", "--checkpoint", "ROOT/text", "--config.data.name=text:ROOT/texts",
                      "--config.data.split=all", "--predictions", "ROOT/notes.csv"],
    "a file among photos": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=folder:ROOT/photos",
                            "--config.data.split=all", "--predictions", "ROOT/photos/notes.csv"],
    "prepared data": ["eval", "--checkpoint", "ROOT/run", "--config.data.dir=ROOT/prepared", "--predictions",
                      "ROOT/prepared/digits/1.0.0/digits-train.jsonl"],
    "a prepared folder": ["eval", "--checkpoint", "ROOT/run", "--config.data.dir=ROOT/prepared/digits/1.0.0",
                          "--predictions", "ROOT/prepared/digits/1.0.0/digits-train.jsonl"],
    "a table in the folder": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=csv:ROOT/table/per_class.csv",
                              "--config.data.split=test", "--output", "ROOT/table"],
    "a linked table": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/linked_table"],
    "a linked image": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/linked_image"],
    "an image that a table lists": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=csv:ROOT/listed/mine.csv",
                                    "--config.data.split=test", "--output", "ROOT/listed"],
    "a photo that lines name": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=jsonl:ROOT/in_lines/test.jsonl",
                                "--config.data.split=all", "--output", "ROOT/in_lines"],
    "a photo that lines of a folder name": ["eval", "--checkpoint", "ROOT/run", "--config.data.split=test", "--output",
                                            "ROOT/in_lines", "--config.data.name=jsonl:ROOT/in_lines"],
    "what it was trained on": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--output", "ROOT/labels.csv"],
    "what its step was trained on": ["predict", "--checkpoint", "ROOT/run/checkpoints/7", "ROOT/photos", "--output",
                                     "ROOT/labels.csv"],
    "what a copied step was": ["predict", "--checkpoint", "ROOT/step", "ROOT/photos", "--output", "ROOT/labels.csv"],
    "what it was, not what is measured": ["eval", "--checkpoint", "ROOT/run", "--config.data.name=folder:ROOT/photos",
                                          "--config.data.split=all", "--predictions", "ROOT/labels.csv"],
    "the file of flags": ["predict", "--flagfile", "ROOT/flags.csv", "ROOT/photos"],
    "a training in a step": ["train", "--config", "quickstart", "--workdir", "ROOT/step/run"],
}  # fmt: skip


MADE = "is there, and no picture that vitzoo made; name another file"


@pytest.mark.parametrize("case", REFUSED)
def test_an_output_in_the_place_of_an_input_is_refused_and_all_stays(case, made, capsys):
    before = contents(made)
    command = [part.replace("ROOT", str(made)) for part in REFUSED[case]]
    assert main(command) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert any(
        why in line
        for why in ("which is read", "are read", "the run ", "lies in the checkpoint", "holds images (", MADE)
    )
    assert contents(made) == before


TWICE = {
    "a table of the folder": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/new", "--predictions",
                              "ROOT/new/per_class.csv"],
    "by a link": ["predict", "--checkpoint", "ROOT/run", "ROOT/photos", "--output", "ROOT/link.csv", "--features",
                  "ROOT/new.npz"],
    "the folder": ["eval", "--checkpoint", "ROOT/run", "--output", "ROOT/new.csv", "--predictions", "ROOT/new.csv"],
    "texts": ["predict", "--checkpoint", "ROOT/text", "--text", "a", "--output", "ROOT/link.csv", "--features",
              "ROOT/new.npz"],
}  # fmt: skip


@pytest.mark.parametrize("case", TWICE)
def test_two_outputs_that_are_one_file_are_refused(case, made, capsys):
    before = contents(made)
    if case == "a table of the folder":
        (made / "new").mkdir()
    assert main([part.replace("ROOT", str(made)) for part in TWICE[case]]) == 2
    assert "is written by --" in capsys.readouterr().err
    assert contents(made) == before


@pytest.mark.parametrize("ending", ["/", "/."])
def test_a_name_that_ends_as_a_folder_is_no_file(ending, made, capsys):
    for command in (["predict", "--checkpoint", "ROOT/run", "ROOT/photos"], ["report", "ROOT/run"]):
        argv = [part.replace("ROOT", str(made)) for part in command]
        assert main([*argv, "--output", f"{made}/p.csv{ending}"]) == 2
        assert "names a folder" in capsys.readouterr().err
    assert (made / "p.csv").read_text() == "mine"


def test_the_next_evaluation_removes_what_a_killed_one_left(made, capsys):
    left = [made / "run" / "eval" / folder / ".vitzoo-abcd1234" for folder in ("7-ema/test", "3-raw/digits-test")]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "file.png").write_text("half")
    for _ in range(2):  # and what it wrote itself it replaces
        assert main(["eval", "--checkpoint", str(made / "run")]) == 0
    assert not any(folder.exists() for folder in left)
    assert "left by a command that was killed" in capsys.readouterr().err
    shutil.rmtree(made / "run" / "eval")


def test_new_files_beside_what_is_read_are_written(made, tmp_path, capsys):
    root = shutil.copytree(made, tmp_path / "copy", symlinks=True)
    (root / "photos" / "notes.csv").unlink()
    photos = str(root / "photos")
    for _ in range(2):  # and replaced, where they are no input
        assert main(["predict", "--checkpoint", str(root / "run"), photos, "--output", f"{photos}/p.csv"]) == 0
        assert main(["report", str(root / "run"), "--output", str(root / "run" / "report.html")]) == 0
        for sheet in ("sheet.png", "sheet.jpg"):
            assert main(["data", "show", f"folder:{photos}", "--output", str(root / "run" / sheet)]) == 0
    assert "replaced" in capsys.readouterr().out


def test_a_name_in_another_case_is_the_file_where_the_system_says_so(tmp_path, monkeypatch):
    (tmp_path / "labels.csv").write_text("x")
    (tmp_path / "LABELS.CSV").write_text("x")
    monkeypatch.setattr(os.path, "samefile", lambda a, b: str(a).lower() == str(b).lower())
    with pytest.raises(UserError, match="which is read"):
        check_replaces_nothing("--output", "x", tmp_path / "LABELS.CSV", Reads([f"csv:{tmp_path}/labels.csv"]))


def test_commands_that_save_in_several_threads_take_turns(made, tmp_path):
    run, weights = str(made / "run"), str(made / "step")
    commands = [
        ["convert", run, f"{tmp_path}/a", "--format", "vitzoo"],
        ["convert", weights, f"{tmp_path}/b", "--format", "vitzoo"],
        ["convert", run, f"{tmp_path}/c", "--format", "vitzoo"],
    ]
    other = shutil.copytree(made / "step", tmp_path / "other")
    commands += [["soup", run, str(other), "--output", f"{tmp_path}/{name}"] for name in "de"]
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
        codes = list(pool.map(main, commands))
    assert codes == [0] * len(commands)
    for name in "abcde":
        assert (tmp_path / name / "checkpoints" / "7" / "manifest.json").is_file()
