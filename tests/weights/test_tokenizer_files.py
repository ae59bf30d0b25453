"""Tokenizers beside published weights, and the files by which ours go out: the same ids for the same text."""

import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from vitzoo.data.text.packing import Layout
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer, CharacterTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError
from vitzoo.weights.tokenizer_json import character_steps, normalisation
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


NAMED = (
    "x </s> y <pad>[SEP] z<extra_id_0>",
    "<unk> [MASK]<mask> [CLS]</s>",
    "an</s>",
    "</s>an END<extra_id_1> <s><cls>",
    "[SEP] and [SEP]",
)
"""Texts that hold the names of special tokens, which are text here."""


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_special_tokens_in_a_text_are_text_to_transformers_too(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tokenizer = made(kind, tmp_path)
    files = tokenizer_files(tokenizer, closing=True)
    written = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    # as transformers does with this setting
    written.encode_special_tokens = files["tokenizer_config.json"]["split_special_tokens"]
    assert written.encode_special_tokens is True
    for text in (*TEXTS, *NAMED):
        assert written.encode(text, add_special_tokens=False).ids == tokenizer.encode(text).tolist()


@pytest.mark.parametrize("masking", [False, True])
def test_the_mask_of_a_model_of_masked_tokens_is_found_in_a_text(masking, tmp_path):
    files = tokenizer_files(tokenizer_beside(folder_with(tmp_path), 20), opening=True, closing=True, masking=masking)
    written = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    written.encode_special_tokens = files["tokenizer_config.json"].get("split_special_tokens", False)
    assert (4 in written.encode("e [MASK] e", add_special_tokens=False).ids) == masking


def test_where_special_tokens_are_found_in_a_text_transformers_finds_them_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = Tokenizer(kind="bpe", vocabulary_size=300, sentinels=2, special_in_text=True)
    tokenizer = open_tokenizer(settings, list(TEXTS))
    files = tokenizer_files(tokenizer)
    assert "split_special_tokens" not in files["tokenizer_config.json"]
    written = tokenizers.Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    assert tokenizer.end_id in written.encode(NAMED[0]).ids
    for text in NAMED:
        assert written.encode(text).ids == tokenizer.encode(text).tolist()


CHARACTERS = (
    *(
        "e\u0301",
        "a\u0301\u0323",
        "a\u0323\u0301",
        "e\u0323\u0302",
        "g\u0323\u0302",
        "\u0301a",
        "x\u0301\u0301",
        "u\u0308\u0301",
    ),
    *(
        "\ufb01\u0301x",
        "\uff21\u0301",
        "\u2460\u0301",
        "\u212b",
        "\u210c\u0308",
        "\u00bd\u0338",
        "=\u0338",
        "\u2122\u0302",
    ),
    *(
        "\uff76\uff9e",
        "\u304b\u3099",
        "\u1100\u1161\u11a8",
        "\uac00\u11a8",
        "\u3131\u314f",
        "\uffa1\uffc2",
        "\u09c7\u09be",
    ),
    *(
        "\ufdfa",
        "\u0628\u064e",
        "\ufe91\u064e",
        "\u0e01\u0e33",
        "a\u200d\u0301b",
        "\U0001f468\u200d\U0001f469",
        "\r\nx",
        "a\tb",
    ),
    *("\u0344", "\u0340", "\u200bx", "a\u00adb", "\ufeffx", "\u3000x\u3000", "\u00a8", "e\u0344x", "\u2028"),
)
"""Accents in and out of order, letters and digits of other forms, joined or not; syllables; marks of no width."""


@pytest.mark.parametrize("pieces", ["nmt_nfkc", "identity", pytest.param("nfkc_cf", marks=pytest.mark.slow)])
def test_characters_are_replaced_as_sentencepiece_replaces_them(pieces, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    rule = sentencepiece.SentencePieceNormalizer(
        rule_name=pieces, add_dummy_prefix=False, remove_extra_whitespaces=False, escape_whitespaces=False
    )
    (tmp_path / "spiece.model").write_bytes(sentence_pieces(pieces))
    tokenizer = open_tokenizer(Tokenizer(kind="file", file=str(tmp_path)))
    written = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(tokenizer)["tokenizer.json"]))
    drawn = random.Random(0)
    texts = [*CHARACTERS, *("".join(drawn.choices(CHARACTERS, k=drawn.randint(2, 6))) for _ in range(300))]
    table = normalisation(tokenizer.model).characters
    steps = tokenizers.normalizers.Sequence(character_steps(table) if table else [])
    for text in texts:
        assert written.encode(text).ids == tokenizer.encode(text).tolist(), ascii(text)
        # letters that these few pieces don't have are all unknown: look at the text too
        assert steps.normalize_str(text) == rule.normalize(text), ascii(text)


