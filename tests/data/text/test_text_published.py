"""Published tokenizer files of every form."""

import json

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError

BERT = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s", "[", "]", "pad"]


def published(path, **settings):
    return open_tokenizer(Tokenizer(kind="file", file=str(path), **settings))


@pytest.fixture
def gpt2(tmp_path):
    """GPT-2's form: byte-level pieces, merges, <|endoftext|> last."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: id for id, piece in enumerate([*alphabet, "he", "ll", "hell", "Ġhe", "<|endoftext|>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\nl l\nhe ll\nĠ he\n")
    return tmp_path


def t5_json(path):
    """T5's form: Unigram whose vocabulary holds the special tokens at score 0, and 100 sentinels after it."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁a", -2.5)]
    pieces += [(c, -3.0) for c in "abcdefghijklmnopqrstuvwxyz</>_0123456789"]
    pieces += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(100))]
    made = tokenizers.Tokenizer(models.Unigram(pieces, 2))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens([piece for piece, score in pieces if score == 0.0])
    made.save(str(path / "tokenizer.json"))
    return path


def test_gpt2_files_are_read_by_folder_and_by_either_name(gpt2):
    for path in (gpt2, gpt2 / "vocab.json", gpt2 / "merges.txt"):
        tokenizer = published(path)
        ids = tokenizer.encode("hell he")
        assert [tokenizer.decode([id]) for id in ids] == ["hell", " he"]
        assert tokenizer.end_id == tokenizer.pad_id == tokenizer.start_id == 260 == tokenizer.vocabulary_size - 1
        assert tokenizer.decode(tokenizer.encode("x<|endoftext|>y")) == "x<|endoftext|>y"
        assert 260 not in tokenizer.encode("x<|endoftext|>y")


def test_roles_can_be_given(gpt2):
    assert published(gpt2, special={"mask": "<|endoftext|>"}).mask_id == 260
    with pytest.raises(UserError, match=r"inputs.tokens.tokenizer.special.mask = <m>: is no token of this vocabulary"):
        published(gpt2, special={"mask": "<m>"})


def test_t5s_special_pieces_are_not_found_in_text(tmp_path):
    tokenizer = published(t5_json(tmp_path))
    ids = tokenizer.encode("a <pad> b </s> <extra_id_0>")
    assert set(ids.tolist()) & set(tokenizer.special_ids.tolist()) == set()
    assert tokenizer.decode(ids) == "a <pad> b </s> <extra_id_0>"
    assert (tokenizer.pad_id, tokenizer.end_id, tokenizer.start_id, tokenizer.decoder_start_id) == (0, 1, None, 0)


def test_t5s_sentinels_count_down_from_the_end(tmp_path):
    tokenizer = published(t5_json(tmp_path))
    last = tokenizer.vocabulary_size - 1
    assert [tokenizer.sentinel(i) for i in (0, 1, 99)] == [last, last - 1, last - 99]
    assert tokenizer.decode([tokenizer.sentinel(0), tokenizer.sentinel(1)]) == "<extra_id_0><extra_id_1>"


@pytest.mark.parametrize("capital", [False, True])
def test_a_bert_vocabulary_without_capitals_lowers_text(tmp_path, capital):
    (tmp_path / "vocab.txt").write_text("\n".join([*BERT, "Hello"] if capital else BERT) + "\n")
    tokenizer = published(tmp_path / "vocab.txt")
    assert tokenizer.encode("Hello worlds").tolist() == [12 if capital else 6, 7, 8]
    assert (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.classify_id, tokenizer.separate_id) == (0, 2, 3, 4)
    assert tokenizer.mask_id == 5
    assert tokenizer.decode([6, 7, 8]) == "hello worlds"
    assert tokenizer.encode("[PAD]").tolist() == ([9, 2, 10] if capital else [9, 11, 10])


