"""The Transformer of 2017, small, learns to translate English to Spanish from 27,756 verses.

Command:   vitzoo train --config transformer/translate --workdir runs/translate
           vitzoo eval --checkpoint runs/translate
Hardware:  2 CPU cores.
Result:    sacreBLEU 23.5, chrF 44.5 on 1,701 test verses after 95 minutes on one core (copying the source: 0.2, 18.0).
Data:      `verses`: Debian's packages sword-text-web and sword-text-sparv, split by chapter.
Source:    the model and its training of https://arxiv.org/abs/1706.03762; sizes and length are our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_epochs = 12
    config.model = dict(name="transformer", variant="base", width=128, depth=2, num_heads=4, mlp_dim=512, pre_norm=True)
    config.objective = dict(name="seq2seq", label_smoothing=0.1)
    config.data = dict(name="verses", split="train", batch_size=32)
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=4000)
    config.inputs.tokens = dict(source_length=96, length=96, packing=True)
    config.optimizer = dict(name="adamw", learning_rate=1.5e-3, beta1=0.9, beta2=0.98, weight_decay=0.0, grad_clip=1.0)
    config.schedule = dict(name="rsqrt", warmup_steps=400, timescale=400, cooldown_fraction=0.3)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_epochs=1),
        test=dict(
            name="generation",
            split="test",
            metrics=("bleu", "chrf"),
            num_beams=4,
            length_penalty=0.6,
            length_normalisation="gnmt",
            max_new_tokens=64,
            baselines=True,
            every_epochs=12,
        ),
    )
    return config
