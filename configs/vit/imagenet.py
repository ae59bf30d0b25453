"""ViT-S/16 on ImageNet-1k in 90 epochs, the plain recipe; any variant as argument (Ti/16 to G/14).

Command:   vitzoo train --config vit/imagenet:S/16 --workdir runs/s16
           300 epochs: add --config.total_epochs=300
Hardware:  published for a TPU v3 of 8 cores: 6 to 7 hours (90 epochs), under a day (300 epochs).
Result:    published: 76.5 % top-1 in validation (90 epochs), 80 % (300 epochs). Not run by us: no ImageNet here.
Data:      imagenet2012 of TFDS, prepared once (`vitzoo data prepare imagenet2012`); the last 1 % of train validates.
Source:    Beyer et al., Better plain ViT baselines for ImageNet-1k, https://arxiv.org/abs/2205.01580
"""

import vitzoo.config


def get_config(arg="S/16"):
    config = vitzoo.config.default()
    config.total_epochs = 90
    config.model = dict(name="vit", variant=arg, pooling="gap", positions="sincos2d", pre_logits=True, image_size=224)
    config.objective = dict(name="classification", label_smoothing=0.0)
    config.data = dict(name="imagenet2012", split="train[:99%]", batch_size=1024)
    config.inputs.image = dict(resize="short_side_crop", crop_fraction=0.875)
    config.augment = dict(crop="inception", flip=True, randaugment_layers=2, randaugment_magnitude=10, mixup=0.2)
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.1, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=10_000)
    config.checkpoint = dict(every_steps=1000, keep=2, keep_best="minival/accuracy")
    config.evaluate = dict(
        minival=dict(name="classification", split="train[99%:]", every_epochs=2),
        val=dict(name="classification", split="validation", every_epochs=10),
    )
    return config
