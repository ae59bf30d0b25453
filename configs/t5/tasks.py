"""Fine-tunes a T5 on a task as text to text, in T5's own words: GLUE, SuperGLUE, SQuAD, CNN/DailyMail and WMT.

Command:   vitzoo train --config t5/tasks:glue/mnli --workdir runs/mnli --config.init_from=google/t5-v1_1-base
           vitzoo configs t5/tasks   # shows the tasks
Hardware:  an accelerator.
Data:      of TFDS, prepared once: vitzoo data prepare glue/mnli (super_glue/boolq, squad, cnn_dailymail,
           wmt14_translate/de-en ...). How each task is put stands in vitzoo/data/datasets/tasks.py.
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1, the best checkpoint by validation; of summaries and translations
           beam 4 with a length penalty of 0.6. Not run by us. MultiRC is scored answer by answer, not by question;
           papers give rougeLsum as ROUGE-L; WNLI, which the paper leaves out, and WSC, whose sources it marks
           within the text, aren't here.
"""

import vitzoo.config

# most tokens of an answer; metrics, by the first of which the best checkpoint is kept; what stands before a source
CLASSES = (32, ("accuracy", "macro_f1"), "")
ANSWERS = (64, ("squad_f1", "exact_match"), "")
TASKS = {
    **{f"glue/{task}": CLASSES for task in ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2")},
    "glue/stsb": (32, ("pearson", "spearman"), ""),
    **{f"super_glue/{task}": CLASSES for task in ("boolq", "cb", "copa", "multirc", "rte", "wic")},
    "super_glue/record": ANSWERS,
    "squad": ANSWERS,
}
# those whose answers are long: chosen by their loss, and written at the end only
LONG = {
    "cnn_dailymail": (512, ("rouge1", "rouge2", "rougeL", "rougeLsum"), "summarize: "),
    "wmt/en-de": (512, ("bleu", "chrf"), "translate English to German: "),
    "wmt/en-fr": (512, ("bleu", "chrf"), "translate English to French: "),
    "wmt/en-ro": (512, ("bleu", "chrf"), "translate English to Romanian: "),
}
STEPS = 2**18


def get_config(arg="glue/mnli"):
    length, metrics, prefix = vitzoo.config.choice(arg, TASKS | LONG)
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = STEPS
    config.model = dict(dropout=0.1)
    config.objective = dict(name="seq2seq")
    config.data = dict(name=f"tasks/{arg}", split="train", batch_size=128)
    config.inputs.tokens = dict(prefix=prefix, source_length=512, length=length)
    config.optimizer = dict(name="t5_adafactor", learning_rate=1e-3)
    config.schedule = dict(name="constant")
    written = dict(name="generation", metrics=metrics, max_new_tokens=min(length, 256))
    if arg == "cnn_dailymail":
        written["rouge_sentences"] = "punctuation"  # T5's vocabulary has no line break
    if arg in LONG:
        config.checkpoint = dict(every_steps=5000, keep=1, keep_best="val/loss")
        config.evaluate = dict(
            val=dict(name="perplexity", split="validation", max_rows=4000, every_steps=5000),
            test=dict(written, split="test", num_beams=4, length_penalty=0.6, every_steps=STEPS),
        )
    else:
        split = "validation_matched" if arg == "glue/mnli" else "validation"
        config.checkpoint = dict(every_steps=5000, keep=1, keep_best=f"val/{metrics[0]}")
        config.evaluate = dict(val=dict(written, split=split, every_steps=5000))
    return config
