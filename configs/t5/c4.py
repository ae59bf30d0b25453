"""T5 v1.1's pre-training: spans of a text are masked and to be said, any size.

Command:   vitzoo train --config t5/c4:base --workdir runs/t5 --config.inputs.tokens.tokenizer.file=spiece.model
Hardware:  an accelerator.
Data:      c4/en of TFDS, or --config.data.name=text:FOLDER; T5's vocabulary in
           --config.inputs.tokens.tokenizer.file.
Source:    https://arxiv.org/abs/1910.10683 and t5x's t5_1_1 examples: inputs of 512 tokens, targets of 114, Adafactor
           at 1/sqrt(max(step, 10,000)), z-loss 1e-4, no dropout; released checkpoints: 1,000,000 steps of 2,048 rows
           (not run by us).
"""

import vitzoo.config

SIZES = ("small", "base", "large", "xl", "xxl")


def get_config(arg="small"):
    config = vitzoo.config.default()
    config.total_steps = 1_000_000
    config.model = dict(name="t5", variant=f"v1.1-{vitzoo.config.choice(arg, SIZES)}", dropout=0.0)
    config.objective = dict(name="seq2seq", rows="span_corruption", z_loss=1e-4)
    config.data = dict(name="c4/en", split="train", batch_size=2048)
    config.inputs.tokens.tokenizer = dict(kind="file", file=vitzoo.config.required("spiece.model"), sentinels=100)
    config.inputs.tokens = dict(source_length=512, length=114)
    config.optimizer = dict(name="t5_adafactor", learning_rate=1e-2)
    # constant for 10,000 steps, then 1/sqrt(step)
    config.schedule = dict(name="rsqrt", warmup_steps=10_000, initial_fraction=1.0, timescale=10_000)
    config.checkpoint = dict(every_steps=5000)
    config.evaluate = dict(val=dict(name="perplexity", split="validation", max_rows=4000, every_steps=5000))
    return config
