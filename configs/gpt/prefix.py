"""A small GPT as a prefix LM: what a text begins with is read in both directions, and its rest is learned.

Command:   vitzoo train --config gpt/prefix --workdir runs/prefix --config.data.name=text:book.txt
           vitzoo generate --checkpoint runs/prefix --prompt "Once "
Hardware:  2 CPU cores.
Data:      the .py files of this Python's standard library, or a text file or folder, or JSON lines {"text": ...};
           of prompts and completions, or turns, --config gpt/instruct --config.objective.name=prefix_lm.
Source:    the mask, and the split at an even draw, of https://arxiv.org/abs/1910.10683, sections 3.1.4 and 3.2.1; sizes
           and recipe are our own, those of gpt/quickstart.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_steps = 1400
    config.model = dict(name="gpt", variant="gpt-micro", context_length=128, dropout=0.0, attention_dropout=0.0)
    config.objective = dict(name="prefix_lm")
    config.data = dict(name="stdlib", split="train", batch_size=16)
    config.inputs.tokens.tokenizer = dict(kind="characters")
    config.inputs.tokens = dict(length=128, packing=True)
    config.optimizer = dict(name="adamw", learning_rate=4e-3, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=100)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(val=dict(name="perplexity", split="validation", max_rows=800, every_steps=250))
    return config
