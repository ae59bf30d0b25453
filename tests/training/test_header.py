"""What a run says of itself at its end."""

import io
from types import SimpleNamespace

import pytest

from vitzoo.data import left_out
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.text.settings import Text
from vitzoo.training import header


def test_what_was_left_out_is_counted_at_the_end(tmp_path, capsys):
    config = SimpleNamespace(num_classes=2)
    task = SimpleNamespace(total_steps=3, choice=SimpleNamespace(name="vit"), inputs=Inputs({}), model_config=config)
    for files, said in ((["a.png", "b.png", "a.png"], True), ([], False)):
        left_out.begin()
        for file in files:
            left_out.name(file)
        out = io.StringIO()
        header.say_end(task, tmp_path, 3, None, None, out)
        assert ("unread  2 left out, each named above" in out.getvalue()) == said
    assert capsys.readouterr().err.count("a.png") == 1


@pytest.mark.parametrize(
    ("lengths", "parts", "said"),
    [
        ((32,), 4, ""),
        ((31,), 1, ""),
        ((31,), 4, "rows of 31 tokens don't divide over sequence:4: each of its devices computes all of them"),
        ((32, 30), 4, "rows of 30 tokens don't divide"),
        ((33, 30), 4, "rows of 33 and 30 tokens don't divide"),
    ],
)
def test_rows_that_the_axis_sequence_does_not_divide_are_named(lengths, parts, said):
    rows = tuple(SimpleNamespace(shape=(1, length)) for length in lengths)
    inputs, mesh = SimpleNamespace(arguments=lambda config: rows), SimpleNamespace(shape={"sequence": parts})
    line = header._tokens_stay_whole(SimpleNamespace(inputs=inputs, mesh=mesh, model_config=None))
    assert line.startswith(said)
    assert bool(line) == bool(said)


@pytest.mark.parametrize(("chat", "flags"), [(True, "--chat --prompt TEXT"), (False, "--prompt TEXT")])
def test_the_command_that_comes_next_asks_as_the_model_was_trained(chat, flags, tmp_path):
    inputs = Inputs({"tokens": TextProcessor(Text(chat=chat), "answers", 0)})
    task = SimpleNamespace(total_steps=3, choice=SimpleNamespace(name="gpt"), inputs=inputs, model_config=None)
    out = io.StringIO()
    header.say_end(task, tmp_path, 3, None, None, out)
    assert out.getvalue().splitlines()[-1] == f"next    vitzoo generate --checkpoint {tmp_path} {flags}"
