"""Answers are learned, prompts are not."""

import numpy as np
import pytest
from made_texts import MadeSource

from vitzoo.data.text.answers import Answers
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError

BYTES = ByteTokenizer()
TURNS = [
    {"role": "user", "text": "1+1"},
    {"role": "assistant", "text": "2"},
    {"role": "user", "text": "so"},
    {"role": "assistant", "text": "ok"},
    {"role": "user", "text": "bye"},
]


def scored(row):
    return BYTES.decode(row["targets"][row["target_weights"] > 0])


def seen(row):
    return BYTES.decode(row["tokens"][row["tokens_segments"] > 0])


def test_a_completion_and_its_end_are_scored():
    rows = Answers(MadeSource([{"prompt": "2+2=", "completion": "4"}]), BYTES, Text(length=16))
    row = rows.eval_row(0)
    assert (seen(row), scored(row)) == ("2+2=4", "4</s>")
    assert row["target_weights"].tolist() == [0, 0, 0, 1, 1] + [0] * 11


def test_every_answer_of_a_conversation_is_scored_and_nothing_else():
    row = Answers(MadeSource([{"turns": TURNS}]), BYTES, Text(length=128)).eval_row(0)
    assert seen(row) == "user: 1+1\nassistant: 2</s>\nuser: so\nassistant: ok"
    assert scored(row) == "2</s>ok</s>"


def test_a_template_can_be_chosen():
    text = Text(length=128, prefix="Hi.\n", turn_prefix="<{role}>", turn_suffix="|", answer_roles=("user",))
    row = Answers(MadeSource([{"turns": TURNS[:2]}]), BYTES, text).eval_row(0)
    assert (seen(row), scored(row)) == ("Hi.\n<user>1+1", "1+1</s>")


def test_a_long_prompt_loses_its_front_and_a_long_answer_its_end():
    source = MadeSource([{"prompt": "abcdefgh", "completion": "xy"}, {"prompt": "ab", "completion": "0123456789"}])
    rows = Answers(source, BYTES, Text(length=6))
    first, second = rows.eval_row(0), rows.eval_row(1)
    assert (seen(first), scored(first)) == ("efghxy", "xy</s>")
    assert (seen(second), scored(second)) == ("b01234", "012345")
    assert rows.info.notes == ("2 of 2 examples are longer than 6 tokens and cut",)


def test_packed_examples_score_what_they_score_alone():
    examples = [{"prompt": "p" * (n % 5), "completion": "c" * (1 + n % 3)} for n in range(30)]
    source = MadeSource(examples)
    packed = Answers(source, BYTES, Text(length=24, packing=True))
    assert len(packed) < 12
    found = [
        (BYTES.decode(row["tokens"][row["tokens_segments"] == number]),
         row["target_weights"][row["tokens_segments"] == number].tolist())
        for row in map(packed.eval_row, range(len(packed))) for number in range(1, row["tokens_segments"].max() + 1)
    ]  # fmt: skip
    alone = Answers(source, BYTES, Text(length=24))
    expected = [
        (seen(row), row["target_weights"][row["tokens_segments"] > 0].tolist())
        for row in map(alone.eval_row, range(30))
    ]
    assert sorted(found) == sorted(expected)


def test_an_empty_prompt_scores_from_the_second_token_on():
    row = Answers(MadeSource([{"prompt": "", "completion": "ab"}]), BYTES, Text(length=4)).eval_row(0)
    assert (seen(row), scored(row)) == ("ab", "b</s>")
    assert np.isfinite(row["target_weights"]).all()


def test_data_without_answers_is_refused():
    with pytest.raises(UserError, match="learning answers needs the fields prompt, completion; this data has text"):
        Answers(MadeSource([{"text": "a"}]), BYTES, Text())


def test_a_source_and_its_target_are_learned_like_a_prompt_and_its_completion():
    row = Answers(MadeSource([{"source": "2+2=", "target": "4"}]), BYTES, Text(length=16)).eval_row(0)
    assert (seen(row), scored(row)) == ("2+2=4", "4</s>")


def test_roles_are_the_same_in_capitals():
    turns = [{"role": "USER", "text": "1+1"}, {"role": "Assistant", "text": "2"}]
    text = Text(length=32, answer_roles=("ASSISTANT",))
    row = Answers(MadeSource([{"turns": turns}]), BYTES, text).eval_row(0)
    assert (seen(row), scored(row)) == ("USER: 1+1\nAssistant: 2", "2</s>")


@pytest.mark.parametrize("packing", [False, True])
def test_examples_without_an_answer_are_left_out_and_counted(packing):
    asked = [{"turns": TURNS[:1]}, {"turns": TURNS[:2]}, {"turns": TURNS[2:3]}, {"turns": TURNS[2:]}]
    rows = Answers(MadeSource(asked), BYTES, Text(length=48, packing=packing))
    assert sorted("".join(scored(rows.eval_row(index)) for index in range(len(rows)))) == sorted("2</s>ok</s>")
    assert len(rows) == (1 if packing else 2)
    assert rows.info.notes == ("2 of 4 examples have no answer and are left out",)


def test_data_in_which_nobody_answers_are_refused_with_the_roles_there_are():
    with pytest.raises(
        UserError, match=r"inputs.tokens.answer_roles = assistant, model, gpt: no turn in made train .* are user"
    ):
        Answers(MadeSource([{"turns": TURNS[:1]}, {"turns": TURNS[2:3]}]), BYTES, Text())
    with pytest.raises(UserError, match=r"inputs.tokens.answer_roles = none: .* its roles are user, assistant"):
        Answers(MadeSource([{"turns": TURNS}]), BYTES, Text(answer_roles=()))
