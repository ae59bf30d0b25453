"""A tokenizer.json whose steps blow a text up is refused as it is read, and what the library prints isn't shown."""

import base64
import json
import os
import shutil
import time
from pathlib import Path

import pytest
import tokenizers
from tokenizers import normalizers

from vitzoo.cli import main
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.definition import check_growth
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.panics import quiet_errors
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError
from vitzoo.weights.load import load
from vitzoo.weights.tokenizers import tokenizer_files

GPT2 = Path(__file__).parents[2] / "goldens" / "weights" / "gpt2"
TEN = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
REGEX = {"type": "Replace", "pattern": {"Regex": "a"}, "content": "a" * 10}
EMPTY = {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "a"}
MAP = base64.b64encode((0).to_bytes(4, "little") + b"a" * 9 + b"\0b\0").decode()
TWICE = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2,
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {},
}


def sequence(kind, steps):
    return {"type": "Sequence", kind: steps}


HOSTILE = {
    "letters": {"normalizer": sequence("normalizers", [TEN] * 9)},
    "nested": {"normalizer": sequence("normalizers", [sequence("normalizers", [TEN] * 3)] * 3)},
    "an expression": {"normalizer": sequence("normalizers", [REGEX] * 9)},
    "an expression that matches nothing": {"normalizer": sequence("normalizers", [EMPTY] * 30)},
    "in front": {"normalizer": sequence("normalizers", [{"type": "Prepend", "prepend": "a" * 100}, *[TEN] * 3])},
    "bytes": {"pre_tokenizer": sequence("pretokenizers", [{"type": "ByteLevel", "add_prefix_space": False}] * 30)},
    "of both": {
        "normalizer": sequence("normalizers", [TEN] * 3),
        "pre_tokenizer": sequence("pretokenizers", [{"type": "ByteLevel"}] * 2),
    },
    "decoding": {"decoder": sequence("decoders", [TEN] * 9)},
    "templates": {"post_processor": sequence("processors", [TWICE] * 40)},
}


@pytest.fixture(scope="module")
def definition():
    return tokenizer_files(load(str(GPT2))[1].tokenizer)["tokenizer.json"]


@pytest.mark.parametrize("case", HOSTILE)
def test_steps_that_blow_a_text_up_are_refused_at_once(case, definition, tmp_path, capsys):
    folder = tmp_path / "gpt2"
    shutil.copytree(GPT2, folder)
    (folder / "tokenizer.json").write_text(json.dumps(definition | HOSTILE[case]))
    begin = time.monotonic()
    for line in (
        ["generate", "--checkpoint", str(folder), "--prompt", "alpha"],
        ["convert", str(folder), str(tmp_path / "out")],
    ):
        assert main(line) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "may make over 5,000 characters or tokens of one" in error
        assert all(part in error for part in HOSTILE[case])
    assert time.monotonic() - begin < 10


def test_they_are_refused_in_a_checkpoint_too(definition, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition | HOSTILE["letters"]))
    (tmp_path / "tokenizer_roles.json").write_text(json.dumps({"roles": {}}))
    with pytest.raises(UserError, match="its normalizer and pre_tokenizer may make over 5,000 characters"):
        load_tokenizer(tmp_path, {"kind": "bpe", "file": "tokenizer.json", "sha256": ""})


def test_a_table_of_characters_counts_by_the_longest_it_writes():
    table = {"type": "Precompiled", "precompiled_charsmap": MAP}
    check_growth({"normalizer": sequence("normalizers", [table] * 3)})
    with pytest.raises(ValueError, match="its normalizer and pre_tokenizer may make over 5,000"):
        check_growth({"normalizer": sequence("normalizers", [table] * 4)})


def test_the_steps_of_published_tokenizers_are_read():
    replace = [{"type": "Replace", "pattern": {"String": "``"}, "content": '"'}]
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}
    nfkc = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(4) + b"a" * 18 + b"\0").decode()}
    albert = [*replace, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, nfkc, spaces]
    clip = [{"type": "NFC"}, spaces, {"type": "Lowercase"}]
    llama = [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    ]
    for steps in (albert, clip, llama):
        check_growth({"normalizer": sequence("normalizers", steps), "pre_tokenizer": {"type": "ByteLevel"}})


@pytest.mark.parametrize("text", ["\ufdfa", "\u0130", "\u1f82", "\U0001d160", "e\u0301\u00c5", "\u3300"])
def test_unicode_forms_make_no_more_of_a_character_than_is_counted(text):
    from vitzoo.data.text.tokenizers.definition import OF_ONE

    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"):
        step = getattr(normalizers, kind)()
        assert len(step.normalize_str(text)) <= OF_ONE[kind] * len(text)


SLOW = {"type": "Split", "pattern": {"Regex": "([a-z]+)+!"}, "behavior": "Isolated", "invert": False}
"""An expression that takes time exponential in the length of a word; the library gives up, by a panic."""
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
PANICS = {"pre_tokenizer": sequence("pretokenizers", [SLOW, BYTES])}
WORD = "a" * 60


@pytest.mark.parametrize("trace", ["0", "1", "full"])
def test_nothing_of_a_panic_is_shown(trace, definition, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("RUST_BACKTRACE", trace)
    folder = tmp_path / "gpt2"
    shutil.copytree(GPT2, folder)
    (folder / "tokenizer.json").write_text(json.dumps(definition | PANICS))
    assert main(["generate", "--checkpoint", str(folder), "--prompt", WORD]) == 2
    loads, said = capfd.readouterr().err.splitlines()
    assert loads.startswith("loads ")
    assert "can't take a text: the tokenizers library stopped at it: Onig: Regex search error" in said
    tokenizer = open_tokenizer(Tokenizer(kind="file", file=str(folder)))
    for use in (tokenizer.encode, tokenizer.first_bytes, lambda text: tokenizer.encode_batch([text, "b", text])):
        with pytest.raises(UserError, match="can't take a text: the tokenizers library stopped at it: Onig"):
            use(WORD)
    assert capfd.readouterr() == ("", "")


def print_and_panic():
    with quiet_errors():
        os.write(2, b"before\n")
        with quiet_errors():
            os.write(2, b"within\n")
        tokenizers.Tokenizer.from_str(json.dumps(PANICKING)).encode(WORD)


def test_what_others_print_meanwhile_is_shown(capfd):
    with pytest.raises(ValueError, match="stopped at it"):
        print_and_panic()
    assert capfd.readouterr().err == "before\nwithin\n"
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


PANICKING = {
    "version": "1.0",
    "pre_tokenizer": SLOW,
    "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "b"},
}
