"""The page that compares runs says what is in the runs, and nothing is fetched from elsewhere."""

import base64
import html.parser
import json
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from vitzoo.cli.entry import main
from vitzoo.evaluation import pictures

RATES = {"a": 0.001, "b": 0.01}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs as training and evaluation leave them."""
    root = tmp_path_factory.mktemp("runs")
    for number, (name, rate) in enumerate(RATES.items()):
        folder = root / name
        evaluation = folder / "eval" / "20-raw" / "digits-test"
        evaluation.mkdir(parents=True)
        config = {"seed": 0, "optimizer": {"name": "adamw", "learning_rate": rate}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of(number)))
        result = {
            "dataset": "digits",
            "split": "test",
            "n": 360,
            "metrics": {"accuracy": 0.9 + number / 100, "f1": None},
        }
        (evaluation / "metrics.json").write_text(json.dumps(result | {"skipped": None}))
        (evaluation / "mistakes.csv").write_text(
            "id,text,label,prediction\n" + f"{number},<b>no & yes</b>,ham,spam\n" * 12
        )
        for picture in ("confusion", "mistakes"):
            Image.fromarray(np.full((2, 3), 50 * number, np.uint8)).save(evaluation / f"{picture}.png")
    return root


def lines_of(number):
    train = [
        {"step": step, "split": "train", "loss": 2.0 / step + number, "learning_rate": 0.1} for step in (5, 10, 15, 20)
    ]
    return [*train, {"step": 20, "split": "val", "n": 50, "loss": 0.75 - number / 4, "accuracy": 0.8125 + number / 8}]


class Page(html.parser.HTMLParser):
    """The tables of a page as text, its pictures, its polylines, and every reference."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.images, self.lines, self.tags, self.references = [], [], [], set(), []
        self.cell = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.references += [value for name, value in attributes if name in ("src", "href", "srcset", "action", "data")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.cell = True
        elif tag == "img":
            self.images.append(given["src"])
        elif tag == "polyline":
            self.lines.append([tuple(map(float, point.split(","))) for point in given["points"].split()])

    def handle_endtag(self, tag):
        self.cell = self.cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.cell:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def text(runs):
    assert main(["report", str(runs / "a"), str(runs / "b"), "--output", str(runs / "report.html")]) == 0
    return (runs / "report.html").read_text()


def test_the_page_references_nothing_outside_of_itself(text):
    page = Page(text)
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    assert not page.tags & {"script", "link", "iframe", "object", "embed", "base"}
    assert "http" not in text
    assert not re.search(r"url\(|@import", text)


def test_every_number_in_the_tables_is_that_of_the_runs(text):
    metrics, settings, evaluations, *_ = Page(text).tables
    assert metrics[0] == ["run", "step", "train/loss", "val/loss", "train/learning_rate", "val/accuracy"]
    for number, row in enumerate(metrics[1:]):
        assert row[:2] == ["ab"[number], "20"]
        assert list(map(float, row[2:])) == [0.1 + number, 0.75 - number / 4, 0.1, 0.8125 + number / 8]
    assert settings == [["setting", "a", "b"], ["optimizer.learning_rate", "0.001", "0.01"]]
    assert evaluations[0] == ["run", "evaluation", "dataset", "split", "n", "accuracy", "f1"]
    assert evaluations[1:] == [
        [name, "20-raw/digits-test", "digits", "test", "360", f"{0.9 + number / 100:.6g}", "–"]
        for number, name in enumerate("ab")
    ]


def test_every_point_of_the_curves_is_that_of_the_runs(text):
    lines = Page(text).lines
    losses = [lines_of(number) for number in (0, 1)]
    values = [line["loss"] for run in losses for line in run]
    bounds = (min(values), max(values))
    for number, run in enumerate(losses):
        for split, drawn in zip(("train", "val"), lines[2 * number : 2 * number + 2], strict=True):
            want = [
                (pictures.x_of(line["step"], (5, 20)), pictures.y_of(line["loss"], bounds))
                for line in run
                if line["split"] == split
            ]
            assert drawn == pytest.approx([pytest.approx(point, abs=0.01) for point in want])
    assert len(lines) == 4 + 2 + 2  # loss of two splits, learning rate and accuracy of one, of two runs each
    assert pictures.y_of(bounds[0], bounds) == pictures.HEIGHT - pictures.BOTTOM
    assert pictures.y_of(bounds[1], bounds) == pictures.TOP


def test_pictures_and_sample_predictions_are_those_of_the_evaluations(runs, text):
    page = Page(text)
    files = [
        runs / name / "eval/20-raw/digits-test" / f"{one}.png" for name in "ab" for one in ("confusion", "mistakes")
    ]
    shown = [base64.b64decode(image.partition(",")[2]) for image in page.images]
    assert shown == [file.read_bytes() for file in files]
    for number, samples in enumerate(page.tables[3:]):
        assert samples[0] == ["id", "text", "label", "prediction"]
        assert samples[1:] == [[str(number), "<b>no & yes</b>", "ham", "spam"]] * 10


def test_the_command_prints_the_first_table_and_gives_it_as_json(runs, capsys, text):
    given = ["report", str(runs / "a"), str(runs / "b"), "--output", str(runs / "report.html")]
    assert main(given) == 0
    said = capsys.readouterr().out
    assert f"replaced {runs}/report.html" in said
    assert "0.8125" in said
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["runs"]["b"]["val/accuracy"] == 0.9375


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["{root}"], "is no run: it has no config.json"),
        (["{root}/nothing"], "is no folder; name runs"),
        (["{root}/a", "{root}/b/../a"], "b/../a: is given twice"),
        (["{root}/" + "a" * 256], "longer than 255 bytes"),
        (["~nobody-of-this-name/a"], "there is no user"),
        (["{root}/a", "--output", "page.txt"], "--output = page.txt: must end in .html"),
    ],
)
def test_what_is_no_run_is_refused(runs, capsys, given, message):
    assert main(["report", *(one.format(root=runs) for one in given)]) == 2
    assert message in capsys.readouterr().err


