"""Which model, objective, evaluators, tokenizer and settings of text go together, seen from the config alone."""

import dataclasses
import json

import pytest

from vitzoo.config import resolve
from vitzoo.data.processors.text import MAKERS
from vitzoo.data.settings import Data
from vitzoo.data.text.row_kinds import ACTS, EXAMPLES, ROWS, check_evaluator, check_learns, check_prefix, kind_of
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.evaluation.language_modelling import PerplexityEvaluator
from vitzoo.evaluation.settings import of_evaluator

PROSE = {"data.name": "text:book.txt"}


def refusal(config: str, **changes) -> str:
    with pytest.raises(UserError) as caught:
        resolve(config, overrides=[f"{key.replace('__', '.')}={value}" for key, value in changes.items()])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_kind_of_rows_has_a_maker_and_the_settings_that_act_on_it():
    assert set(ROWS) == set(MAKERS)
    assert {rows for acts in ACTS.values() for rows in acts} <= {*ROWS, EXAMPLES}
    assert set(ACTS) <= set(vars(Text()))


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            "gpt/char",
            {"rows": "pairs"},
            "rows = pairs: of gpt perplexity measures rows of windows, documents, answers or prefix",
        ),
        ("gpt/char", {"rows": "nonsense"}, "rows = nonsense: of gpt perplexity measures rows of windows, docum"),
        ("gpt/char", {"rows": "prompts"}, "rows = prompts: of gpt perplexity measures rows of windows, docum"),
        ("t5/translate", {"rows": "windows"}, "rows = windows: of t5 perplexity measures rows of prefix, pairs or"),
        ("bert/pretrain", {"rows": "labelled"}, "rows = labelled: of bert masked_lm measures rows of masked"),
        ("gpt/char", {"name": "classification"}, "name = classification: measures an encoder, and gpt is a decoder"),
        ("gpt/char", {"name": "masked_lm"}, "name = masked_lm: measures an encoder, and gpt is a decoder"),
        ("bert/classify", {"name": "generation"}, "name = generation: measures a decoder or an encoder-decoder, an"),
        ("bert/classify", {"name": "last_word"}, "name = last_word: measures a decoder or an encoder-decoder, an"),
        ("bert/classify", {"name": "perplexity"}, "name = perplexity: measures a decoder or an encoder-decoder, a"),
        ("bert/classify", {"name": "token_classification"}, "name = token_classification: measures tagged rows, a"),
        ("quickstart", {"name": "perplexity"}, "name = perplexity: measures text, and the objective takes images"),
    ],
)
def test_an_evaluator_of_what_the_model_does_not_read_is_refused(config, changes, message):
    key = "test" if config == "quickstart" else "val"
    assert refusal(config, **{f"evaluate__{key}__{field}": value for field, value in changes.items()}).startswith(
        f"evaluate.{key}.{message}"
    )


def test_a_users_own_model_is_held_to_the_kind_that_it_declares():
    class Config:
        KIND = "decoder"

    with pytest.raises(
        UserError, match=r"model.name = my:Model: is a decoder, and rows of pairs are for an encoder-deco"
    ):
        check_learns("my:Model", Config, "pairs")
    check_learns("my:Model", Config, "labelled")  # what it learns of these, its settings of a head say
    Config.KIND = "sequence"
    with pytest.raises(UserError, match="its KIND is 'sequence'; there are decoder, encoder_decoder, encoder"):
        kind_of(Config)


def test_a_users_own_decoder_without_the_setting_can_not_be_a_prefix_lm():
    @dataclasses.dataclass(frozen=True)
    class Config:
        KIND = "decoder"

    with pytest.raises(UserError, match=r"model.name = my:Model: has no setting prefix_lm, so it can't read a prefix"):
        check_prefix("my:Model", Config, None, wanted=True)
    check_prefix("my:Model", Config, None, wanted=False)
    Config.KIND = "encoder_decoder"  # whose source the prefix is
    check_prefix("my:Model", Config, None, wanted=True)


