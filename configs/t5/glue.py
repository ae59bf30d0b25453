"""Fine-tunes a T5 on a task of GLUE as text to text, in T5's own words.

Command:   vitzoo train --config t5/glue:mnli --workdir runs/mnli --config.init_from=google/t5-v1_1-base
Hardware:  an accelerator.
Data:      glue/TASK of TFDS: vitzoo data prepare glue/mnli
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1, the best checkpoint by validation. Not run by us. Numbers of stsb
           are written as they stand; T5 rounds them to multiples of 0.2. WNLI, which the paper leaves out, isn't here.
"""

import vitzoo.config

TASKS = {
    "cola": "cola sentence: {sentence}",
    "mnli": "mnli hypothesis: {hypothesis} premise: {premise}",
    "mrpc": "mrpc sentence1: {sentence1} sentence2: {sentence2}",
    "qnli": "qnli question: {question} sentence: {sentence}",
    "qqp": "qqp question1: {question1} question2: {question2}",
    "rte": "rte sentence1: {sentence1} sentence2: {sentence2}",
    "sst2": "sst2 sentence: {sentence}",
    "stsb": "stsb sentence1: {sentence1} sentence2: {sentence2}",
}


def get_config(arg="mnli"):
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
    config.data = dict(name=f"glue/{arg}", split="train", batch_size=128)
    config.text = dict(
        template=vitzoo.config.choice(arg, TASKS), label_field="label", source_length=512, sequence_length=32
    )
    config.checkpoint = dict(every_steps=5000, keep=1, keep_best="val/accuracy")
    split = "validation_matched" if arg == "mnli" else "validation"
    metrics = ("accuracy",) if arg == "stsb" else ("accuracy", "macro_f1")
    config.evaluate = dict(
        val=dict(name="generation", split=split, metrics=metrics, max_new_tokens=16, every_steps=5000)
    )
    return config
