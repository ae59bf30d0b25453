"""Tokenizers beside published weights, and the files by which ours go out: the same ids for the same text."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from vitzoo.data.text.layout import Layout
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.bytes import ByteTokenizer
from vitzoo.data.text.tokenizers.characters import CharacterTokenizer
from vitzoo.data.text.tokenizers.load import load_tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import Refused
from vitzoo.weights.piece_file import normalisation
from vitzoo.weights.tokenizers import special_ids, t5_tokenizer, tokenizer_beside, tokenizer_files

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
TEXTS = (
    "The quick brown fox isn't here.",
    "  two  spaces, 3 numbers ",
    "Crème brûlée costs 4,50 € in 東京 ☃",
    "an END [of] a\nline\n",
    "",
)


def sentence_pieces(rule):
    """A SentencePiece model with the normalisation of this name, as T5's is made."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, model_type="unigram", vocab_size=70,
        hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name=rule, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def made(kind, folder):
    """A tokenizer of a kind."""
    if kind == "bytes":
        return ByteTokenizer(4, masking=True)
    if kind == "lowered bytes":
        return ByteTokenizer(lowercase=True)
    if kind == "characters":
        return CharacterTokenizer.trained(TEXTS[:2], sentinels=3, masking=True)
    if kind in ("nmt_nfkc", "identity"):
        (folder / "spiece.model").write_bytes(sentence_pieces(kind))
        return open_tokenizer(Tokenizer(kind="file", file=str(folder), sentinels=5))
    settings = Tokenizer(kind=kind, vocabulary_size=300, sentinels=2, masking=kind != "wordpiece")
    return open_tokenizer(settings, list(TEXTS))


KINDS = ("bytes", "lowered bytes", "characters", "bpe", "wordpiece", "unigram", "nmt_nfkc", "identity")


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_give_the_same_ids_with_and_without_marks(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tokenizer = made(kind, tmp_path)

    def written(**marks):
        return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(tokenizer, **marks)["tokenizer.json"]))

    plain, closed, marked = written(), written(closing=True), written(opening=True, closing=True)
    for text in TEXTS:
        ids = tokenizer.encode(text).tolist()
        assert plain.encode(text).ids == ids
        end = [] if tokenizer.end_id is None else [tokenizer.end_id]
        assert closed.encode(text).ids == ids + end
        layout = Layout(tokenizer, 512)
        assert marked.encode(text).ids == layout([np.array(ids, np.int32)])[0].tolist()
        assert plain.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)
    pair = marked.encode(TEXTS[0], TEXTS[1])
    ids, types = layout([tokenizer.encode(text) for text in TEXTS[:2]])
    assert (pair.ids, pair.type_ids) == (ids.tolist(), types.tolist())


