"""DeiT: a Vision Transformer on ImageNet-1k alone, by strong augmentation, with or without a teacher.

Command:   vitzoo train --config vit/deit:S/16 --workdir runs/deit
           vitzoo train --config vit/deit:S/16,distilled --config.objective.teacher=CKPT --workdir runs/deit-distilled
Argument:  Ti/16, S/16 or B/16; `distilled` adds the distillation token, whose head learns a teacher's first choice.
Hardware:  accelerators; 300 epochs of batches of 1,024. A public JAX version reports, on a TPU v4-64: Ti 2 h 40, S
           2 h 43, B 4 h 40.
Data:      imagenet2012 of TFDS.
Result:    published, top-1: Ti 72.2 %, S 79.9 %, B 81.8 %; distilled from a RegNetY-16GF: Ti 74.5 %, S 81.2 %, B
           83.4 %. Not run by us.
Recipe:    RandAugment rand-m9-mstd0.5-inc1, mixup 0.8 or CutMix 1.0, erasing 0.25, label smoothing 0.1, each image
           three times in a row (an epoch sees a third of the images); stochastic depth 0.1; no clipping. The teacher
           sees the same augmented images.
Source:    Touvron et al., https://arxiv.org/abs/2012.12877, table 9 and the authors' code
"""

import vitzoo.config

VARIANTS = ("Ti/16", "S/16", "B/16")
RATE = 1e-3  # 5e-4 · batch / 512


def get_config(arg="S/16"):
    variant, _, distilled = arg.partition(",")
    head = vitzoo.config.choice(distilled or "plain", {"plain": "none", "distilled": "head"})
    config = vitzoo.config.default()
    config.total_epochs = 300
    config.model = dict(
        name="vit",
        variant=vitzoo.config.choice(variant, VARIANTS),
        image_size=224,
        gelu="exact",
        drop_path=0.1,
        distillation=head,
    )
    config.objective = dict(name="classification", label_smoothing=0.1)
    if distilled:
        teacher = vitzoo.config.required("CKPT")
        config.objective = dict(name="distillation", kind="hard", teacher_weight=0.5, teacher=teacher)
    config.data = dict(name="imagenet2012", split="train", batch_size=1024, repeats=3)
    config.inputs.image = dict(
        resize="short_side_crop",
        interpolation="bicubic",
        crop_fraction=224 / 256,
        crop_offset="half_even",
        mean=(123.675, 116.28, 103.53),
        std=(58.395, 57.12, 57.375),
    )
    config.augment = dict(
        crop="inception",
        crop_area=(0.08, 1.0),
        flip=True,
        randaugment_layers=2,
        randaugment_magnitude=9.0,
        randaugment_increasing=True,
        randaugment_std=0.5,
        random_erasing=0.25,
        random_erasing_fill="noise",
        mixup=0.8,
        cutmix=1.0,
    )
    config.optimizer = dict(name="adamw", learning_rate=RATE, weight_decay=0.05)
    config.schedule = dict(name="cosine", warmup_epochs=5, initial_fraction=1e-6 / RATE, final_fraction=1e-5 / RATE)
    config.checkpoint = dict(every_epochs=1, keep=2, keep_best="val/accuracy")
    config.evaluate = dict(val=dict(name="classification", split="validation", every_epochs=5))
    return config
