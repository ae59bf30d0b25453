"""Fine-tunes a T5, of vitzoo or published, on your own sources and targets.

Command:   vitzoo train --config t5/finetune --workdir runs/mine --config.init_from=CKPT \\
             --config.data.name=jsonl:pairs.jsonl
           vitzoo generate --checkpoint runs/mine@best --prompt "..."
Hardware:  whatever the model fits on.
Data:      JSON lines {"source": ..., "target": ...}, or of other tasks: classes become words to write.
Source:    https://arxiv.org/abs/1910.10683, section 3.1: Adafactor at a constant 1e-3, dropout 0.1, rows of 128
           (here 16); length is our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_epochs = 3
    config.model = dict(dropout=0.1)
    config.objective = dict(name="seq2seq")
    config.data = dict(name=vitzoo.config.required("jsonl:FILE"), split="train", batch_size=16)
    config.optimizer = dict(name="t5_adafactor", learning_rate=1e-3)
    config.schedule = dict(name="constant")
    config.checkpoint = dict(every_epochs=1, keep=1, keep_best="val/loss")
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_epochs=1),
        answers=dict(name="generation", split="validation", metrics=("exact_match",), every_epochs=3),
    )
    return config