def folder_with(to, config=None, **files):
    """A folder with BERT's vocabulary of the goldens, or other files, and what is stated beside."""
    to.mkdir(exist_ok=True)
    for name, content in (files or {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ne\né\nE\nÉ\n京\n##京\n"}).items():
        (to / name.replace("__", ".")).write_text(content if isinstance(content, str) else json.dumps(content))
    if config is not None:
        (to / "tokenizer_config.json").write_text(json.dumps(config))
    return to


@pytest.mark.parametrize(
    ("config", "ids"),
    [
        ({"do_lower_case": False}, [8, 9, 10]),
        ({"do_lower_case": True}, [5, 9, 10]),
        ({"do_lower_case": True, "strip_accents": False}, [6, 9, 10]),
        ({"do_lower_case": False, "tokenize_chinese_chars": False}, [8, 9, 10]),
    ],
)
def test_what_is_stated_of_a_berts_text_is_done(config, ids, tmp_path):
    tokenizer = tokenizer_beside(folder_with(tmp_path, config), 20)
    joined = config.get("tokenize_chinese_chars", True)
    assert tokenizer.encode("É 京京").tolist() == ([ids[0], 9, 9] if joined else ids)


def test_special_tokens_are_those_stated_and_added_ones_follow(tmp_path):
    vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nstart\n[unused]\n"
    config = {"bos_token": "start", "mask_token": {"content": "[MASK]"}, "sep_token": "</none>"}
    config["added_tokens_decoder"] = {"7": {"content": "<pause>"}, "9": {"content": "<gap>"}}
    tokenizer = tokenizer_beside(folder_with(tmp_path, config, vocab__txt=vocabulary), 20)
    assert (tokenizer.start_id, tokenizer.mask_id, tokenizer.separate_id) == (5, 4, 3)
    assert tokenizer.vocabulary_size == 8
    assert tokenizer.decode([7]) == "<pause>"
    assert special_ids(tokenizer, "bos", "eos", "pad") == {"bos_token_id": 5, "eos_token_id": 3, "pad_token_id": 0}
    with pytest.raises(Refused, match="has 8 ids, the model 7; it belongs to another model"):
        tokenizer_beside(tmp_path, 7)


def test_no_text_is_unknown_to_gpt2(tmp_path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text((GOLDENS / "gpt2" / name).read_text())
    end = {"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_prefix_space": True}
    tokenizer = tokenizer_beside(folder_with(tmp_path, end, **{"any.txt": ""}), 280)
    assert tokenizer.unknown_id is None
    assert tokenizer.byte_lengths[tokenizer.end_id] == 0
    assert tokenizer.decode(tokenizer.encode("quick")) == " quick"
    assert tokenizer_beside(GOLDENS / "gpt2", 280).decode(tokenizer.encode("quick")) == " quick"
    assert tokenizer_beside(GOLDENS / "bert" / "nowhere", 280) is None


def test_a_t5s_pieces_get_its_sentinels(tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentence_pieces("identity"))
    pieces = t5_tokenizer(folder_with(tmp_path, {"extra_ids": 0}, **{"any.txt": ""}), 32_128).vocabulary_size
    (tmp_path / "tokenizer_config.json").unlink()
    tokenizer = t5_tokenizer(tmp_path, 32_128)
    assert tokenizer.vocabulary_size == pieces + 100
    assert tokenizer.sentinel(0) == pieces + 99
    files = tokenizer_files(tokenizer, closing=True)
    assert files["spiece.model"] == tokenizer.model
    (tmp_path / "tokenizer.json").write_text(json.dumps(files["tokenizer.json"]))
    assert t5_tokenizer(tmp_path, 32_128).specials == tokenizer.specials
    whole = folder_with(tmp_path / "whole", vocab__txt="[PAD]\n[UNK]\n[SEP]\na\n")
    definition = tokenizer_files(tokenizer_beside(whole, 9))["tokenizer.json"]
    (whole / "tokenizer.json").write_text(json.dumps(definition))
    assert t5_tokenizer(whole, 9).vocabulary_size == 4


def test_a_sentencepiece_model_that_is_damaged_where_only_writing_looks_is_refused_there(tmp_path):
    model = bytearray(sentence_pieces("nmt_nfkc"))
    characters = normalisation(bytes(model)).characters
    place = model.index(characters) + len(characters) - 40
    model[place] = 0xFF  # what replaces characters is no UTF-8 any more
    (tmp_path / "spiece.model").write_bytes(model)
    tokenizer = tokenizer_beside(tmp_path, 200)
    with pytest.raises(Refused, match="tokenizer = sentencepiece: can't be written in transformers' form"):
        tokenizer_files(tokenizer)


def test_a_byt5_has_the_last_bytes_for_sentinels(tmp_path):
    tokenizer = t5_tokenizer(tmp_path, 384)
    assert (tokenizer.pad_id, tokenizer.end_id, tokenizer.vocabulary_size) == (0, 1, 259)
    assert [tokenizer.sentinel(index) for index in (0, 1, 10)] == [258, 257, 248]
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000, 7)]))
    assert not set(tokenizer.encode(everything).tolist()) & set(tokenizer.specials.sentinels)
    assert tokenizer.decode([*tokenizer.encode("aé"), 258, 100]) == "aé<extra_id_0>a"
    assert tokenizer.byte_lengths[[247, 248, 258]].tolist() == [1, 0, 0]
    assert tokenizer_files(tokenizer)["tokenizer_config.json"]["tokenizer_class"] == "ByT5Tokenizer"
    assert "tokenizer.json" not in tokenizer_files(tokenizer)
    again = load_tokenizer(tmp_path, tokenizer.save(tmp_path))
    assert again.specials == tokenizer.specials
    with pytest.raises(Refused, match=r"tokenizer.sentinels = 11: span 11 needs a sentinel of its own"):
        tokenizer.sentinel(11)
    assert t5_tokenizer(tmp_path / "nowhere", 32_128) is None


def test_a_published_file_that_cuts_and_fills_up_texts_doesnt_here(tmp_path):
    made = tokenizers.Tokenizer.from_file(str(GOLDENS / "t5" / "tokenizer.json"))
    made.enable_truncation(3)
    made.enable_padding(length=20)
    made.save(str(tmp_path / "tokenizer.json"))
    for special_in_text in (False, True):
        settings = Tokenizer(kind="file", file=str(tmp_path), special_in_text=special_in_text)
        assert len(open_tokenizer(settings).encode("the quick fox is here")) > 3
