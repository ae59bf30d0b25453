"""DeiT III: a plain Vision Transformer on ImageNet-1k by LAMB, 3-Augment and binary cross-entropy.

Command:   vitzoo train --config vit/deit3:B/16 --workdir runs/deit3
           vitzoo train --config vit/deit3:B/16,finetune --config.init_from=runs/deit3 --workdir runs/deit3-224
Argument:  S/16, B/16, L/16 or H/14; then 400 (epochs, the default), 800 or finetune (20 epochs at 224 pixels, which
           S/16 has from the start; it is fine-tuned at 384).
Hardware:  accelerators; batches of 2,048. A public JAX version reports, on a TPU v4-64: S 2 h 38 (400 epochs) and
           5 h 19 (800), B 4 h 42 and 9 h 28, L 14 h 10, H 19 h 10.
Data:      imagenet2012 of TFDS.
Result:    published, top-1 at 224 after both stages: 400 epochs S 80.4 %, B 83.5 %, L 84.5 %, H 85.1 %; 800 epochs S
           81.4 %, B 83.8 %, L 84.9 %, H 85.2 %; S at 384 83.4 %. Not run by us.
Recipe:    each image three times in a row (an epoch sees a third of the images); mixup 0.8 or CutMix 1.0, and every
           class in the mixture a whole yes; stochastic depth alike in all blocks; LayerScale; no position for the class
           token. Unlike the authors' code, LAMB takes queries, keys and values for three tensors, not for one.
Source:    Touvron et al., https://arxiv.org/abs/2204.07118, and the authors' code (README_revenge)
"""

import vitzoo.config

SIZES = {  # learning rate, image size, stochastic depth of 400 and 800 epochs and of the fine-tuning
    "S/16": (4e-3, 224, 0.0, 0.05, 0.0),
    "B/16": (3e-3, 192, 0.1, 0.2, 0.2),
    "L/16": (3e-3, 192, 0.4, 0.45, 0.45),
    "H/14": (3e-3, 154, 0.5, 0.6, 0.55),
}
STAGES = {"400": 2, "800": 3, "finetune": 4}
LEAST, FIRST = 1e-5, 1e-6  # rates at the end and at the start


def get_config(arg="B/16"):
    variant, _, stage = arg.partition(",")
    size = vitzoo.config.choice(variant, SIZES)
    drop_path = size[vitzoo.config.choice(stage or "400", STAGES)]
    config = vitzoo.config.default()
    config.inputs.image = dict(
        resize="short_side_crop",
        interpolation="bicubic",
        crop_offset="half_even",
        mean=(123.675, 116.28, 103.53),
        std=(58.395, 57.12, 57.375),
    )
    config.checkpoint = dict(every_epochs=1, keep=2, keep_best="val/accuracy")
    config.evaluate = dict(val=dict(name="classification", split="validation", every_epochs=5))
    if stage == "finetune":
        return _finetune(config, 384 if variant == "S/16" else 224, drop_path)
    return _pretrain(config, variant, int(stage or 400), rate=size[0], image_size=size[1], drop_path=drop_path)


def _pretrain(config, variant, epochs, *, rate, image_size, drop_path):
    config.total_epochs = epochs
    config.model = dict(
        name="vit",
        variant=variant,
        image_size=image_size,
        gelu="exact",
        layer_scale=1e-4,
        prefix_positions="none",
        drop_path=drop_path,
        drop_path_schedule="uniform",
    )
    config.objective = dict(name="classification", loss="sigmoid", binary_labels=True, sum_classes=False)
    config.data = dict(name="imagenet2012", split="train", batch_size=2048, repeats=3)
    config.augment = dict(
        crop="inception",
        crop_area=(0.08, 1.0),
        flip=True,
        three_augment=True,
        color_jitter=0.3,
        mixup=0.8,
        cutmix=1.0,
    )
    decay = {400: 0.02, 800: 0.05}[epochs]
    config.optimizer = dict(name="lamb", learning_rate=rate, weight_decay=decay, epsilon=1e-8, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_epochs=5, initial_fraction=FIRST / rate, final_fraction=LEAST / rate)
    return config


def _finetune(config, image_size, drop_path):
    config.init_from = vitzoo.config.required("RUN")
    config.total_epochs = 20
    config.model = dict(image_size=image_size, drop_path=drop_path)
    config.objective = dict(name="classification", label_smoothing=0.1)
    config.data = dict(name="imagenet2012", split="train", batch_size=512)
    config.augment = dict(
        crop="inception",
        crop_area=(0.08, 1.0),
        flip=True,
        randaugment_layers=2,
        randaugment_magnitude=9.0,
        randaugment_increasing=True,
        randaugment_std=0.5,
        mixup=0.8,
        cutmix=1.0,
    )
    # the schedule's least rate is its peak: after the warm-up it stays
    config.optimizer = dict(name="adamw", learning_rate=LEAST, weight_decay=0.1)
    config.schedule = dict(name="constant", warmup_epochs=5, initial_fraction=FIRST / LEAST)
    return config
