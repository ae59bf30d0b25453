"""Tokenizers: text comes back, special tokens stay apart from text, and a saved one is the same one."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sent import sent

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer, CharacterTokenizer
from vitzoo.data.text.tokenizers.open import byte_length, open_tokenizer
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.errors import UserError
from vitzoo.schema import build

LINES = [f"The {a} <{b}> of [{c}] is/was: {a}{b} {c}s, a b x 0123456789_\n" for a in ("cat", "dog", "pad", "extra")
         for b in ("ran", "id", "Sun") for c in ("PAD", "house", "tree")]  # fmt: skip
NASTY = "a <pad> b </s> <extra_id_0>"
KINDS = ("bytes", "characters", "bpe", "wordpiece", "unigram")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One tokenizer of each kind, trained on LINES."""
    patch = pytest.MonkeyPatch()
    patch.setenv("VITZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
    size = {"bpe": 330, "wordpiece": 150, "unigram": 120}
    tokenizers = {
        kind: open_tokenizer(
            Tokenizer(kind=kind, vocabulary_size=size.get(kind, 8000), sentinels=4, masking=True), LINES
        )
        for kind in KINDS
    }
    patch.undo()
    return tokenizers


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_reads_like_special_tokens_is_text(made, kind):
    # huggingface/transformers #15443: `<pad>` in a text vanished
    tokenizer = made[kind]
    ids = tokenizer.encode(NASTY)
    assert set(ids.tolist()) & (set(tokenizer.special_ids.tolist()) - {tokenizer.unknown_id}) == set()
    assert tokenizer.decode(ids).replace(" ", "") == NASTY.replace(" ", "")
    assert ids.dtype == np.int32


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe", "unigram"])
def test_text_comes_back_as_it_was(made, kind):
    for text in (*LINES, "".join(LINES), "  The  \n\n\n of ", ""):
        assert made[kind].decode(made[kind].encode(text)) == text


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_bytes_know_every_text(made, kind):
    text = "naïve 東京 🙂 \x00\r\n"
    assert made[kind].decode(made[kind].encode(text)) == text
    assert made[kind].unknown_id not in made[kind].encode(text)


@pytest.mark.parametrize("kind", KINDS)
def test_sentinels_are_the_last_ids_and_decode_in_order(made, kind):
    # as in T5, where <extra_id_0> is 32099 of 32100
    tokenizer = made[kind]
    assert [tokenizer.sentinel(i) for i in range(4)] == [tokenizer.vocabulary_size - 1 - i for i in range(4)]
    assert [tokenizer.decode([tokenizer.sentinel(i)]) for i in range(2)] == ["<extra_id_0>", "<extra_id_1>"]
    with pytest.raises(UserError, match=r"inputs.tokens.tokenizer.sentinels = 4: span 4 needs a sentinel of its own"):
        tokenizer.sentinel(4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_read_back_as_the_same(made, kind, tmp_path):
    description = made[kind].save(tmp_path / "assets")
    assert set(description) == {"kind", "file", "sha256"}
    again = load_tokenizer(tmp_path / "assets", description)
    for other in (again, sent(made[kind])):
        assert other.sha256 == made[kind].sha256
        assert np.array_equal(other.encode(LINES[3]), made[kind].encode(LINES[3]))
        assert other.specials == made[kind].specials


def test_a_changed_file_is_refused(made, tmp_path):
    description = made["characters"].save(tmp_path)
    content = (tmp_path / "tokenizer.json").read_text()
    (tmp_path / "tokenizer.json").write_text(content.replace('"sentinels": 4', '"sentinels": 5'))
    with pytest.raises(UserError, match="sha256 differs"):
        load_tokenizer(tmp_path, description)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_encoded_as_its_texts_are(made, kind):
    for ids, text in zip(made[kind].encode_batch(LINES[:5]), LINES[:5], strict=True):
        assert np.array_equal(ids, made[kind].encode(text))


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe"])
def test_byte_lengths_add_up_to_the_text(made, kind):
    for text in LINES[:3]:
        assert made[kind].byte_lengths[made[kind].encode(text)].sum() == byte_length(text)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_a_padded_head_stand_for_nothing(made, kind):
    ids = made[kind].encode("The cat")
    assert made[kind].decode([*ids.tolist(), made[kind].vocabulary_size + 3]) == made[kind].decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_specials_are_skipped_when_asked(made, kind):
    ids = made[kind].encode("The cat")
    assert made[kind].decode([*ids, made[kind].end_id, made[kind].pad_id], skip_specials=True) == "The cat"


def test_bytes_are_numbered_as_in_byt5():
    # Xue et al. 2021: padding 0, end 1, unknown 2, then the byte values
    tokenizer = ByteTokenizer(sentinels=100)
    assert tokenizer.encode("Aé").tolist() == [65 + 3, 0xC3 + 3, 0xA9 + 3]
    assert (tokenizer.pad_id, tokenizer.end_id, tokenizer.unknown_id) == (0, 1, 2)
    assert (tokenizer.vocabulary_size, tokenizer.sentinel(0)) == (359, 358)
    assert tokenizer.decoder_start_id == 0


def test_characters_are_numbered_as_in_nanogpt():
    # nanoGPT: sorted(list(set(text))), ids by place
    tokenizer = CharacterTokenizer.trained(["hello", " world"])
    assert tokenizer.characters == " dehlorw"
    assert tokenizer.encode("hold?").tolist() == [3, 5, 4, 1, 8]
    assert (tokenizer.unknown_id, tokenizer.decode(tokenizer.encode("hold?"))) == (8, "hold<unk>")


def test_special_text_means_the_token_where_configured():
    for tokenizer in (ByteTokenizer(special_in_text=True), CharacterTokenizer("a</s>"[:1], special_in_text=True)):
        assert tokenizer.encode("a</s>a").tolist() == [*tokenizer.encode("a"), tokenizer.end_id, *tokenizer.encode("a")]


def test_a_bpe_takes_special_text_where_configured():
    tokenizer = open_tokenizer(Tokenizer(kind="bpe", vocabulary_size=300, special_in_text=True), LINES)
    assert tokenizer.encode("</s>").tolist() == [tokenizer.end_id]


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe", "wordpiece", "unigram"])
def test_lowercase_lowers_first(kind):
    if kind == "unigram":
        pytest.importorskip("sentencepiece")
    tokenizer = open_tokenizer(
        Tokenizer(kind=kind, vocabulary_size=300 if kind == "bpe" else 80, lowercase=True), LINES
    )
    assert tokenizer.decode(tokenizer.encode("The CAT")) == "the cat"


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_training_is_a_function_of_the_text(made, kind, tmp_path):
    # another process: the library's order of words differs from run to run (huggingface/tokenizers #1794)
    code = (
        "import sys, json, os; os.environ['VITZOO_CACHE'] = sys.argv[1]\n"
        "from vitzoo.data.text.settings import Tokenizer\n"
        "from vitzoo.data.text.tokenizers.train import train_tokenizer\n"
        "settings = Tokenizer(kind=sys.argv[2], vocabulary_size=int(sys.argv[3]), sentinels=4, masking=True)\n"
        "print(train_tokenizer(settings, json.load(sys.stdin)).sha256)"
    )
    size = {"bpe": 330, "wordpiece": 150, "unigram": 120}[kind]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), kind, str(size)],
        input=json.dumps(LINES), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == made[kind].sha256


