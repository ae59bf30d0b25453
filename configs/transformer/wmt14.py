"""The Transformer of 2017 on WMT 2014, English to German or to French.

Command:   vitzoo train --config transformer/wmt14:en-de,big --workdir runs/wmt
           vitzoo average --workdir runs/wmt --last 20 --output runs/wmt-average
           vitzoo eval --checkpoint runs/wmt-average
Hardware:  an accelerator; the paper's base took 12 hours and big 3.5 days on 8 P100.
Data:      wmt14_translate/de-en or /fr-en of TFDS: vitzoo data prepare wmt14_translate/de-en
Source:    https://arxiv.org/abs/1706.03762, sections 5 and 6 and table 2. Published BLEU: en-de 27.3 base, 28.4 big;
           en-fr 38.1 base, 41.8 big (not run by us).
"""

import vitzoo.config

LANGUAGES = {"en-de": ("wmt14_translate/de-en", "de", 37_000), "en-fr": ("wmt14_translate/fr-en", "fr", 32_000)}
STEPS = {"base": 100_000, "big": 300_000}
KEPT = {"base": 5, "big": 20}


def get_config(arg="en-de,base"):
    language, _, size = arg.partition(",")
    data, target, vocabulary = vitzoo.config.choice(language, LANGUAGES)
    steps = vitzoo.config.choice(size or "base", STEPS)
    config = vitzoo.config.default()
    config.total_steps = steps
    config.model = dict(name="transformer", variant=size or "base")
    if (language, size) == ("en-fr", "big"):
        config.model.dropout = 0.1
    config.objective = dict(name="seq2seq", label_smoothing=0.1)
    config.data = dict(name=data, split="train", batch_size=320, source_field="en", target_field=target)
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=vocabulary)
    # 320 rows of up to 80 tokens a side: some 25,000 tokens a batch, as in the paper
    config.inputs.tokens = dict(source_length=80, length=80, packing=True)
    width = {"base": 512, "big": 1024}[size or "base"]
    warmup = 4000
    # the paper's rate is width^-0.5 · min(step^-0.5, step · warmup^-1.5)
    config.optimizer = dict(
        name="adamw", learning_rate=(width * warmup) ** -0.5, beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=0.0
    )
    config.schedule = dict(name="rsqrt", warmup_steps=warmup, timescale=warmup)
    config.checkpoint = dict(every_steps=steps // 200, keep=KEPT[size or "base"])
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_steps=steps // 20),
        test=dict(
            name="generation",
            split="test",
            metrics=("bleu", "chrf"),
            num_beams=4,
            length_penalty=0.6,
            length_normalisation="gnmt",
            max_new_tokens=128,
            every_steps=steps,
        ),
    )
    return config
