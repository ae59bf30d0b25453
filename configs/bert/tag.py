"""Classifies the words of texts with a BERT (parts of speech, named entities): from scratch or fine-tuned.

Command:   vitzoo train --config bert/tag --workdir runs/tag --config.data.name=jsonl:FILE
           vitzoo train --config bert/tag:finetune --workdir runs/tag --config.init_from=RUN \\
             --config.data.name=jsonl:FILE
           vitzoo predict --checkpoint runs/tag --text "Ada lives in London"
Hardware:  2 CPU cores for tiny and mini; an accelerator for small ... large.
Data:      jsonl:FILE with `words` and `tags`, lists of one length: a file, of which a part is held out, or a folder of
           train.jsonl and validation.jsonl. Where tags are B-PER, I-PER, O and such, whole entities are scored too.
Recipe:    from scratch AdamW at 1e-3, falling with size, for 10 epochs; `finetune` at 5e-5 for 3 epochs and at least
           200 steps, of a small model rather --config.optimizer.learning_rate=3e-4. Capitals are kept, since names have
           them.
Source:    fine-tuning as in https://arxiv.org/abs/1810.04805, section 5.3; from scratch the recipe is our own.
"""

import vitzoo.config

RATES = {"tiny": 1e-3, "mini": 7e-4, "small": 4e-4, "medium": 3e-4, "base": 1e-4, "large": 5e-5, "finetune": 5e-5}


def get_config(arg="tiny"):
    rate, scratch = vitzoo.config.choice(arg, RATES), arg != "finetune"
    config = vitzoo.config.default()
    config.total_epochs = 10 if scratch else 3
    if scratch:
        config.model = dict(name="bert", variant=arg)
    else:
        config.init_from = vitzoo.config.required("RUN")
        config.min_steps = 200  # few texts need more than three rounds
    often = dict(every_epochs=1) if scratch else dict(every_steps=200)
    config.objective = dict(name="token_classification")
    config.data = dict(name=vitzoo.config.required("jsonl:FILE"), split="train", batch_size=32)
    config.inputs.tokens.tokenizer = dict(kind="wordpiece", vocabulary_size=8000, lowercase=False)
    config.inputs.tokens = dict(length=128)
    config.optimizer = dict(name="adamw", learning_rate=rate, weight_decay=0.01, grad_clip=1.0)
    config.schedule = dict(name="linear", warmup_fraction=0.1)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(val=dict(name="token_classification", split="validation", **often))
    return config
