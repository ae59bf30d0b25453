"""A GPT of characters on any text file: nanoGPT's recipe for a CPU.

Command:   vitzoo train --config gpt/char --workdir runs/char --config.data.name=text:book.txt
           vitzoo train --config gpt/char --workdir runs/char --config.data.name=speeches --config.data.dir=DIR
Hardware:  2 CPU cores.
Data:      a text file or folder, or `speeches` (the State of the Union addresses).
Source:    nanoGPT's config/train_shakespeare_char.py as its README runs it on a CPU: 4 layers, 4 heads, width 128,
           64 characters, batch 12, 2,000 steps; 1.88 nats a character on Shakespeare's plays (published).
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_steps = 2000
    config.model = dict(name="gpt", width=128, depth=4, num_heads=4, mlp_dim=512, context_length=64, bias=False)
    config.objective = dict(name="causal_lm")
    config.data = dict(name="stdlib", split="train", batch_size=12)
    config.inputs.tokens.tokenizer = dict(kind="characters")
    config.inputs.tokens = dict(length=64)
    config.optimizer = dict(name="adamw", learning_rate=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=100, final_fraction=0.1)
    config.evaluate = dict(val=dict(name="perplexity", split="validation", every_steps=2000))
    return config
