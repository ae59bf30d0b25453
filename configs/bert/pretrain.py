"""BERT's pre-training: hidden tokens of any text are named.

Command:   vitzoo train --config bert/pretrain --workdir runs/bert
           vitzoo predict --checkpoint runs/bert --text "import [MASK]"
           vitzoo train --config bert/pretrain:base --workdir runs/bert --config.data.name=text:FOLDER
Hardware:  2 CPU cores without a size (the tiny model, a recipe of our own); an accelerator for tiny ... large.
Data:      the source of Python's own standard library, or --config.data.name=text:FILE|FOLDER (paragraphs of a file
           as texts: --config.data.document=paragraph), jsonl:FILE, or a TFDS text set. Whether a second part
           follows the first is learned too with --config.inputs.tokens.next_sentence=true.
Source:    https://arxiv.org/abs/1810.04805, appendix A.2: batches of 256, 1,000,000 steps, Adam at 1e-4 with 10,000
           steps of warm-up and linear decay, weight decay 0.01, dropout 0.1, 15 % of the tokens; the last tenth of the
           steps with 512 tokens in place of 128 (--config.init_from=RUN --config.inputs.tokens.length=512). The small
           sizes are those of https://arxiv.org/abs/1908.08962. Not run by us at full length.
"""

import vitzoo.config

SIZES = ("tiny", "mini", "small", "medium", "base", "large")


def get_config(arg="quick"):
    vitzoo.config.choice(arg, ("quick", *SIZES))
    quick = arg == "quick"
    config = vitzoo.config.default()
    config.total_steps = 2000 if quick else 1_000_000
    config.model = dict(name="bert", variant="tiny" if quick else arg)
    config.objective = dict(name="masked_lm")
    config.data = dict(name="stdlib", split="train", batch_size=32 if quick else 256)
    config.inputs.tokens.tokenizer = dict(kind="wordpiece", vocabulary_size=8000 if quick else 30_522, lowercase=True)
    config.inputs.tokens = dict(length=128)
    config.optimizer = dict(
        name="adamw", learning_rate=1e-3 if quick else 1e-4, weight_decay=0.01, epsilon=1e-6, grad_clip=1.0
    )
    config.schedule = dict(name="linear", warmup_steps=200 if quick else 10_000)
    config.ema_warm_start = quick
    config.checkpoint = dict(every_steps=500 if quick else 5000)
    config.evaluate = dict(
        val=dict(name="masked_lm", split="validation", max_rows=1000, every_steps=500 if quick else 5000)
    )
    return config
