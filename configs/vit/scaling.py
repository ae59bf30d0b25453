"""Scaling Vision Transformers: ViT-g/14 and ViT-G/14 on billions of labelled images.

Command:   vitzoo train --config vit/scaling:g/14 --config.data.name=folder:/images --workdir runs/g14
Argument:  g/14 (1.0 billion parameters), G/14 (1.8 billion), or any other variant.
Hardware:  hundreds of TPU cores; a TPU v3 core takes 32 images with g/14. What yours need:
           vitzoo plan --config vit/scaling:G/14 --config.data.name=imagenet21k --topology v5e:16x16
Data:      the paper's is private (JFT-3B); any folder or TFDS set of images with one class each.
Result:    published for G/14 after fine-tuning: 90.45 % on ImageNet. Not run by us.
Recipe:    Adafactor with momentum in bfloat16; attention pooling; weight decay of the head 100 times that of the body
           (3.0 and 0.03 where it is multiplied by the learning rate); the rate falls with 1/sqrt(step) and then goes to
           zero in 50,000 steps, so that a run can be prolonged: --config.schedule.cooldown_steps=0, later init_from.
Source:    Zhai et al., https://arxiv.org/abs/2106.04560; google-research/big_vision, scaling_laws/train_vit_g.py
"""

import vitzoo.config

RATE = 8e-4


def get_config(arg="g/14"):
    config = vitzoo.config.default()
    config.total_steps = 1_000_000
    config.model = dict(name="vit", variant=arg, image_size=224, pooling="map", head_bias_init=-10.0)
    config.objective = dict(name="classification", loss="sigmoid")
    config.data = dict(name=vitzoo.config.required("folder:IMAGES"), split="train", batch_size=16_384)
    config.inputs.image = dict(resize="short_side_crop", crop_fraction=224 / 256)
    config.augment = dict(crop="inception", flip=True)
    config.optimizer = dict(
        name="adafactor",
        learning_rate=RATE,
        weight_decay=0.03 * RATE,
        independent_weight_decay=True,
        weight_decay_rules=(("head/kernel", 100.0), (".*kernel", 1.0)),
        grad_clip=1.0,
    )
    config.schedule = dict(name="rsqrt", timescale=10_000, warmup_steps=10_000, cooldown_steps=50_000)
    config.remat = "full"
    config.checkpoint = dict(every_steps=1000, keep=2)
    config.evaluate = dict(
        val=dict(name="classification", split="validation", loss="sigmoid", every_steps=10_000),
    )
    return config