def test_without_a_model_an_evaluator_is_held_to_its_own_rows():
    rows = PerplexityEvaluator(rows="pairs")
    check_evaluator("evaluate.val", "perplexity", rows, "windows", "", None)
    with pytest.raises(
        UserError, match=r"evaluate.val.rows = masked: perplexity measures rows of windows, documents, "
    ):
        check_evaluator("evaluate.val", "perplexity", PerplexityEvaluator(rows="masked"), "windows", "", None)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            "gpt/char",
            {"inputs__tokens__packing": "true"},
            "inputs.tokens.packing = True: has no effect on rows of windows; it acts on d",
        ),
        (
            "gpt/char",
            {"inputs__tokens__mask_rate": "0.3"},
            "inputs.tokens.mask_rate = 0.3: has no effect on rows of windows; it acts on",
        ),
        (
            "bert/pretrain",
            {"inputs__tokens__packing": "true", "inputs__tokens__next_sentence": "true"},
            "inputs.tokens.packing = True: has no effect with next_sentence",
        ),
        (
            "gpt/char",
            {"inputs__tokens__tokenizer__vocabulary_size": "99"},
            "inputs.tokens.tokenizer.vocabulary_size = 99: has no effect with kind=c",
        ),
        (
            "gpt/char",
            {"inputs__tokens__tokenizer__special": "pad:x"},
            "inputs.tokens.tokenizer.special = {'pad': 'x'}: has no effect with kind=cha",
        ),
        (
            "t5/translate",
            {"inputs__tokens__tokenizer__vocabulary_size": "16"},
            "inputs.tokens.tokenizer.vocabulary_size = 16: must be at least 259:",
        ),
        (
            "t5/translate",
            {
                "inputs__tokens__tokenizer__kind": "file",
                "inputs__tokens__tokenizer__file": "x",
                "inputs__tokens__tokenizer__masking": "true",
            },
            "inputs.tokens.tokenizer.masking = True: has no effect with kind=file; it is for bytes, characters, bpe, ",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(config, changes, message):
    assert refusal(config, **changes).startswith(message)


def test_a_setting_acts_where_the_objective_or_an_evaluator_makes_such_rows():
    Text(packing=True).check_rows("inputs.tokens", ["windows", "documents"], Data())
    with pytest.raises(UserError, match="has no effect on rows of windows or pairs; it acts on masked"):
        Text(whole_words=True).check_rows("inputs.tokens", ["windows", "pairs", "windows"], Data())


def test_as_many_sentinels_as_wanted_follow_bytes():
    resolve("gpt/char", overrides=["inputs.tokens.tokenizer.kind=bytes", "inputs.tokens.tokenizer.sentinels=9000"])


def test_another_kind_of_tokenizer_by_flag_leaves_out_what_it_has_no_use_for_and_says_so():
    published = ["inputs.tokens.tokenizer.kind=file", "inputs.tokens.tokenizer.file=tokenizer.json"]
    resolved = resolve("bert/pretrain:base", overrides=published)
    tokenizer = resolved.experiment.inputs["tokens"].tokenizer
    assert (tokenizer.vocabulary_size, tokenizer.lowercase) == (8000, None)  # the defaults
    assert resolved.notes == [
        "inputs.tokens.tokenizer.kind = file has no use for "
        "inputs.tokens.tokenizer.vocabulary_size = 30522, inputs.tokens.tokenizer.lowercase = True: left out"
    ]
    assert (
        resolve("bert/classify", overrides=[*published, "inputs.tokens.tokenizer.lowercase=true"])
        .experiment.inputs["tokens"]
        .tokenizer.lowercase
    )
    assert (
        resolve("bert/classify", overrides=["inputs.tokens.tokenizer.kind=bytes"])
        .experiment.inputs["tokens"]
        .tokenizer.lowercase
    )  # as stated
    assert resolve(json.loads(json.dumps(resolved.values))).notes == []


def test_another_evaluator_by_flag_leaves_what_belonged_to_the_one_before():
    kept = resolve("gpt/char", overrides=PROSE | {"evaluate.val.batch_size": 3}).values  # as config.json holds them
    assert kept["evaluate"]["val"]["rows"] == ""
    resolved = resolve(kept, overrides=["evaluate.val.name=generation", "evaluate.val.max_new_tokens=5"])
    evaluator = resolved.experiment.evaluate["val"]
    assert (type(evaluator).__name__, evaluator.rows, evaluator.batch_size) == ("GenerationEvaluator", "prompts", 3)
    (note,) = resolved.notes
    assert note.startswith(
        "evaluate.val.name = generation has no use for evaluate.val.rows = '', evaluate.val.stride = "
    )
    stated = resolve("gpt/char", overrides=["evaluate.val.rows=documents"]).values
    assert resolve(stated, overrides=["evaluate.val.name=last_word"]).experiment.evaluate["val"].rows == "last_word"


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("name", "evaluate.val.name"),
        ("data.split", "evaluate.val.split"),
        ("data.name", "evaluate.val.data.name"),  # which it changes
        ("data.dir", "data.dir"),  # which it doesn't
        ("inputs.tokens.length", "inputs.tokens.length"),
        ("--predictions", "--predictions"),
    ],
)
def test_a_fault_of_an_evaluator_is_told_by_the_setting_that_is_at_fault(field, told):
    evaluator = PerplexityEvaluator(data={"name": "other"})
    assert of_evaluator("val", evaluator, UserError(field, None, "is wrong")).field == told
