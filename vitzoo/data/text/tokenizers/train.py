"""Vocabularies made from text: an exact function of settings and text, kept in the cache.

However long a line or a word of that text is, nothing of it is left out, and the time is linear in its length.
"""

import hashlib
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from vitzoo.data.folders import cache_folder
from vitzoo.data.text.lines import check_whole
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.token_array import kept_folder
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import MASKING, CharacterTokenizer
from vitzoo.data.text.tokenizers.definition import Definition
from vitzoo.data.text.tokenizers.library import LibraryTokenizer, roles_of, token_names, with_sentinels
from vitzoo.data.text.tokenizers.panics import as_errors
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.data.text.tokenizers.sentence_piece import SentencePieceTokenizer
from vitzoo.errors import UserError, install_extra
from vitzoo.schema import to_json

LONGEST_WORD = 1000  # characters: to count the pairs of a word takes the square of its length
LONGEST_LINE = 2**14  # characters
LINE_BYTES = 4 * LONGEST_LINE  # of UTF-8: sentencepiece leaves out a line of more
LINE_ENDS = re.compile("[\n\u2585]")
"""And the character that sentencepiece keeps for what is unknown: it leaves out a whole line with it."""
_SPACE, _WORD = r"[^\S\x1c-\x1f]", r"[\S\x1c-\x1f]"  # those four are spaces to Python alone
_LONG_RUN = re.compile(rf"(?<!{_WORD}){_WORD}{{{LONGEST_WORD + 1},}}|(?<!{_SPACE}){_SPACE}{{{LONGEST_WORD + 1},}}")


def with_short_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts, cut within words (and runs of spaces) of more than `LONGEST_WORD` characters."""
    for text in texts:
        start = 0
        for run in _LONG_RUN.finditer(text):
            for end in range(run.start() + LONGEST_WORD, run.end(), LONGEST_WORD):
                yield text[start:end]
                start = end
        yield text[start:]


def short_lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines that aren't empty; those of more than `LONGEST_LINE` characters are cut, at spaces if there are any."""
    for text in texts:
        for line in LINE_ENDS.split(text):
            yield from (part for part in _parts(line) if part.strip(" "))


