"""A small Vision Transformer learns to answer as a larger checkpoint does, of the very same crops and mixtures.

Command:   vitzoo train --config vit/distill:S/16 --config.objective.teacher=CKPT --workdir runs/distilled
           other images: --config.data.name=folder:/photos --config.data.split=train
Argument:  the student's variant.
Hardware:  a training's cost, and a forward pass of the teacher for each image.
Data:      imagenet2012 of TFDS, or any other whose classes the teacher knows, in any order.
Result:    none published for just this; not run by us.
Recipe:    only the teacher's probabilities are learned, no labels; strong mixup and random crops show ever new images
           that both see; long. With labels too: --config.objective.teacher_weight=0.5
Source:    after Beyer et al., Knowledge distillation: A good teacher is patient and consistent,
           https://arxiv.org/abs/2106.05237
"""

import vitzoo.config


def get_config(arg="S/16"):
    config = vitzoo.config.default()
    config.total_epochs = 300
    config.model = dict(name="vit", variant=arg, image_size=224, pooling="gap", positions="sincos2d")
    teacher = vitzoo.config.required("CKPT")
    config.objective = dict(name="distillation", kind="soft", temperature=1.0, teacher_weight=1.0, teacher=teacher)
    config.data = dict(name="imagenet2012", split="train[:99%]", batch_size=1024)
    config.inputs.image = dict(resize="short_side_crop", crop_fraction=224 / 256)
    config.augment = dict(crop="inception", flip=True, mixup=1.0)
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_epochs=5)
    config.checkpoint = dict(every_epochs=1, keep=2, keep_best="minival/accuracy")
    config.evaluate = dict(
        minival=dict(name="classification", split="train[99%:]", every_epochs=5),
        val=dict(name="classification", split="validation", every_epochs=10),
    )
    return config
