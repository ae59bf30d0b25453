"""Teaches a GPT to answer: prompts and completions, or conversations, of which only the answers are learned.

Command:   vitzoo train --config gpt/instruct --workdir runs/chat \\
             --config.init_from=runs/gpt --config.data.name=jsonl:answers.jsonl
Hardware:  whatever the model fits on.
Data:      JSON lines {"prompt": ..., "completion": ...} or {"messages": [{"role": ..., "content": ...}, ...]}.
Source:    the loss on answers alone as in https://arxiv.org/abs/2203.02155, section 3.5; the recipe is our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("RUN")
    config.total_epochs = 3
    config.min_steps = 100  # few answers need more than three rounds
    config.objective = dict(name="causal_lm", rows="answers")
    config.data = dict(name=vitzoo.config.required("jsonl:FILE"), split="train", batch_size=16)
    config.inputs.tokens = dict(packing=True)
    config.optimizer = dict(name="adamw", learning_rate=5e-5, weight_decay=0.0, grad_clip=1.0)
    config.schedule = dict(name="linear", warmup_fraction=0.03)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.checkpoint = dict(every_steps=100, keep=1, keep_best="val/loss")
    config.evaluate = dict(val=dict(name="perplexity", split="validation", every_steps=100))
    return config
