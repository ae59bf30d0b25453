"""T5's pre-training on your own text, with a vocabulary of its own: spans are hidden and to be said.

Command:   vitzoo train --config t5/pretrain --workdir runs/t5
           vitzoo train --config t5/finetune --workdir runs/mine --config.init_from=runs/t5 \\
             --config.data.name=jsonl:pairs.jsonl
Hardware:  2 CPU cores; `t5/c4` has the published sizes.
Data:      the source of Python's own standard library, or --config.data.name=text:FILE|FOLDER, jsonl:FILE, or a TFDS
           text set.
Source:    the objective of https://arxiv.org/abs/1910.10683, section 3.1.4 (15 % of the tokens, spans of 3 on average);
           sizes and recipe are our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_steps = 2000
    config.model = dict(
        name="t5",
        variant="v1.1-small",
        width=128,
        encoder_depth=2,
        decoder_depth=2,
        num_heads=4,
        head_dim=32,
        mlp_dim=256,
        dropout=0.0,
        scale_attention=True,
        vocabulary_size=None,
    )
    config.objective = dict(name="seq2seq", rows="span_corruption", z_loss=1e-4)
    config.data = dict(name="stdlib", split="train", batch_size=32)
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=4000, sentinels=100)
    config.inputs.tokens = dict(source_length=128, length=48)
    config.optimizer = dict(name="adamw", learning_rate=2e-3, beta2=0.98, weight_decay=0.0, grad_clip=1.0)
    config.schedule = dict(name="rsqrt", warmup_steps=200, timescale=200, cooldown_fraction=0.3)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(val=dict(name="perplexity", split="validation", max_rows=500, every_steps=500))
    return config
