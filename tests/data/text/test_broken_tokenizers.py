"""Tokenizer files on which the `tokenizers` library, written in Rust, panics: each refused in one line, whether it
breaks when it is made or when it meets a text, and nothing else is printed."""

import base64
import json
import struct

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.definition import check_map, rules
from vitzoo.data.text.tokenizers.library import LibraryTokenizer
from vitzoo.data.text.tokenizers.published import read_published
from vitzoo.errors import UserError


def definition(**changes):
    made = tokenizers.Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1, "x": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return {**json.loads(made.to_str()), **changes}


def trie(*units):
    """A table of these units by place, the rest empty, and no replacements but "b"."""
    content = [0] * 256
    for place, unit in units:
        content[place] = unit
    return struct.pack("<I", 1024) + struct.pack("<256I", *content) + b"b\0"


def leads_to(place, label=0, leaf=False):
    return place << 10 | label | leaf << 8


GOOD = trie((0, leads_to(1)), (1 ^ 97, leads_to(1 ^ 97 ^ 5, 97, True)), (5, 1 << 31))
"""a → b: the root's children begin at 1, those of `a` at 5, where its value, 0, stands."""
TABLES = {
    "nothing": b"",
    "a number cut off": b"\x01",
    "a length beyond the end": b"\xff\xff\xff\x7f",
    "no trie": bytes(4),
    "a trie of two units": struct.pack("<I", 8) + bytes(8) + b"a\0",
    "a unit that leads beyond the end": trie((0, leads_to(2**20))),
    "a child that leads beyond the end": trie((0, leads_to(1)), (1 ^ 97, leads_to(2**20, 97))),
    "a value beyond the end": GOOD.replace(struct.pack("<I", 1 << 31), struct.pack("<I", 1 << 31 | 99)),
    "a replacement that isn't UTF-8": GOOD[:-2] + b"\xff\0",
    "a replacement within a character": GOOD[:-2] + b"\x80\0",
    "a replacement without an end": GOOD[:-1],
}


def refused(content, folder, capfd):
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content))
    with pytest.raises(UserError) as caught:
        read_published(Tokenizer(kind="file", file=str(file)))
    said = capfd.readouterr()
    assert said.err == said.out == ""
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_of_characters_is_refused(name, tmp_path, capfd):
    table = base64.b64encode(TABLES[name]).decode()
    step = {"type": "Precompiled", "precompiled_charsmap": table}
    for normaliser in (step, {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, step]}):
        assert "its precompiled_charsmap" in refused(definition(normalizer=normaliser), tmp_path, capfd)


@pytest.mark.parametrize("table", [8589934592, 16, True, None, [97, 98], {"a": 1}, 1e9])
def test_a_table_of_characters_is_text(table, tmp_path, capfd):
    """A number would become as many bytes of zeros, 8 GB of the first."""
    step = {"type": "Precompiled", "precompiled_charsmap": table}
    for normaliser in (step, {"type": "Sequence", "normalizers": [step]}):
        line = refused(definition(normalizer=normaliser), tmp_path, capfd)
        assert f"its precompiled_charsmap is {table!r}; text in base64 is right" in line


def test_a_good_table_is_read_by_its_rules(tmp_path):
    check_map(GOOD)
    assert rules(GOOD) == {"a": "b"}
    step = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(GOOD).decode()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition(normalizer=step)))
    found = read_published(Tokenizer(kind="file", file=str(tmp_path)))
    assert found.encode("a x").tolist() == [1, 2]


def test_a_table_whose_units_lead_in_circles_ends():
    circle = trie((0, leads_to(1)), (1 ^ 97, leads_to(97, 97)))  # the children of `a` begin at 1 again
    check_map(circle)
    with pytest.raises(ValueError, match="has no end"):
        rules(circle)


