"""The tasks that `tasks/NAME` puts as questions or texts: which records, and how they are put.

The forms of GLUE, SuperGLUE, SQuAD, CNN/DailyMail and WMT are T5's (Raffel et al. 2020, https://arxiv.org/abs/1910.10683,
appendix D), but for `super_glue/wsc`, which T5 turns into another task.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
    """One task. `{field}` stands for a feature of a record; of a list its entries, joined by a comma.

    Args:
        dataset: TFDS's name.
        question: how it is put; empty: a record is a `text`.
        text: that text.
        choices: answers to choose from, or one name of a feature that lists them; none: the names of the classes.
        label: the feature that holds the right choice's number; empty: there is nothing to choose.
        answers: a feature of right answers, `answers/text` within another, or a template of one.
        step: of a number to say, what it is rounded to.
        group: what examples of one question share.
    """

    dataset: str
    question: str = ""
    text: str = ""
    choices: tuple[str, ...] = ()
    label: str = ""
    answers: str = ""
    step: float = 0.0
    group: str = ""


def _classes(dataset: str, question: str) -> Task:
    return Task(dataset, question, label="label")


TASKS: dict[str, Task] = {
    "lambada": Task("lambada", text="{passage}"),
    "hellaswag": Task("hellaswag", "{context}", choices=("endings",), label="label"),
    "glue/cola": _classes("glue/cola", "cola sentence: {sentence}"),
    "glue/sst2": _classes("glue/sst2", "sst2 sentence: {sentence}"),
    "glue/mrpc": _classes("glue/mrpc", "mrpc sentence1: {sentence1} sentence2: {sentence2}"),
    "glue/qqp": _classes("glue/qqp", "qqp question1: {question1} question2: {question2}"),
    "glue/stsb": Task("glue/stsb", "stsb sentence1: {sentence1} sentence2: {sentence2}", answers="{label}", step=0.2),
    "glue/mnli": _classes("glue/mnli", "mnli hypothesis: {hypothesis} premise: {premise}"),
    "glue/qnli": _classes("glue/qnli", "qnli question: {question} sentence: {sentence}"),
    "glue/rte": _classes("glue/rte", "rte sentence1: {sentence1} sentence2: {sentence2}"),
    "glue/wnli": _classes("glue/wnli", "wnli sentence1: {sentence1} sentence2: {sentence2}"),
    "super_glue/boolq": _classes("super_glue/boolq", "boolq passage: {passage} question: {question}"),
    "super_glue/cb": _classes("super_glue/cb", "cb hypothesis: {hypothesis} premise: {premise}"),
    "super_glue/copa": _classes(
        "super_glue/copa", "copa choice1: {choice1} choice2: {choice2} premise: {premise} question: {question}"
    ),
    "super_glue/multirc": Task(
        "super_glue/multirc",
        "multirc question: {question} answer: {answer} paragraph: {paragraph}",
        label="label",
        group="{question}\n{paragraph}",
    ),
    "super_glue/record": Task(
        "super_glue/record", "record query: {query} entities: {entities} passage: {passage}", answers="answers"
    ),
    "super_glue/rte": _classes("super_glue/rte", "rte hypothesis: {hypothesis} premise: {premise}"),
    "super_glue/wic": _classes("super_glue/wic", "wic sentence1: {sentence1} sentence2: {sentence2} word: {word}"),
    "super_glue/wsc": _classes("super_glue/wsc.fixed", "wsc text: {text} span1: {span1_text} span2: {span2_text}"),
    "squad": Task("squad/v1.1", "question: {question} context: {context}", answers="answers/text"),
    "cnn_dailymail": Task("cnn_dailymail", "{article}", answers="{highlights}"),
    "wmt/en-de": Task("wmt14_translate/de-en", "{en}", answers="{de}"),
    "wmt/en-fr": Task("wmt14_translate/fr-en", "{en}", answers="{fr}"),
    "wmt/en-ro": Task("wmt16_translate/ro-en", "{en}", answers="{ro}"),
}