def test_a_sentencepiece_model_gets_sentinels_after_its_pieces(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    text = ["the cat sat on the mat", "a dog ran to the house", "cats < and / dogs > run"] * 5
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_prefix=str(tmp_path / "spiece"), vocab_size=60, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2, num_threads=1,
    )  # fmt: skip
    tokenizer = published(tmp_path / "spiece.model", sentinels=100)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model")).get_piece_size()
    assert (tokenizer.vocabulary_size, tokenizer.sentinel(0)) == (pieces + 100, pieces + 99)
    assert (tokenizer.pad_id, tokenizer.end_id, tokenizer.unknown_id) == (0, 1, 2)
    ids = tokenizer.encode("the cat </s> sat")
    assert 1 not in ids
    assert tokenizer.decode(ids) == "the cat </s> sat"
    assert tokenizer.decode([*tokenizer.encode("the"), tokenizer.sentinel(0), *tokenizer.encode("mat")]) == (
        "the<extra_id_0> mat"
    )
    assert load_tokenizer(tmp_path / "saved", tokenizer.save(tmp_path / "saved")).sha256 == tokenizer.sha256


def test_files_that_are_missing_or_broken_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        published(tmp_path / "none.json")
    with pytest.raises(UserError, match=r"no tokenizer.json, .* in it"):
        published(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"tokenizer.json can't be read"):
        published(tmp_path)
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(UserError, match=r"needs merges.txt beside it"):
        published(tmp_path / "vocab.json")


PIECES = {"[PAD]": 0, "[UNK]": 1, "a": 2}


def definition(**model):
    made = tokenizers.Tokenizer(models.WordPiece(PIECES, unk_token="[UNK]"))
    content = json.loads(made.to_str())
    return json.dumps(content | {"model": {**content["model"], **model}})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("spiece.model", "", "it is empty"),
        ("spiece.model", "no model", "it is no SentencePiece model"),
        ("vocab.txt", "", "its vocabulary is empty"),
        ("vocab.txt", "a\nb\n", r"its vocabulary lacks \[UNK\], which stands for what is unknown"),
        ("tokenizer.json", "5", "it holds no JSON object"),
        ("tokenizer.json", "[]", "it holds no JSON object"),
        ("tokenizer.json", "{}", "it holds no tokenizer: `model` is missing"),
        ("tokenizer.json", definition(vocab={}), "its vocabulary is empty"),
        ("tokenizer.json", definition(unk_token="<unk>"), "its vocabulary lacks <unk>, which stands for what is unkn"),
        ("vocab.json", '{"a": 0, "b": 1}', "its vocabulary lacks 254 of the 256 bytes, and their text would be lost"),
        ("vocab.json", '{"a": 0, "a</w>": 1}', "it has no token for what is unknown, and such text would be lost"),
        ("tokenizer.json", definition(type="BPE", merges=[], unk_token=None, byte_fallback=True), "its .* 256 bytes"),
        ("tokenizer.json", definition(type="Unigram", vocab=[["a", 0.0]]), "it has no token for what is unknown"),
    ],
)
def test_a_file_that_could_not_read_every_text_is_refused_in_one_line(tmp_path, capfd, file, content, message):
    (tmp_path / file).write_text(content)
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(UserError, match=f"^inputs.tokens.tokenizer.file = .*{file}: {file} can't be read: {message}"):
        published(tmp_path / file)
    assert capfd.readouterr().err == ""


def test_settings_that_a_file_leaves_without_effect_are_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text(definition())
    for lowercase in (True, False):
        with pytest.raises(
            UserError, match=r"inputs.tokens.tokenizer.lowercase = \w+: has no effect: tokenizer.json says itself"
        ):
            published(tmp_path, lowercase=lowercase)
    assert len(published(tmp_path, sentinels=3).specials.sentinels) == 3
    t5 = t5_json(tmp_path)
    assert len(published(t5, sentinels=100).specials.sentinels) == 100
    with pytest.raises(
        UserError, match=r"inputs.tokens.tokenizer.sentinels = 5: has no effect: tokenizer.json has 100 of its own"
    ):
        published(t5, sentinels=5)
    (tmp_path / "vocab.txt").write_text("[UNK]\nA\na\n")
    assert published(tmp_path / "vocab.txt", lowercase=True).encode("A").tolist() == [2]
