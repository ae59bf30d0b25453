"""Fine-tunes a T5 to answer questions about a text, on SQuAD 1.1 as text to text.

Command:   vitzoo train --config t5/squad --workdir runs/squad --config.init_from=google/t5-v1_1-base
Hardware:  an accelerator.
Data:      squad of TFDS: vitzoo data prepare squad; or JSON lines {"question", "context", "answers"}.
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1. Not run by us.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = 2**18
    config.model = dict(dropout=0.1)
    config.objective = dict(name="seq2seq")
    config.optimizer = dict(
        name="adafactor",
        learning_rate=1e-3,
        beta1=0.0,
        beta2=1.0,
        update_clip=1.0,
        scale_by_parameter=True,
        min_factored_size=128,
        weight_decay=0.0,
    )
    config.schedule = dict(name="constant")
    config.data = dict(name="squad", split="train", batch_size=128)
    config.text = dict(template="question: {question} context: {context}", source_length=512, sequence_length=64)
    config.checkpoint = dict(every_steps=5000, keep=1, keep_best="val/f1")
    config.evaluate = dict(
        val=dict(
            name="generation", split="validation", metrics=("exact_match", "f1"), max_new_tokens=64, every_steps=5000
        )
    )
    return config
