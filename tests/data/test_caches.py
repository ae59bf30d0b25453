"""A damaged cache is made anew in silence, whatever the damage, and never ends a command or changes what is read."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from made_pictures import picture

from vitzoo.cli import main
from vitzoo.data.folders import cache_folder
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.sources import index
from vitzoo.data.text import packing, token_array
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.train import train_tokenizer

TEXTS = ["to be, or not to be", "that is the question"] * 20


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.txt").write_text("\n".join(TEXTS))
    return tmp_path / "book.txt"


def tokens_of(book):
    source = open_source(Data(name=f"text:{book}"), "all")
    array = token_array.token_array(source, ByteTokenizer())
    return array.tokens.tolist(), array.starts.tolist()


def plan_of(book):
    plan = packing.pack(np.arange(60) % 7 + 1, (16,), seed=3)
    return np.array(plan.items).tolist(), np.array(plan.starts).tolist()


def tokenizer_of(book):
    made = train_tokenizer(Tokenizer(kind="bpe", vocabulary_size=300), TEXTS)
    return made.sha256, made.encode("to be").tolist()


def index_of(book):
    files = [str(book.parent / "pictures" / f"{number}.png") for number in range(4)]
    for number, file in enumerate(files):
        if not os.path.exists(file):
            picture(pathlib.Path(file), (8, 8 + number), (number, 0, 0))
    return index.index_files(files, "pictures")


KINDS = {"tokens": tokens_of, "plan": plan_of, "tokenizer": tokenizer_of, "index": index_of}


def overwrite(file, change):
    content = bytearray(file.read_bytes())
    change(content)
    file.write_bytes(bytes(content))


def zero(content):
    content[:] = bytes(len(content))


def flip(content):
    content[len(content) // 2] ^= 1


DAMAGE = {
    "zeroed": lambda file: overwrite(file, zero),
    "a flipped bit": lambda file: overwrite(file, flip),
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "empty": lambda file: file.write_bytes(b""),
    "missing": pathlib.Path.unlink,
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", KINDS)
def test_every_damaged_file_of_a_cache_is_found_and_made_anew(kind, damage, book, monkeypatch, capsys):
    monkeypatch.setattr(packing, "KEPT_FROM", 1)
    wanted = KINDS[kind](book)
    files = [path for path in cache_folder().rglob("*") if path.is_file()]
    assert files
    for file in files:
        DAMAGE[damage](file)
        assert KINDS[kind](book) == wanted
        if file.is_dir():  # the index of images is done without
            shutil.rmtree(file)
            KINDS[kind](book)
        assert file.is_file()
    said = capsys.readouterr().err
    assert "warning" not in said or (kind, damage) == ("index", "a folder")


LISTS = {
    "an empty object": lambda listed: {},
    "no files": lambda listed: {**listed, "files": {}},
    "one file fewer": lambda listed: {**listed, "files": dict(list(listed["files"].items())[1:])},
    "a list": lambda listed: [],
}


@pytest.mark.parametrize("change", LISTS)
@pytest.mark.parametrize("kind", ["tokens", "plan", "tokenizer"])
def test_a_list_that_lacks_files_which_are_gone_is_not_believed(kind, change, book, monkeypatch):
    monkeypatch.setattr(packing, "KEPT_FROM", 1)
    wanted = KINDS[kind](book)
    lists = list(cache_folder().rglob("checksums.json"))
    assert lists
    for file in lists:
        listed = json.loads(file.read_text())
        for name in listed["files"]:
            (file.parent / name).unlink()
        file.write_text(json.dumps(LISTS[change](listed)))
    assert KINDS[kind](book) == wanted


def test_what_is_undamaged_is_not_made_again(book, monkeypatch):
    monkeypatch.setattr(packing, "KEPT_FROM", 1)
    for made in KINDS.values():
        made(book)
    monkeypatch.setattr(token_array, "_made", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(index, "examine", lambda _: pytest.fail("read again"))
    for made in KINDS.values():
        made(book)


@pytest.mark.parametrize("place", ["the whole cache", "tokens"])
def test_a_cache_that_cannot_be_written_is_done_without(place, book, tmp_path, monkeypatch, capsys):
    wanted = tokens_of(book)
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tokens").write_text("a file")
    if place != "tokens":
        shutil.rmtree(tmp_path / "other")
        (tmp_path / "other").write_text("a file")
    assert tokens_of(book) == wanted
    assert "can't be written: Not a directory ($VITZOO_CACHE moves it)" in capsys.readouterr().err.replace(
        "File exists", "Not a directory"
    )


def test_what_a_killed_process_left_of_a_cache_goes_with_the_next_one(book):
    tokens_of(book)
    left = cache_folder() / "tokens" / ".vitzoo-abcd1234"
    (left / "folder").mkdir(parents=True)
    book.write_text("another text")
    tokens_of(book)
    assert not left.exists()


def test_a_command_after_damage_gives_what_it_gave_before(book, capsys):
    arguments = ["data", "check", f"folder:{book.parent / 'photos'}"]
    for number in range(4):
        picture(book.parent / "photos" / f"class{number % 2}" / f"{number}.png", (8, 8), (number, 0, 0))
    assert main(arguments) == 0
    before = capsys.readouterr().out
    (file,) = (cache_folder() / "index").iterdir()
    for damage in DAMAGE.values():
        damage(file)
        assert main(arguments) == 0
        assert capsys.readouterr().out == before
        if file.is_dir():
            file.rmdir()
