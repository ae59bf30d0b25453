"""Fine-tunes a T5 on a task of SuperGLUE as text to text, in T5's own words.

Command:   vitzoo train --config t5/superglue:boolq --workdir runs/boolq --config.init_from=google/t5-v1_1-base
Hardware:  an accelerator.
Data:      super_glue/TASK of TFDS: vitzoo data prepare super_glue/boolq
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1, the best checkpoint by validation. Not run by us. MultiRC is
           scored answer by answer, not by question; WSC, whose sources T5 marks within the text, isn't here.
"""

import vitzoo.config

TASKS = {
    "boolq": "boolq passage: {passage} question: {question}",
    "cb": "cb hypothesis: {hypothesis} premise: {premise}",
    "copa": "copa choice1: {choice1} choice2: {choice2} premise: {premise} question: {question}",
    "multirc": "multirc question: {question} answer: {answer} paragraph: {paragraph}",
    "record": "record query: {query} entities: {entities} passage: {passage}",
    "rte": "rte hypothesis: {hypothesis} premise: {premise}",
    "wic": "wic sentence1: {sentence1} sentence2: {sentence2} word: {word}",
}


def get_config(arg="boolq"):
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = 2**18
    config.model = dict(dropout=0.1)
    config.objective = dict(name="seq2seq")
    config.optimizer = dict(
        name="adafactor",
        learning_rate=1e-3,
        beta1=0.0,
        beta2=1.0,
        update_clip=1.0,
        scale_by_parameter=True,
        min_factored_size=128,
        weight_decay=0.0,
    )
    config.schedule = dict(name="constant")
    config.data = dict(name=f"super_glue/{arg}", split="train", batch_size=128)
    config.text = dict(template=vitzoo.config.choice(arg, TASKS), source_length=512, sequence_length=64)
    metrics, best = ("accuracy", "macro_f1"), "val/accuracy"
    if arg == "record":  # answered by an entity of the passage
        metrics, best = ("exact_match", "f1"), "val/f1"
    else:
        config.text.label_field = "label"
    config.checkpoint = dict(every_steps=5000, keep=1, keep_best=best)
    config.evaluate = dict(
        val=dict(name="generation", split="validation", metrics=metrics, max_new_tokens=32, every_steps=5000)
    )
    return config
