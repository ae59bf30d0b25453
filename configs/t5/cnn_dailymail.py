"""Fine-tunes a T5 to summarise, on CNN/DailyMail.

Command:   vitzoo train --config t5/cnn_dailymail --workdir runs/summaries --config.init_from=google/t5-v1_1-base
Hardware:  an accelerator.
Data:      cnn_dailymail of TFDS: vitzoo data prepare cnn_dailymail; or JSON lines {"article", "highlights"}.
Source:    https://arxiv.org/abs/1910.10683, section 3.1 and appendix D: 2^18 steps of 128 rows of 512 tokens,
           Adafactor at a constant 1e-3, dropout 0.1; beam 4 with a length penalty of 0.6. Not run by us. ROUGE-L is of
           a summary as one text.
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
    config.data = dict(name="cnn_dailymail", split="train", batch_size=128)
    config.text = dict(
        template="summarize: {article}", target_field="highlights", source_length=512, sequence_length=512
    )
    config.checkpoint = dict(every_steps=5000, keep=1, keep_best="val/loss")
    config.evaluate = dict(
        val=dict(name="perplexity", split="validation", max_rows=4000, every_steps=5000),
        test=dict(
            name="generation",
            split="test",
            metrics=("rouge1", "rouge2", "rougeL"),
            num_beams=4,
            length_penalty=0.6,
            max_new_tokens=256,
            every_steps=2**18,
        ),
    )
    return config
