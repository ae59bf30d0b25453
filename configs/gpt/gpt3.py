"""GPT-3's pre-training, any size, on your own text or a text set of TFDS.

Command:   vitzoo train --config gpt/gpt3:125M --workdir runs/gpt3 --config.data.name=text:FOLDER
Hardware:  accelerators.
Data:      text:FOLDER, jsonl:FILE, or a text set of TFDS (c4, lm1b);
           --config.inputs.tokens.tokenizer.file is GPT-2's vocabulary, vocab.json beside merges.txt.
Source:    https://arxiv.org/abs/2005.14165, table 2.1 and appendix B: rows of 2,048 tokens, 300 billion tokens, Adam
           with 0.9 and 0.95, decay 0.1, clipping at 1, warm-up over 375 million tokens, cosine to a tenth over 260
           billion tokens and constant after that, here to the end. The paper's batches grow to their size over the
           first billions of tokens; here they have it from the start. Its sparse attention in every other layer isn't
           here. Not run by us.
"""

import vitzoo.config

# learning rate, rows of 2,048 tokens
SIZES = {
    "125M": (6e-4, 256),
    "350M": (3e-4, 256),
    "760M": (2.5e-4, 256),
    "1.3B": (2e-4, 512),
    "2.7B": (1.6e-4, 512),
    "6.7B": (1.2e-4, 1024),
    "13B": (1e-4, 1024),
    "175B": (0.6e-4, 1600),
}
LENGTH = 2048


def get_config(arg="125M"):
    rate, rows = vitzoo.config.choice(arg, SIZES)
    tokens = rows * LENGTH
    config = vitzoo.config.default()
    config.total_steps = round(300e9 / tokens)
    config.model = dict(name="gpt", variant=f"gpt3-{arg}", dropout=0.0, attention_dropout=0.0)
    config.objective = dict(name="causal_lm")
    config.data = dict(name=vitzoo.config.required("text:FOLDER"), split="train", batch_size=rows)
    config.inputs.tokens.tokenizer = dict(kind="file", file=vitzoo.config.required("vocab.json"))
    config.inputs.tokens = dict(length=LENGTH)
    config.optimizer = dict(name="adamw", learning_rate=rate, beta1=0.9, beta2=0.95, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=round(375e6 / tokens), final_fraction=0.1)
    config.checkpoint = dict(every_steps=2000)
    config.evaluate = dict(val=dict(name="perplexity", split="validation", every_steps=2000))
    return config
