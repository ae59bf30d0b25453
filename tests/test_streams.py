"""Standard output and error: names are printed as they are, obey nothing, and a closed stream is none."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest

from vitzoo import streams
from vitzoo import streams as evaluation_progress
from vitzoo.cli import main
from vitzoo.data.progress import progress
from vitzoo.evaluation import tables
from vitzoo.inference import writers
from vitzoo.training.progress import Progress

# what rich takes for markup or an emoji, and what a terminal obeys: each with how it is to be shown
NAMES = {
    "[/b]": "[/b]",
    "[bold]": "[bold]",
    "[link=x]y": "[link=x]y",
    ":cat:": ":cat:",
    "a\x1b[31mred": "a\\x1b[31mred",
    "a\rb": "a\\rb",
    "bell\x07": "bell\\x07",
    "a\x9b2Jb": "a\\x9b2Jb",
    "turned \u202egnp": "turned \\u202egnp",
    "apart\u2066\u2069": "apart\\u2066\\u2069",
    "no\u200bspace": "no\\u200bspace",
    "soft\u00adhyphen": "soft\\xadhyphen",
    "mark\ufeff": "mark\\ufeff",
    "tag\U000e0041": "tag\\U000e0041",
    "joined\u200d\u200cletters": "joined\u200d\u200cletters",
}
HIDDEN = set("\x1b\x07\x9b\u202e\u2066\u2069\u200b\u00ad\ufeff\U000e0041")


class Terminal(io.StringIO):
    """What a program takes for a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_table_shows_a_class_as_it_is_called(name):
    out = io.StringIO()
    rows = [{"class": name, "n": 3, "recall": 0.5}]
    tables.print_per_class(rows, streams.console(streams.over(out), 120))
    assert NAMES[name] in out.getvalue()


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_bars_show_a_name_as_it_is(name, monkeypatch):
    # another escape than the bar's own begins a name: a bar's line holds it written out
    out = Terminal()
    with evaluation_progress.counting(name, 2, streams.over(out)) as seen:
        seen(1)
    training = Terminal()
    bar = Progress(0, 2, 1, streams.over(training))
    bar.train_line(1, {name: 1.0})
    bar.say(name)
    bar.close()
    data = Terminal()
    monkeypatch.setattr(sys, "stderr", streams.over(data, bars=True))
    assert list(progress([1, 2], 2, name)) == [1, 2]
    for written in (out, training, data):
        assert NAMES[name] in written.getvalue().replace("\n", "")


@pytest.mark.parametrize("name", [name for name in NAMES if "\r" not in name], ids=ascii)
def test_commands_print_a_class_as_it_is_called(name, tmp_path, capsys):
    for number in range(4):
        shade = np.full((8, 8), 60 * number, np.uint8)
        PIL.Image.fromarray(shade).save(tmp_path / f"{number}.png")
    lines = "".join(f'{number}.png,"{(name, "other")[number % 2]}"\n' for number in range(4))
    (tmp_path / "labels.csv").write_text(f"file,label\n{lines}", encoding="utf-8")
    assert main(["data", "check", f"csv:{tmp_path}/labels.csv", "--json"]) == 0
    out = capsys.readouterr().out
    assert NAMES[name] in out
    assert not set(out) & HIDDEN
    assert sorted(json.loads(out.splitlines()[-1])["classes"]) == sorted([name, "other"])
    assert main(["data", "check", f"csv:{tmp_path}/{name}.csv"]) == 2
    assert not set(capsys.readouterr().err) & HIDDEN


@pytest.mark.parametrize("command", ["data check {}", "train --dry-run --config quickstart --config.data.name={}"])
def test_an_end_of_a_line_in_a_name_is_written_out(command, tmp_path, capsys):
    for number in range(8):
        PIL.Image.new("L", (28, 28), 30 * number).save(tmp_path / f"{number}.png")
    names = ("one\ntwo", "other")
    lines = "".join(f'{number}.png,"{names[number % 2]}"\n' for number in range(8))
    (tmp_path / "labels.csv").write_text(f"file,label\n{lines}")
    flags = ["--config.data.batch_size=8", "--config.evaluate.test.split=train", "--config.data.split=train"]
    typed = command.format(f"csv:{tmp_path}/labels.csv").split()
    assert main(typed + (flags if "train" in typed else [])) == 0
    out = capsys.readouterr().out
    assert "one\\ntwo" in out
    assert "one\ntwo" not in out


def test_an_answer_is_one_line_whatever_the_classes_are_called():
    answers = [{"label": "one\ntwo", "probability": 0.75}, {"label": "other", "probability": 0.25}]
    assert writers.shown({"error": None, "top": answers}) == "one\\ntwo 75.0%  other 25.0%"


def test_json_stays_json(tmp_path, capsys):
    assert main(["data", "check", "csv:a\x7f\x1b.csv", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["value"] == "csv:a\x7f\x1b.csv"


def test_a_librarys_progress_bar_moves_the_cursor(monkeypatch):
    out = io.StringIO()
    stream = streams.over(out, bars=True)
    for text in ("\r 50%|##", "\n", "\x1b[A", "a\x1b[31m"):
        stream.write(text)
    assert out.getvalue() == "\r 50%|##\n\x1b[Aa\\x1b[31m"


@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="+".join)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["--version"], 0),
        (["configs"], 0),
        (["models", "--help"], 0),
        (["predict", "--checkpoint", "none", "a.png"], 2),
        (["train", "--config", "none", "--workdir", "run"], 2),
        (["data", "check", "folder:none"], 2),
        (["nonsense", "--json"], 2),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else None,
)
def test_a_command_works_where_a_stream_is_closed(closed, command, code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in closed:
        monkeypatch.setattr(sys, name, None)  # what Python makes of `>&-`
    assert main(command) == code


def test_a_closed_stream_is_no_other_file(tmp_path):
    """What a library prints to descriptor 1 would land in the first file that is opened."""
    code = (
        "import os, sys; from vitzoo.cli import main\n"
        "code = main(['--version']); opened = open('kept', 'w').fileno()\n"
        "sys.exit(code if opened > 2 and sys.stdout is None else 9)"
    )
    command = ["bash", "-c", f'{sys.executable} -c "$0" >&- 2>&-', code]
    assert subprocess.run(command, cwd=tmp_path, env=os.environ, check=False).returncode == 0


@pytest.mark.parametrize("where", ["</dev/null", ">/dev/full"])
def test_standard_output_that_cannot_be_written_to_is_one_line(where, tmp_path):
    code = (
        "from vitzoo.cli import main; import sys\n"
        "codes = [main([*command, '--json']) for command in (['configs'], ['nonsense'])]; sys.exit(codes != [1, 2])"
    )
    ended = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$0" 1{where}', code], capture_output=True, text=True, check=False
    )
    lines = ended.stderr.splitlines()
    assert ended.returncode == 0, lines
    assert [line.split(":")[1] for line in lines] == [" standard output can't be written to", " command = nonsense"]
