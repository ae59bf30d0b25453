"""The fuzzer catches a planted fault of every kind that it counts, and a seed gives the same case again."""

import os
import random
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
from fuzzing import runner
from fuzzing.data import json_lines
from fuzzing.mutations import damage_bytes, damage_json, damage_text, odd_entry
from fuzzing.surfaces import BEGAN


@pytest.fixture
def limits():
    """Of memory, what this process has by now, and a little more."""
    return runner.Limits(seconds=3.0, bytes=runner.resident(os.getpid()) + 2**28)


def raise_error():
    raise ValueError("planted")


def print_unexpected():
    print("vitzoo: unexpected KeyError: 'planted' (the trace is in /tmp/x.txt; --debug prints it)", file=sys.stderr)
    return 1


def panic():
    print("thread '<unnamed>' panicked at src/lib.rs:1:2:", file=sys.stderr)
    return 2


def print_trace():
    print("said\n  Traceback (most recent call last):\n", file=sys.stderr)
    return 2


def sleep():
    time.sleep(60)
    return 0


def compute():
    while True:
        pass


def allocate():
    """Fills memory until it is stopped; a child holds less at first than its parent, and how much isn't known."""
    held = [bytearray(2**26) for _ in range(2**6)]
    time.sleep(60)
    return len(held)


def refuse():
    print("vitzoo: data.name = x: no such dataset", file=sys.stderr)
    return 2


def train_and_fail():
    print("compiling the first step ...\nvitzoo: the disk is full")
    return 1


PLANTED = {
    raise_error: "traceback",
    print_trace: "traceback",
    print_unexpected: "unexpected",
    panic: "unexpected",
    **dict.fromkeys((lambda: 3, lambda: 1, lambda: os.kill(os.getpid(), 9)), "exit code"),
    sleep: "hang",
    compute: "hang",
    allocate: "memory",
    **dict.fromkeys((refuse, train_and_fail, lambda: 0, lambda: 75, lambda: 130), ""),
}


def test_every_kind_of_planted_fault_is_caught_and_nothing_else(tmp_path, limits):
    """Exit code 1 is right after work has begun, and wrong before; 3, and a signal, are never right."""
    cases = [
        runner.Case(f"planted:{number}", lambda command=command: command, lambda said: BEGAN.search(said) is not None)
        for number, command in enumerate(PLANTED)
    ]
    found = {outcome.case.name: outcome.fault for outcome in runner.run(cases, tmp_path, 4, limits)}
    assert found == {case.name: fault for case, fault in zip(cases, PLANTED.values(), strict=True)}


def test_a_case_that_could_not_be_made_is_the_fuzzers_own_fault(tmp_path, limits):
    (outcome,) = runner.run([runner.Case("planted:0", lambda: 1 / 0)], tmp_path, 1, limits)
    assert outcome.fault == "broken"
    assert "ZeroDivisionError" in outcome.said


@pytest.mark.parametrize("number", range(6))
def test_a_seed_and_a_number_give_the_same_case_again(number, tmp_path, monkeypatch):
    found = []
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        arguments = json_lines(random.Random(f"0 json:{number}"), Path("/made"))
        found.append((arguments, {path.name: path.read_bytes() for path in Path().rglob("*") if path.is_file()}))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("damage", "right"),
    [
        (damage_bytes, bytes(range(200))),
        (damage_text, "file,label\na/1.png,cats\n"),
        (damage_json, {"a": [1, {"b": 2}], "c": "d"}),
    ],
)
def test_damage_differs_by_its_seed_and_leaves_what_it_was_given(damage, right):
    before = repr(right)
    found = {repr(damage(right, random.Random(seed))) for seed in range(40)}
    assert len(found) > 20
    assert repr(right) == before


def test_odd_entries_stay_within_their_folder(tmp_path):
    for seed in range(60):
        (tmp_path / "inner").mkdir(exist_ok=True)
        (file := tmp_path / "inner" / f"f{seed}.png").write_bytes(b"x")
        odd_entry(file, random.Random(seed))
    assert {path.name for path in tmp_path.iterdir()} == {"inner"}
