"""Numbers that compare texts, against the programs that define them."""

import pytest

from vitzoo.errors import Refused
from vitzoo.evaluation.text_metrics import sacre, squad
from vitzoo.evaluation.text_metrics.errors import distance, error_rate
from vitzoo.evaluation.text_metrics.names import accuracy, macro_f1
from vitzoo.evaluation.text_metrics.table import BETTER, OWN, SACRE, scores

SAID = ["Big on dog mat on it's", "day sat 3 cat", "dog Big", "it's day mat Big red, a a the 3", "mat a on red, 3", ""]
RIGHT = [
    ["red,", "dog sat 3 cat red, dog", "it's on a"],
    ["day mat dog dog a sat 3 cat it's", "red, on red, on red, dog cat cat red,"],
    ["mat a Big 3 day", "3 day", "big. it's mat mat dog cat big. it's on"],
    ["mat big. Big day sat sat a red,", "it's dog Big a cat it's"],
    ["it's a a Big the red, 3", "red, the a cat it's a a it's a"],
    ["cat", "Big mat Big", "day"],
]


def test_rouge_is_that_of_the_library():
    # rouge_score 0.1.2: RougeScorer(["rouge1", "rouge2", "rougeL"]).score_multi, the mean of fmeasure
    found = scores(["rouge1", "rouge2", "rougeL"], SAID, RIGHT).values
    assert found == pytest.approx(
        {"rouge1": 0.406944906945, "rouge2": 0.143728956229, "rougeL": 0.358123358123}, abs=1e-9
    )


def test_bleu_and_chrf_are_sacrebleus_on_its_scale_with_its_signature():
    found = scores(["bleu", "chrf"], ["the cat sat on mat", "x y"], [["the cat sat on the mat", "a cat"], ["x y z"]])
    # `sacrebleu references -i predictions -m bleu chrf`, version 2.6.0
    assert found.values == pytest.approx({"bleu": 54.001776, "chrf": 65.586595}, abs=1e-5)
    assert found.signatures["bleu"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "|tok:char|" in scores(["bleu"], ["a"], [["a"]], "char").signatures["bleu"]


def test_without_sacrebleu_bleu_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    with pytest.raises(Refused, match=r"metrics = bleu: needs sacreBLEU: install the extra `text`"):
        sacre.make("bleu")


def test_squads_numbers_leave_case_articles_and_punctuation_aside_and_take_the_best_reference():
    assert squad.normal("The Cat,  a dog's!") == "cat dogs"
    said, right = ["The cat.", "in Rome", ""], [["dog", "cat"], ["Rome, Italy", "in Paris"], ["x"]]
    assert squad.exact_match(said, right) == pytest.approx(1 / 3)
    assert squad.f1(said, right) == pytest.approx((1 + 0.5 + 0) / 3)
    assert squad.token_f1("", "the") == 1.0


def test_names_of_classes_are_compared_whole():
    said, right = ["spam", "ham ", "spam", "eggs"], [["spam"], ["ham"], ["ham"], ["ham"]]
    assert accuracy(said, right) == 0.5
    spam, ham = 2 * 1 / (2 + 1), 2 * 1 / (1 + 3)
    assert macro_f1(said, right) == pytest.approx((spam + ham) / 2)


@pytest.mark.parametrize(
    ("said", "wanted", "edits"),
    [("", "", 0), ("abc", "abc", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("abcd", "bcde", 2)],
)
def test_the_fewest_edits_between_two_sequences(said, wanted, edits):
    assert distance(said, wanted) == edits


def test_an_error_rate_is_all_edits_over_all_that_was_wanted():
    said, right = ["AE1 D S", "B IY1"], [["AE1 D IH0 S"], ["B IY1", "B EH1"]]
    assert error_rate(said, right) == pytest.approx(1 / 6)
    assert error_rate(["a b c"], [["x"]]) == 3.0
    assert error_rate(["a"], [[""]]) == 1.0
    assert error_rate([""], [[""]]) == 0.0


def test_every_metric_is_told_whether_more_is_better():
    assert set(BETTER) == {*OWN, *SACRE}
