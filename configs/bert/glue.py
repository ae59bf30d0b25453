"""Fine-tunes a BERT on a task of GLUE.

Command:   vitzoo train --config bert/glue:mnli --workdir runs/mnli --config.init_from=google-bert/bert-base-uncased
           vitzoo sweep --config bert/glue:rte --workdir runs/rte --config.init_from=google-bert/bert-base-uncased \\
             --over optimizer.learning_rate=5e-5,4e-5,3e-5,2e-5
Hardware:  an accelerator.
Data:      glue/TASK of TFDS: vitzoo data prepare glue/mnli
Source:    https://arxiv.org/abs/1810.04805, section 4.1: batches of 32, 3 epochs, the best of 5e-5, 4e-5, 3e-5 and
           2e-5 by validation, dropout 0.1, warm-up over a tenth and linear decay. Not run by us.
"""

import vitzoo.config

# a text alone, or the fields of its two texts
TASKS = {
    "cola": (),
    "mnli": ("premise", "hypothesis"),
    "mrpc": ("sentence1", "sentence2"),
    "qnli": ("question", "sentence"),
    "qqp": ("question1", "question2"),
    "rte": ("sentence1", "sentence2"),
    "sst2": (),
    "stsb": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
}


def get_config(arg="mnli"):
    fields = vitzoo.config.choice(arg, TASKS)
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_epochs = 3
    config.data = dict(name=f"glue/{arg}", split="train", batch_size=32)
    config.inputs.tokens = dict(length=128)
    if fields:
        config.data.first_field, config.data.second_field = fields
    config.optimizer = dict(name="adamw", learning_rate=2e-5, weight_decay=0.01, epsilon=1e-6, grad_clip=1.0)
    config.schedule = dict(name="linear", warmup_fraction=0.1)
    numbers = arg == "stsb"  # how alike two texts are, 0 to 5
    config.objective = dict(name="regression" if numbers else "sequence_classification")
    config.data.regression = numbers
    config.checkpoint = dict(every_epochs=1, keep=1, keep_best="val/pearson" if numbers else "val/loss")
    config.evaluate = dict(
        val=dict(
            name="regression" if numbers else "classification",
            split="validation_matched" if arg == "mnli" else "validation",
            every_epochs=1,
        )
    )
    return config
