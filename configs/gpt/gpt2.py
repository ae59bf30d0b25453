"""GPT-2 from scratch, any size, on your own text or a text set of TFDS.

Command:   vitzoo train --config gpt/gpt2:124M --workdir runs/gpt2 --config.data.name=text:FOLDER
Hardware:  an accelerator; 124M took nanoGPT 4 days on 8 A100.
Data:      text:FOLDER, jsonl:FILE, or a text set of TFDS (c4, lm1b);
           --config.inputs.tokens.tokenizer.file is GPT-2's vocabulary, vocab.json beside merges.txt.
Source:    nanoGPT's config/train_gpt2.py: 491,520 tokens a step, 600,000 steps, 2.85 nats a token on OpenWebText
           (published; not run by us).
"""

import vitzoo.config

SIZES = ("124M", "355M", "774M", "1558M")


def get_config(arg="124M"):
    config = vitzoo.config.default()
    config.total_steps = 600_000
    config.model = dict(
        name="gpt", variant=f"gpt2-{vitzoo.config.choice(arg, SIZES)}", dropout=0.0, attention_dropout=0.0
    )
    config.objective = dict(name="causal_lm")
    config.data = dict(name=vitzoo.config.required("text:FOLDER"), split="train", batch_size=480)
    config.inputs.tokens.tokenizer = dict(kind="file", file=vitzoo.config.required("vocab.json"))
    config.inputs.tokens = dict(length=1024)
    config.optimizer = dict(name="adamw", learning_rate=6e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=2000, final_fraction=0.1)
    config.checkpoint = dict(every_steps=5000)
    config.evaluate = dict(val=dict(name="perplexity", split="validation", every_steps=2000))
    return config
