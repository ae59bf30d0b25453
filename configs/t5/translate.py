"""A small T5 v1.1 learns to translate English to Spanish from 27,756 verses.

Command:   vitzoo train --config t5/translate --workdir runs/t5-translate
Hardware:  2 CPU cores.
Data:      `verses`: Debian's packages sword-text-web and sword-text-sparv, split by chapter.
Result:    sacreBLEU 29.8, chrF 49.9 on 1,701 test verses (copying the source: 0.2 and 18.0, the most common verse 0.2
           and 7.6). With AdamW at 1.5e-3 it was 9.8 and 24.7; transformer/translate, of 12 epochs, has 23.5 and 44.5.
           Measured before `t5_adafactor` factored the kernels of attention.
Source:    the model of T5 v1.1 (https://arxiv.org/abs/1910.10683), with attention scaled, and its Adafactor; sizes and
           schedule are our own.
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.total_epochs = 8
    config.model = dict(
        name="t5",
        variant="v1.1-small",
        width=128,
        encoder_depth=2,
        decoder_depth=2,
        num_heads=4,
        head_dim=32,
        mlp_dim=384,
        dropout=0.1,
        scale_attention=True,
        vocabulary_size=None,
    )
    config.objective = dict(name="seq2seq", label_smoothing=0.1, z_loss=1e-4)
    config.data = dict(name="verses", split="train", batch_size=32)
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=4000)
    config.inputs.tokens = dict(source_length=96, length=96, packing=True)
    # rates relative to each tensor's size: AdamW is slow on embeddings that begin at deviation 1
    config.optimizer = dict(name="t5_adafactor", learning_rate=0.1, beta2=0.98, grad_clip=1.0)
    config.schedule = dict(name="rsqrt", warmup_steps=300, timescale=400, cooldown_fraction=0.3)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_epochs=1),
        test=dict(
            name="generation",
            split="test",
            metrics=("bleu", "chrf"),
            num_beams=4,
            length_penalty=0.6,
            max_new_tokens=64,
            baselines=True,
            every_epochs=8,
        ),
    )
    return config
