"""What a run says of itself at its end."""

import io
from types import SimpleNamespace

from vitzoo.data import left_out
from vitzoo.training import header


def test_what_was_left_out_is_counted_at_the_end(tmp_path, capsys):
    task = SimpleNamespace(total_steps=3, choice=SimpleNamespace(name="vit"))
    for files, said in ((["a.png", "b.png", "a.png"], True), ([], False)):
        left_out.begin()
        for file in files:
            left_out.name(file)
        out = io.StringIO()
        header.say_end(task, tmp_path, 3, None, None, out)
        assert ("unread  2 left out, each named above" in out.getvalue()) == said
    assert capsys.readouterr().err.count("a.png") == 1
