"""Numbers that compare texts, against the programs that define them."""

import pytest

from vitzoo.errors import UserError
from vitzoo.evaluation import rouge, text_metrics
from vitzoo.evaluation.text_metrics import BETTER, OWN, SACRE, accuracy, distance, error_rate, macro_f1, scores

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


@pytest.mark.parametrize(
    ("said", "wanted", "whole", "by_sentence"),
    [  # rouge_score 0.1.2: RougeScorer(["rougeL", "rougeLsum"]).score(wanted, said), fmeasure
        (
            "the dog ran off .\nit was big and red",
            "it was a big dog\nthe red dog ran away from it",
            0.380952380952, 0.666666666667,
        ),
        (
            "police say a man was killed .\nthe man was 30",
            "a man , 30 , was killed\npolice in the city say he fled\nhe was 30",
            0.56, 0.72,
        ),
        ("b c\na b\na c", "a b c\nc a", 0.545454545455, 0.909090909091),
        ("one two three four", "one two three four", 1.0, 1.0),
        ("le café über TGF-β", "le caf ber TGF", 1.0, 1.0),  # Latin text: words are a-z and 0-9, as rouge-score has it
    ],
)  # fmt: skip
def test_rouge_l_of_whole_texts_and_of_sentences_are_those_of_the_library(said, wanted, whole, by_sentence):
    found = scores(["rougeL", "rougeLsum"], [said], [[wanted]]).values
    assert found == pytest.approx({"rougeL": whole, "rougeLsum": by_sentence}, abs=1e-9)


def test_sentences_without_line_breaks_are_cut_at_their_ends_where_that_is_asked_for():
    said, wanted = "It was big. Was it red? Yes!", "Was it red? Yes!\nIt was big."
    as_lines = said.replace("? ", "?\n").replace(". ", ".\n")
    right = scores(["rougeLsum"], [as_lines], [["Was it red?\nYes!\nIt was big."]]).values
    assert scores(["rougeLsum"], [said], [[wanted]], sentences="punctuation").values == right
    assert rouge.sentences_of("一。二！三", "punctuation") == ["一。", "二！", "三"]
    assert rouge.sentences_of("3.14 is a\n\nnumber. ", "lines") == ["3.14 is a", "number. "]


OTHER_SCRIPTS = {
    "ru": ("Кошка сидит дома", "Собака сидит дома", 2 / 3),
    "hi": ("बिल्ली घर में है", "कुत्ता घर में है", 3 / 4),
    "zh": ("猫在家里", "狗在家里", 3 / 4),
    "ja": ("猫は家にいる", "犬は家にいる", 5 / 6),
    "th": ("แมวดี", "หมวดี", 3 / 4),
    "ar": ("القط في البيت", "الكلب في البيت", 2 / 3),
    "el": ("Η γάτα κοιμάται", "Η ΓΆΤΑ τρώει", 2 / 3),
    "ko": ("고양이가 집에 있다", "개가 집에 있다", 2 / 3),
    "mixed": ("вес 3 kg", "вес 4 kg", 2 / 3),
}


@pytest.mark.parametrize("language", OTHER_SCRIPTS)
def test_rouge_counts_the_words_of_other_scripts(language):
    said, wanted, shared = OTHER_SCRIPTS[language]
    for kind in rouge.ROUGE:
        assert scores([kind], [wanted], [[wanted]]).values[kind] == 1.0, kind
    assert scores(["rouge1"], [said], [[wanted]]).values["rouge1"] == pytest.approx(shared)
    assert scores(["rouge1"], ["cats and dogs"], [[wanted]]).values["rouge1"] == 0.0


def test_bleu_and_chrf_are_sacrebleus_on_its_scale_with_its_signature():
    found = scores(["bleu", "chrf"], ["the cat sat on mat", "x y"], [["the cat sat on the mat", "a cat"], ["x y z"]])
    # `sacrebleu references -i predictions -m bleu chrf`, version 2.6.0
    assert found.values == pytest.approx({"bleu": 54.001776, "chrf": 65.586595}, abs=1e-5)
    assert found.signatures["bleu"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "|tok:char|" in scores(["bleu"], ["a"], [["a"]], "char").signatures["bleu"]


def test_without_sacrebleu_bleu_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    with pytest.raises(UserError, match=r"metrics = bleu: needs sacreBLEU: install the extra `text`"):
        text_metrics.make_sacre("bleu")


def test_squads_numbers_leave_case_articles_and_punctuation_aside_and_take_the_best_reference():
    assert text_metrics.squad_normal("The Cat,  a dog's!") == "cat dogs"
    said, right = ["The cat.", "in Rome", ""], [["dog", "cat"], ["Rome, Italy", "in Paris"], ["x"]]
    assert scores(["exact_match"], said, right).values["exact_match"] == pytest.approx(1 / 3)
    assert scores(["squad_f1"], said, right).values["squad_f1"] == pytest.approx((1 + 0.5 + 0) / 3)


@pytest.mark.parametrize(
    ("said", "wanted", "first", "second"),
    [("the", "a", 0, 1), ("", "the", 0, 1), ("...", "", 0, 1), ("the", "cat", 0, 0), ("a cat", "cat", 1, 1)],
)
def test_where_articles_are_all_there_is_squad_1_1_says_wrong_and_2_0_right(said, wanted, first, second):
    # evaluate-v1.1.py: num_same == 0 gives 0; evaluate-v2.0.py: where either has no token, whether both have none
    found = scores(["squad_f1", "squad_v2_f1", "exact_match"], [said], [[wanted]]).values
    assert found == {"squad_f1": first, "squad_v2_f1": second, "exact_match": second}


def test_names_of_classes_are_compared_whole():
    said, right = ["spam", "ham ", "spam", "eggs"], [["spam"], ["ham"], ["ham"], ["ham"]]
    assert accuracy(said, right) == 0.5
    spam, ham, eggs = 2 * 1 / (2 + 1), 2 * 1 / (1 + 3), 0
    assert macro_f1(said, right) == pytest.approx((spam + ham + eggs) / 3)


def test_two_spellings_of_a_name_are_one_class():
    said, right = ["cafe\u0301", "tea "], [["caf\u00e9"], ["tea"]]
    assert scores(["accuracy", "macro_f1"], said, right).values == {"accuracy": 1, "macro_f1": 1}


@pytest.mark.parametrize("said", [["a", "b", "c"], ["a", "b", "b"], ["b", "a", "a"], ["x", "y", "z"], ["c", "c", "c"]])
def test_macro_f1_of_names_is_scikit_learns(said):
    from sklearn.metrics import f1_score

    wanted = ["a", "b", "b"]
    right = f1_score(wanted, said, average="macro", zero_division=0)
    assert scores(["macro_f1"], said, [[one] for one in wanted]).values["macro_f1"] == pytest.approx(right)


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
    assert error_rate(["a b c"], [["", " "]]) == 1.0  # whatever its length: there is nothing to divide by
    assert error_rate(["a b", "c d"], [[""], ["c d"]]) == 1.0  # two insertions, two words wanted


def test_every_metric_is_told_whether_more_is_better():
    assert set(BETTER) == {*OWN, *SACRE, *rouge.ROUGE}
