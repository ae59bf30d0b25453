"""Goes on training a GPT, of vitzoo or published, on your own text.

Command:   vitzoo train --config gpt/finetune --workdir runs/mine --config.init_from=CKPT \\
             --config.data.name=text:book.txt
           vitzoo generate --checkpoint runs/mine@best --prompt "Once "
Hardware:  whatever the model fits on; GPT-2 124M: a GPU, or patience.
Data:      a text file or folder, JSON lines {"text": ...}, or a text set of TFDS.
Source:    a small rate and few epochs, as nanoGPT's finetune_shakespeare (3e-5 there); the recipe is our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_epochs = 3
    config.objective = dict(name="causal_lm")
    config.data = dict(name=vitzoo.config.required("text:FILE"), split="train", batch_size=8)
    config.optimizer = dict(name="adamw", learning_rate=5e-5, weight_decay=0.0, grad_clip=1.0)
    config.schedule = dict(name="linear", warmup_fraction=0.03)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.checkpoint = dict(every_epochs=1, keep=1, keep_best="val/loss")
    config.evaluate = dict(val=dict(name="perplexity", split="validation", every_epochs=1))
    return config
