"""A small GPT learns to add two numbers of two digits: no data are needed, and held-out sums are answered exactly.

Command:   vitzoo train --config gpt/adder --workdir runs/adder
Hardware:  2 CPU cores.
Data:      every pair of numbers once, "85+50=" and the sum with its last digit first; a twentieth is held out as
           validation, another as test.
Source:    minGPT's projects/adder, whose model (gpt-nano) and digits these are; the recipe is our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_steps = 1200
    config.model = dict(name="gpt", variant="gpt-nano", context_length=16, dropout=0.0, attention_dropout=0.0)
    config.objective = dict(name="causal_lm", rows="answers")
    config.data = dict(name="sums", split="train", batch_size=256)
    config.inputs.tokens.tokenizer = dict(kind="characters")
    config.inputs.tokens = dict(length=12)
    config.optimizer = dict(name="adamw", learning_rate=2e-3, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=100)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_steps=300),
        test=dict(name="generation", split="test", metrics=("exact_match",), max_new_tokens=6, every_steps=600),
    )
    return config
