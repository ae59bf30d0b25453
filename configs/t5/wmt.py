"""Fine-tunes a T5 to translate from English, on WMT.

Command:   vitzoo train --config t5/wmt:en-de --workdir runs/german --config.init_from=google/t5-v1_1-base
Hardware:  an accelerator.
Data:      wmt14_translate/de-en, wmt14_translate/fr-en or wmt16_translate/ro-en of TFDS: vitzoo data prepare NAME
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1; beam 4 with a length penalty of 0.6. Not run by us.
"""

import vitzoo.config

LANGUAGES = {
    "en-de": ("wmt14_translate/de-en", "de", "German"),
    "en-fr": ("wmt14_translate/fr-en", "fr", "French"),
    "en-ro": ("wmt16_translate/ro-en", "ro", "Romanian"),
}


def get_config(arg="en-de"):
    data, target, language = vitzoo.config.choice(arg, LANGUAGES)
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
    config.data = dict(name=data, split="train", batch_size=128)
    config.text = dict(
        template=f"translate English to {language}: {{en}}",
        target_field=target,
        source_length=512,
        sequence_length=512,
    )
    config.checkpoint = dict(every_steps=5000, keep=1, keep_best="val/loss")
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", every_steps=5000),
        test=dict(
            name="generation",
            split="test",
            metrics=("bleu", "chrf"),
            num_beams=4,
            length_penalty=0.6,
            max_new_tokens=256,
            every_steps=2**18,
        ),
    )
    return config