def test_runs_of_one_name_are_told_apart_and_bare_ones_have_a_page(tmp_path, capsys):
    for folder in ("x/run", "y/run"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text('{"seed": 1}')
    output = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "x/run"), str(tmp_path / "y/run"), "--output", str(output)]) == 0
    assert [row[0] for row in Page(output.read_text()).tables[0][1:]] == [
        str(tmp_path / one) for one in ("x/run", "y/run")
    ]


def test_the_last_value_of_a_run_that_diverged_is_none_and_not_an_earlier_one(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    lines = [{"step": 5, "split": "train", "loss": 0.5}, {"step": 10, "split": "train", "loss": None}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "report.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {tmp_path.name: {"step": 10, "train/loss": None}}
    assert Page((tmp_path / "report.html").read_text()).tables[0][1] == [tmp_path.name, "10", "–"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("metrics.json", b'{"metrics": [1]}'), ("metrics.json", b'{"metrics": null}'), ("mistakes.csv", b"a\n\xff\n")],
)
def test_a_damaged_evaluation_is_refused_by_its_file(tmp_path, capsys, name, content):
    (tmp_path / "config.json").write_text("{}")
    folder = tmp_path / "eval" / "1-raw"
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text('{"metrics": {}}')
    (folder / name).write_bytes(content)
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "report.html")]) == 2
    assert f"vitzoo: DIR = {folder / name}: " in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_long_texts_and_names_that_are_no_unicode_have_their_place(tmp_path):
    folder = tmp_path / os.fsdecode(b"run\xff")
    (folder / "eval" / "1-raw").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "eval/1-raw/metrics.json").write_text('{"metrics": {}}')
    (folder / "eval/1-raw/mistakes.csv").write_text("text\n" + "x" * 200_000 + "\n")
    assert main(["report", str(folder), "--output", str(tmp_path / "report.html")]) == 0
    tables = Page((tmp_path / "report.html").read_text()).tables
    assert tables[0][1][0] == r"run\xff" or tables[0][1][0] == r"run\udcff"
    assert tables[-1][1] == ["x" * 200_000]


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_last_line_that_was_cut_off_is_told(cut, runs, tmp_path, capsys):
    shutil.copytree(runs / "a", tmp_path / "a")
    file = tmp_path / "a" / "metrics.jsonl"
    file.write_bytes(file.read_bytes().removesuffix(b"\n")[:-cut])
    assert main(["report", str(tmp_path / "a"), "--output", str(tmp_path / "page.html")]) == 0
    assert f"warning: 1 damaged line of {file} left out (line 5)" in capsys.readouterr().err
