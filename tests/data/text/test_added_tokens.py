"""Tokens that a user added to a published tokenizer, and what its own post-processor puts before a text: as the
`tokenizers` library, which published files are written for, finds and puts them."""

import json

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.published import read_published
from vitzoo.data.text.tokenizers.saved import load_tokenizer

FLAGS = (
    {},
    {"lstrip": True},
    {"rstrip": True},
    {"single_word": True},
    {"normalized": False},
    {"lstrip": True, "rstrip": True},
)
TEXTS = (
    "new covidity cases",
    "covidity",
    "x covidityx covidity",
    "New COVIDITY  covidity !",
    "covidity\ncovidity",
    "  covidity  ",
    "café covidité covidity\u0301",
    "[SEP] covidity </s> covidity",
)


def wordpiece():
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "new",
        "cases",
        "co",
        "##vid",
        "##ity",
        "x",
        "!",
        "[",
        "]",
        "sep",
        "cafe",
    ]
    made = tokenizers.Tokenizer(models.WordPiece({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    made.add_special_tokens(words[:5])
    return made


def bpe():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: id for id, letter in enumerate([*letters, "co"])}
    made = tokenizers.Tokenizer(models.BPE(vocabulary, [("c", "o")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])  # outside the vocabulary: the tokens that follow keep their ids
    return made


def unigram():
    pieces = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -2.0),
        ("▁new", -3.0),
        ("▁cases", -3.0),
        ("co", -3.0),
    ]
    pieces += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz<>/"]
    made = tokenizers.Tokenizer(models.Unigram(pieces, 2))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return made


def ours(made, folder, **settings):
    made.save(str(folder / "tokenizer.json"))
    return read_published(Tokenizer(kind="file", file=str(folder / "tokenizer.json"), **settings))


def without_specials(text):
    return not any(name in text for name in ("[SEP]", "</s>"))


@pytest.mark.parametrize("flags", FLAGS, ids=map(str, FLAGS))
@pytest.mark.parametrize("kind", [wordpiece, bpe, unigram])
def test_ordinary_added_tokens_are_found_as_the_file_says(kind, flags, tmp_path):
    made = kind()
    made.add_tokens([AddedToken("covidity", **flags)])
    made.add_special_tokens(["<later>"])
    made.add_tokens([AddedToken("anothertoken", **flags)])
    found = ours(made, tmp_path)
    for text in filter(without_specials, TEXTS):
        assert found.encode(text).tolist() == made.encode(text, add_special_tokens=False).ids, text
        assert found.encode_batch([text, "x"])[0].tolist() == found.encode(text).tolist()
    id = made.token_to_id("covidity")
    assert id in found.encode("new covidity cases")
    assert found.encode("anothertoken")[-1] == made.token_to_id("anothertoken")
    assert "covidity" in found.decode([id], skip_specials=True)
    assert found.byte_lengths[id] == 8
    assert (found.word_edges[0][id], found.word_edges[1][id]) == (True, True)


@pytest.mark.parametrize("kind", [wordpiece, bpe, unigram])
def test_special_ones_stay_text_beside_them_unless_asked_for(kind, tmp_path):
    made = kind()
    made.add_special_tokens(["<later>"])
    made.add_tokens([AddedToken("covidity")])
    plain, chosen = ours(made, tmp_path), ours(made, tmp_path, special_in_text=True)
    for name in ("<later>", "[SEP]", "</s>", "<|endoftext|>"):
        text, id = f"x{name} covidity", made.token_to_id(name)
        assert id is None or id not in plain.encode(text)
        assert plain.encode(text)[-1] == made.token_to_id("covidity")
        assert chosen.encode(text).tolist() == made.encode(text, add_special_tokens=False).ids


def test_a_token_with_a_role_is_special_whatever_the_file_calls_it(tmp_path):
    made = bpe()
    made.add_tokens(["<pad>", "<blank>"])
    assert made.token_to_id("<pad>") not in ours(made, tmp_path).encode("a<pad>b")
    assert made.token_to_id("<blank>") in ours(made, tmp_path).encode("a<blank>b")
    assert made.token_to_id("<blank>") not in ours(made, tmp_path, special={"pad": "<blank>"}).encode("a<blank>b")


def test_it_is_the_same_from_a_checkpoint(tmp_path):
    made = wordpiece()
    made.add_tokens([AddedToken("covidity", lstrip=True)])
    found = ours(made, tmp_path)
    again = load_tokenizer(tmp_path / "assets", found.save(tmp_path / "assets"))
    assert [again.encode(text).tolist() for text in TEXTS] == [found.encode(text).tolist() for text in TEXTS]


def template(made, single):
    names = [part.partition(":")[0] for part in single.split() if not part.startswith("$")]
    marks = [(name, made.token_to_id(name)) for name in dict.fromkeys(names)]
    made.post_processor = processors.TemplateProcessing(single=single, special_tokens=marks)
    return made


@pytest.mark.parametrize(
    ("kind", "single", "right"),
    [
        (bpe, "<|endoftext|> $A", ["<|endoftext|>"]),
        (bpe, "<|endoftext|> <|endoftext|> $A", ["<|endoftext|>", "<|endoftext|>"]),
        (bpe, "$A <|endoftext|>", []),
        (unigram, "<pad> $A </s>", ["<pad>"]),
        (wordpiece, "[CLS] $A [SEP]", ["[CLS]"]),
    ],
)
def test_what_a_post_processor_puts_before_a_text_opens_a_prompt(kind, single, right, tmp_path):
    made = template(kind(), single)
    found = ours(made, tmp_path)
    ids = [made.token_to_id(name) for name in right]
    assert found.opening_ids == tuple(ids)
    assert found.opened(found.encode("a new x")).tolist() == [*ids, *found.encode("a new x").tolist()]
    if not single.endswith("$A"):
        return
    assert found.opened(found.encode("a new x")).tolist() == made.encode("a new x").ids


def test_a_tokenizer_without_one_opens_nothing(tmp_path):
    assert ours(bpe(), tmp_path).opening_ids == ()
    assert read_published(Tokenizer(kind="file", file=str(tmp_path))).opened(
        ours(bpe(), tmp_path).encode("a")
    ).tolist() == [bpe().token_to_id("a")]


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json", "tokenizer.json"])
def test_the_mark_that_some_editors_begin_a_file_with_is_no_token(name, tmp_path):
    mark = b"\xef\xbb\xbf"
    if name == "vocab.txt":
        content = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "new"]).encode()
    elif name == "tokenizer.json":
        content = wordpiece().to_str().encode()
    else:
        content = json.dumps(bpe().get_vocab(with_added_tokens=False)).encode()
        (tmp_path / "merges.txt").write_bytes(mark + b"#version: 0.2\nc o\n")
    (tmp_path / name).write_bytes(content)
    right = read_published(Tokenizer(kind="file", file=str(tmp_path)))
    (tmp_path / name).write_bytes(mark + content)
    found = read_published(Tokenizer(kind="file", file=str(tmp_path)))
    assert found.specials == right.specials
    assert found.encode("new co").tolist() == right.encode("new co").tolist()