def _parts(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > LONGEST_LINE:
        space = line.rfind(" ", start + 1, start + LONGEST_LINE + 1)
        if space < 0:
            yield line[start : start + LONGEST_LINE]
            start += LONGEST_LINE
        else:  # a line of sentencepiece begins with a space of its own
            yield line[start:space]
            start = space + 1
    yield line[start:]


FORMAT = 2  # raised when the same text and settings come to mean another vocabulary
SPECIAL = ["<pad>", "</s>", "<unk>"]  # ids 0, 1, 2, as in T5
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_tokenizer(settings: Tokenizer, texts: Iterable[str]) -> TextTokenizer:
    """The tokenizer of `settings.kind` whose vocabulary is made from `texts`, from the cache if made before.

    Args:
        settings: kind characters, bpe (Sennrich et al. 2016, on bytes as in GPT-2), unigram (Kudo 2018) or wordpiece.
        texts: iterated twice (so a list or a source, not a generator): for the cache's key, and to train.
    However long its lines and words are, nothing of a text is left out; words are cut for it after 1,000 characters.

    Raises:
        UserError: there is no text to train on, or one that can't be written as UTF-8.
    """
    digest = hashlib.sha256(json.dumps([FORMAT, tokenizers.__version__, to_json(settings)]).encode())
    found = False
    for text in texts:
        found |= bool(text)
        check_whole("text", text)
        digest.update(len(text).to_bytes(8, "little") + text.encode("utf-8"))
    if not found:
        raise UserError(
            "inputs.tokens.tokenizer.kind", settings.kind, "is trained on the training text, and there is none"
        )

    def make(folder):
        description = _train(settings, texts).save(folder)
        (folder / "description.json").write_text(json.dumps(description))

    folder = kept_folder(cache_folder() / "tokenizers" / digest.hexdigest()[:24], make)
    return load_tokenizer(folder, json.loads((folder / "description.json").read_text()))


def _train(settings: Tokenizer, texts: Iterable[str]) -> TextTokenizer:
    if settings.kind == "characters":
        return CharacterTokenizer.trained(
            texts, sentinels=settings.sentinels, masking=settings.masking, lowercase=bool(settings.lowercase),
            special_in_text=settings.special_in_text,
        )  # fmt: skip
    size = settings.vocabulary_size - settings.sentinels
    masking = list(MASKING.values()) if settings.masking else []
    if settings.kind == "unigram":
        return _unigram(settings, texts, size, masking)
    if settings.kind == "bpe":
        definition = _bpe(texts, size, SPECIAL + masking, bool(settings.lowercase))
    else:
        definition = _wordpiece(settings, texts, size)
    definition = with_sentinels(definition, settings.sentinels)
    return LibraryTokenizer(definition, roles_of(definition, {}), special_in_text=settings.special_in_text)


def _bpe(texts: Iterable[str], size: int, special: list[str], lowercase: bool) -> Definition:
    """On bytes, so that no text is unknown and every text comes back as it was."""
    made = tokenizers.Tokenizer(models.BPE())
    made.normalizer = normalizers.Lowercase() if lowercase else None  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    made.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    with as_errors():
        made.train_from_iterator(with_short_words(texts), trainer)
    return json.loads(made.to_str())


def _unigram(settings: Tokenizer, texts: Iterable[str], size: int, control: list[str]) -> TextTokenizer:
    """A SentencePiece model as T5's (padding 0, end 1, unknown 2), but without normalisation, and with the line end as
    a piece: text of known characters comes back as it was. One thread, so that nothing depends on their number.
    """
    try:
        import sentencepiece
    except ImportError:
        problem = f"is trained by sentencepiece; {install_extra('sentencepiece')}"
        raise UserError("inputs.tokens.tokenizer.kind", "unigram", problem) from None
    lines = short_lines(text.lower() if settings.lowercase else text for text in texts)
    first = next(lines, None)
    if first is None:
        raise UserError(
            "inputs.tokens.tokenizer.kind", "unigram", "is trained on the training text, which holds nothing but spaces"
        )
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain([first], lines),
            model_writer=model, model_type="unigram", vocab_size=size, hard_vocab_limit=False, num_threads=1,
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", eos_piece="</s>", unk_piece="<unk>",
            unk_surface="<unk>", control_symbols=control, user_defined_symbols=["\n"], character_coverage=1.0,
            normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
            max_sentence_length=LINE_BYTES, minloglevel=2,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            "inputs.tokens.tokenizer.vocabulary_size", settings.vocabulary_size, f"can't be trained: {reason}"
        ) from None
    return SentencePieceTokenizer(
        model.getvalue(), settings.sentinels, lowercase=bool(settings.lowercase),
        special_in_text=settings.special_in_text,
    )  # fmt: skip


def _wordpiece(settings: Tokenizer, texts: Iterable[str], size: int) -> Definition:
    """BERT's pieces (`##` continues a word). The library numbers the letters that continue words in an order that
    varies, and breaks ties by number; naming all letters beforehand, sorted, fixes it.

    Raises:
        UserError: the text has more letters than the vocabulary room.
    """
    lowercase = bool(settings.lowercase)
    letters = token_names(_trained_wordpiece(texts, 1, BERT_SPECIAL, lowercase))
    named = BERT_SPECIAL + sorted(letters - set(BERT_SPECIAL))
    if size < len(named):
        message = f"must be at least {len(named) + settings.sentinels}: the letters of the text, and special tokens"
        raise UserError("inputs.tokens.tokenizer.vocabulary_size", settings.vocabulary_size, message)
    definition = _trained_wordpiece(texts, size, named, lowercase)
    definition["added_tokens"] = definition["added_tokens"][: len(BERT_SPECIAL)]
    return definition


def _trained_wordpiece(texts: Iterable[str], size: int, special: list[str], lowercase: bool) -> Definition:
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    made.decoder = decoders.WordPiece(cleanup=False)  # type: ignore[assignment]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    with as_errors():
        made.train_from_iterator(with_short_words(texts), trainer)
    return json.loads(made.to_str())