def test_a_trained_vocabulary_has_the_size_asked_for(made):
    assert made["bpe"].vocabulary_size == 330
    # of a text too small for more, all pieces that there are
    assert made["unigram"].vocabulary_size <= 120


def test_training_twice_reads_the_cache(monkeypatch):
    settings = Tokenizer(kind="bpe", vocabulary_size=300)
    first = open_tokenizer(settings, LINES)
    monkeypatch.setattr("vitzoo.data.text.tokenizers.train._train", None)
    assert open_tokenizer(settings, LINES).sha256 == first.sha256


def test_a_vocabulary_without_room_for_the_letters_of_the_text_is_refused():
    with pytest.raises(
        UserError, match=r"inputs.tokens.tokenizer.vocabulary_size = 20: must be at least 74: the letters of the text"
    ):
        open_tokenizer(Tokenizer(kind="wordpiece", vocabulary_size=20, sentinels=2), LINES)


def test_no_text_to_train_on_is_refused():
    with pytest.raises(UserError, match=r"inputs.tokens.tokenizer.kind = bpe: is trained on the training text"):
        open_tokenizer(Tokenizer(kind="bpe"))
    with pytest.raises(UserError, match="there is none"):
        open_tokenizer(Tokenizer(kind="characters"), [""])


def test_settings_that_contradict_are_refused():
    for values, field in (
        ({"kind": "file"}, "tokenizer.file"),
        ({"kind": "bytes", "file": "x"}, "tokenizer.file"),
        ({"special": {"padd": "x"}}, "tokenizer.special"),
        ({"kind": "bpe", "vocabulary_size": 258 + 100, "sentinels": 100}, "tokenizer.vocabulary_size"),
        ({"kind": "bpe", "vocabulary_size": 261, "masking": True}, "tokenizer.vocabulary_size"),
        ({"kind": "unigram", "vocabulary_size": 107, "sentinels": 100}, "tokenizer.vocabulary_size"),
        ({"kind": "characters", "vocabulary_size": 107}, "tokenizer.vocabulary_size"),
        ({"kind": "file", "file": "x", "masking": True}, "tokenizer.masking"),
    ):
        with pytest.raises(UserError) as refusal:
            build(Tokenizer, values, "tokenizer")
        assert refusal.value.field == field


@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram", "wordpiece"])
def test_half_a_character_is_refused_where_a_vocabulary_is_made_and_where_it_is_used(kind):
    settings = Tokenizer(kind=kind, vocabulary_size=300)
    with pytest.raises(UserError, match=r"text = 'b\\ud800': holds what is no character"):
        open_tokenizer(settings, ["a", "b\ud800"])
    if kind != "characters":
        tokenizer = open_tokenizer(settings, ["a text", "b"])
        for use in (tokenizer.encode, lambda text: tokenizer.encode_batch(["a", text])):
            with pytest.raises(UserError, match=r"text = 'b\\ud800': holds what is no character"):
                use("b\ud800")