LINES = (
    "\n",
    "\n",
    "\r\n",
    "\t",
    " ",
    " ",
    "  ",
    "\u3000",
    "\u2028",
    "\x85",
    "\x0b",
    "\u2581",
    "the",
    "quick",
    "é",
    "A",
)


@pytest.mark.parametrize("rule", ["identity", "nfkc", "nfkc_cf", "nmt_nfkc"])
def test_spaces_are_taken_away_at_the_ends_of_a_text_and_not_of_its_lines_as_sentencepiece_does(rule, tmp_path):
    (tmp_path / "spiece.model").write_bytes(sentence_pieces(rule))
    tokenizer = open_tokenizer(Tokenizer(kind="file", file=str(tmp_path)))
    written = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(tokenizer)["tokenizer.json"]))
    drawn = random.Random(1)
    texts = ["a \n b", " a\n\n b ", "\n a", "a \n", "", " ", "\u2581", "a \u2581"]
    texts += ["".join(drawn.choices(LINES, k=drawn.randint(0, 9))) for _ in range(1000)]
    for text in texts:
        assert written.encode(text).ids == tokenizer.encode(text).tolist(), ascii(text)


def test_a_table_of_ones_own_is_written_too(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    # source and replacement in hexadecimal code points: ab → x, é (in two) → e, n → two letters, q → nothing
    (tmp_path / "rules.tsv").write_text("61 62\t78\n65 301\t65\n6E\t6D 6D\n71\t\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, model_type="unigram", vocab_size=70, minloglevel=2,
        hard_vocab_limit=False, normalization_rule_tsv=str(tmp_path / "rules.tsv"),
    )  # fmt: skip
    (tmp_path / "spiece.model").write_bytes(model.getvalue())
    tokenizer = open_tokenizer(Tokenizer(kind="file", file=str(tmp_path / "spiece.model")))
    written = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(tokenizer)["tokenizer.json"]))
    for text in ("abab cab aab", "e\u0301n ne\u0301", "quick queen", "\u00e9 e\u0302", *TEXTS):
        assert written.encode(text).ids == tokenizer.encode(text).tolist(), text


@pytest.mark.parametrize("where", ["tokenizer_config.json", "added_tokens.json"])
def test_tokens_stated_beside_a_vocabulary_are_found_in_text_unless_they_are_special(where, tmp_path):
    vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nnew\ncases\nco\n##vid\n##ity\n"
    if where == "added_tokens.json":
        config = {"additional_special_tokens": ["pause"]}
        (tmp_path / where).write_text(json.dumps({"covidity": 10, "pause": 11, "long covid": 12}))
    else:
        tokens = {"10": {"content": "covidity"}, "11": {"content": "pause", "special": True}}
        config = {"added_tokens_decoder": {**tokens, "12": {"content": "long covid", "lstrip": True}}}
    tokenizer = tokenizer_beside(folder_with(tmp_path, config, vocab__txt=vocabulary), 20)
    assert tokenizer.encode("new covidity cases").tolist() == [5, 10, 6]
    assert tokenizer.encode("New Covidity long covid").tolist() == [5, 10, 12]
    assert tokenizer.encode("pause").tolist() == [1]


@pytest.mark.parametrize("where", ["tokenizer_config.json", "added_tokens.json"])
def test_a_token_of_the_vocabulary_that_is_stated_under_another_id_is_refused(where, tmp_path):
    folder = folder_with(tmp_path)
    content = {"[SEP]": 5} if where == "added_tokens.json" else {"added_tokens_decoder": {"5": {"content": "[SEP]"}}}
    (folder / where).write_text(json.dumps(content))
    with pytest.raises(UserError) as caught:
        tokenizer_beside(folder, 20)
    token = "its added token '[SEP]' has the id 5, which is that of 'e'; 3 is right"
    assert str(caught.value) == f"{folder / where}: contradicts the vocabulary: {token}"


def test_how_a_token_is_found_is_true_or_false(tmp_path):
    config = {"added_tokens_decoder": {"10": {"content": "covidity", "lstrip": "yes"}}}
    with pytest.raises(UserError, match=r"has added_tokens_decoder.10.lstrip = 'yes'; true or false is right"):
        tokenizer_beside(folder_with(tmp_path, config), 20)


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
    with pytest.raises(UserError, match="has 8 ids, the model 7; it belongs to another model"):
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
    with pytest.raises(UserError, match="tokenizer = sentencepiece: can't be written in transformers' form"):
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
    with pytest.raises(UserError, match=r"inputs.tokens.tokenizer.sentinels = 11: span 11 needs a sentinel of its own"):
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
