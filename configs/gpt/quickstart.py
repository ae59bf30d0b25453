"""A small GPT learns to write Python, character by character, from the standard library's own source.

Command:   vitzoo train --config gpt/quickstart --workdir runs/gpt
Hardware:  2 CPU cores.
Data:      the .py files of this Python's standard library: nine tenths to learn from, a tenth held out by file.
Result:    1.60 nats a character on held-out files (1,700 windows of 64, evenly spread).
Source:    the data come with Python; the recipe is our own, after the character models of nanoGPT.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_steps = 1400
    config.model = dict(name="gpt", variant="gpt-micro", context_length=64, dropout=0.0, attention_dropout=0.0)
    config.objective = dict(name="causal_lm")
    config.data = dict(name="stdlib", split="train", batch_size=16)
    config.inputs.tokens.tokenizer = dict(kind="characters")
    config.inputs.tokens = dict(length=64)
    config.optimizer = dict(name="adamw", learning_rate=4e-3, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=100)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(val=dict(name="perplexity", split="validation", max_rows=1700, every_steps=250))
    return config
