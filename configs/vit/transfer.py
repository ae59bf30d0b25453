"""The transfer table of big_vision: five datasets, each with the learning rate that is best for AugReg's B/32.

Command:   vitzoo train --config vit/transfer:pets --config.init_from=CKPT --workdir runs/pets
           the search that the table comes from: vitzoo sweep --config vit/transfer:pets --config.init_from=CKPT \\
             --workdir runs/pets-rates --over optimizer.learning_rate=0.03,0.01,0.003,0.001
Argument:  imagenet, cifar10, cifar100, pets, flowers.
Hardware:  accelerators: 500 to 20,000 steps of 512 images at 384 pixels.
Data:      TFDS's imagenet2012, cifar10, cifar100, oxford_iiit_pet, oxford_flowers102.
Result:    published for B/32 from ImageNet-21k, test top-1, mean and range of five: imagenet 83.27 % (83.22 to 83.33),
           cifar10 98.55 % (98.46 to 98.60), cifar100 91.35 % (91.09 to 91.62), pets 93.78 % (93.62 to 94.00),
           flowers 99.43 % (99.42 to 99.45). Not run by us.
Source:    google-research/big_vision, configs/transfer.py
"""

import vitzoo.config

TASKS = {  # dataset, part to train on, test split, steps, warm-up, crop, learning rate
    "imagenet": ("imagenet2012", 99, "validation", 20_000, 500, "inception", 0.03),
    "cifar10": ("cifar10", 98, "test", 10_000, 500, "resize_random", 0.003),
    "cifar100": ("cifar100", 98, "test", 10_000, 500, "resize_random", 0.01),
    "pets": ("oxford_iiit_pet", 90, "test", 500, 100, "inception", 0.003),
    "flowers": ("oxford_flowers102", 90, "test", 500, 100, "inception", 0.003),
}


def get_config(arg="cifar10"):
    name, part, test, steps, warmup, crop, rate = vitzoo.config.choice(arg, TASKS)
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = steps
    config.model = dict(image_size=384)
    config.objective = dict(name="classification")
    config.data = dict(name=name, split=f"train[:{part}%]", batch_size=512, image_field="image", label_field="label")
    config.inputs.image = dict(resize="short_side_crop", crop_fraction=384 / 448)
    config.augment = dict(crop=crop, crop_scale=448 / 384, flip=True)
    config.optimizer = dict(name="sgd", learning_rate=rate, momentum=0.9, moment_dtype="bfloat16", grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=warmup)
    config.checkpoint = dict(every_steps=min(steps, 1000), keep=1)
    config.evaluate = dict(
        val=dict(name="classification", split=f"train[{part}%:]", every_steps=100),
        test=dict(name="classification", split=test, every_steps=steps),
    )
    return config
