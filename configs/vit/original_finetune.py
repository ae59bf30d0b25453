"""The first paper's fine-tuning of a pretrained Vision Transformer, at 384 pixels.

Command:   vitzoo train --config vit/original_finetune:cifar10 --config.init_from=CKPT --workdir runs/cifar10
Argument:  cifar10, cifar100, imagenet. A short trial: --config.total_steps=500 --config.schedule.warmup_steps=100
Hardware:  published for 8 GPUs and B/16: CIFAR 2.2 hours, ImageNet 6.5 hours (A100).
Data:      TFDS's sets of these names.
Result:    published, from ImageNet-21k: B/16 CIFAR-10 99.0 %, CIFAR-100 92.1 %, ImageNet 84.5 %; B/32 98.9 %, 92.3 %,
           81.7 %; L/16 99.1 %, 92.9 %, 84.5 %. Not run by us.
Source:    Dosovitskiy et al., https://arxiv.org/abs/2010.11929, appendix B.1.1, and the authors' code: images are
           squashed to a square, in evaluation too. For B/16 on CIFAR-10 they take a learning rate of 0.01
"""

import vitzoo.config

TASKS = {
    "cifar10": dict(name="cifar10", split="train[:98%]", validation="train[98%:]", test="test", steps=10_000),
    "cifar100": dict(name="cifar100", split="train[:98%]", validation="train[98%:]", test="test", steps=10_000),
    "imagenet": dict(
        name="imagenet2012", split="train[:99%]", validation="train[99%:]", test="validation", steps=20_000
    ),
}


def get_config(arg="cifar10"):
    task = vitzoo.config.choice(arg, TASKS)
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = task["steps"]
    config.model = dict(image_size=384)
    config.objective = dict(name="classification")
    config.data = dict(name=task["name"], split=task["split"], batch_size=512)
    config.inputs.image = dict(
        resize="squash", interpolation="bilinear", antialias=False, rounding="none", crop_fraction=1.0
    )
    config.augment = dict(crop="resize_random", crop_scale=448 / 384, flip=True)
    config.optimizer = dict(name="sgd", learning_rate=0.03, momentum=0.9, moment_dtype="bfloat16", grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=500)
    config.checkpoint = dict(every_steps=1000, keep=1)
    config.evaluate = dict(
        val=dict(name="classification", split=task["validation"], every_steps=500),
        test=dict(name="classification", split=task["test"], every_steps=task["steps"]),
    )
    return config