BROKEN = {
    "a mark that isn't there": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "gone", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    },
    "a merge of what is too short": {
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "[UNK]": 2},
            "merges": [["a", "b"]],
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
        },
    },
    "a pattern that is none": {"normalizer": {"type": "Replace", "pattern": {"Regex": "((("}, "content": "x"}},
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_else_stops_the_library_is_one_line(name, tmp_path, capfd):
    assert "tokenizer.json can't be read: " in refused(definition(**BROKEN[name]), tmp_path, capfd)


PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
ADDED = {
    "of a piece under the id of another": ([("[UNK]", 0)], "'[UNK]' has the id 0, which is that of 'a'; 1 is right"),
    "under the id of a piece": ([("</s>", 2)], "'</s>' has the id 2, which is that of 'x'; 3 is right"),
    "after a gap": ([("</s>", 7)], "'</s>' has the id 7; 3 is right"),
    "in another order": ([("<b>", 4), ("<a>", 3)], "'<b>' has the id 4, which is that of '<a>'; 3 is right"),
    "under one id with another": ([("<a>", 3), ("<b>", 3)], "'<b>' has the id 3, which is that of '<a>'; 4 is right"),
}
"""The vocabulary has `a` as 0, `[UNK]` as 1, `x` as 2."""


@pytest.mark.parametrize("name", ADDED)
def test_an_added_token_whose_id_is_not_the_one_it_gets_is_refused(name, tmp_path, capfd):
    tokens, said = ADDED[name]
    stated = [{"id": id, "content": token, **PLAIN} for token, id in tokens]
    assert f"its added token {said}" in refused(definition(added_tokens=stated), tmp_path, capfd)
    good = definition(added_tokens=[{"id": id, "content": token, **PLAIN} for token, id in [("x", 2), ("</s>", 3)]])
    (tmp_path / "tokenizer.json").write_text(json.dumps(good))
    assert read_published(Tokenizer(kind="file", file=str(tmp_path))).ids == {"a": 0, "[UNK]": 1, "x": 2, "</s>": 3}


MERGES = {
    "of pieces whose whole isn't a piece": ({"a": 0, "b": 1}, "a b", "the line 'a b' of .* needs the piece 'ab'"),
    "of an unknown right piece": ({"a": 0, "b": 1, "ac": 2}, "a c", "the line 'a c' of .* needs the piece 'c'"),
    "of an unknown left piece": ({"b": 1, "cb": 0}, "#version: 0.2\nc b\n", "the line 'c b' of .* needs the piece 'c'"),
    "of GPT-1": ({"a": 0, "b</w>": 1}, "a b</w>", "the line 'a b</w>' of .* needs the piece 'ab</w>'"),
    "of one piece": ({"a": 0}, "a", "the line 'a' of .* isn't two pieces"),
}


@pytest.mark.parametrize("name", MERGES)
@pytest.mark.parametrize("files", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
def test_a_merge_of_what_the_vocabulary_lacks_is_refused_by_name(name, files, tmp_path, capfd):
    vocabulary, merges, said = MERGES[name]
    (tmp_path / files[0]).write_text(json.dumps(vocabulary))
    (tmp_path / files[1]).write_text(merges)
    with pytest.raises(UserError, match=f"{files[0]} can't be read: {said}.*") as caught:
        read_published(Tokenizer(kind="file", file=str(tmp_path)))
    assert str(caught.value).isprintable()
    assert capfd.readouterr() == ("", "")


def test_a_panic_on_a_text_is_one_line(monkeypatch):
    found = LibraryTokenizer(definition(), {})

    class PanicException(BaseException):
        """As the library's."""

    class Broken:
        def encode(self, *_, **__):
            raise PanicException("index out of bounds:\nthe len is 1")

        encode_batch_fast = decode = encode

    monkeypatch.setattr(found, "_encoder", Broken())
    monkeypatch.setattr(found, "_reader", Broken())
    for use in (
        lambda: found.encode("a"),
        lambda: found.encode_batch(["a"]),
        lambda: found.first_bytes("a"),
        lambda: found.decode([0]),
    ):
        with pytest.raises(UserError, match=r"the tokenizers library stopped at it: index out of bounds: the len is 1"):
            use()
