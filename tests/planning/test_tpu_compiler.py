"""What the compiler for TPUs says is read rightly; the compiler itself is an extra, and isn't needed here."""

import pytest

from vitzoo.errors import RunError
from vitzoo.planning import tpu_compiler
from vitzoo.planning.topology import parse
from vitzoo.planning.tpu_compiler import Compiled

WHERE = parse("v5e:2x2")


def test_a_compiled_step_is_one_line_of_json_after_whatever_else_is_printed():
    said = 'noise\n{"arguments": 10, "temporary": 20, "peak": 25}\n'
    assert tpu_compiler.read_output(said, "", WHERE) == Compiled(10, 20, 25, fits=True)


@pytest.mark.parametrize(
    ("message", "gib"),
    [
        ("RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (33.85G) exceeds "
         "available HBM (15.75G).", 33.85),
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.50G of 15.75G hbm.", 17.5),
    ],
)  # fmt: skip
def test_lack_of_memory_says_what_was_needed(message, gib):
    found = tpu_compiler.read_output("", message, WHERE)
    assert not found.fits
    assert found.peak == pytest.approx(gib * 2**30)


def test_anything_else_is_told_in_one_line():
    with pytest.raises(RunError, match="ended without a program: ValueError: odd"):
        tpu_compiler.read_output("", "Traceback ...\nValueError: odd\n", WHERE)


def test_only_tpus_are_compiled_for_and_only_with_the_library(monkeypatch):
    monkeypatch.setattr(tpu_compiler.importlib.util, "find_spec", lambda name: object())
    assert [tpu_compiler.is_available(parse(text)) for text in ("v5e:2x2", "h100:8", "cpu:8")] == [True, False, False]
    monkeypatch.setattr(tpu_compiler.importlib.util, "find_spec", lambda name: None)
    assert not tpu_compiler.is_available(WHERE)
