"""A Vision Transformer from scratch on all 70,000 images of Fashion-MNIST (28×28, gray, 10 classes).

Command:   vitzoo train --config vit/fashion_mnist --workdir runs/fashion
           vitzoo train --config vit/fashion_mnist:long --workdir runs/fashion-long
           a much smaller model by labels, and the same by a checkpoint's answers:
           vitzoo train --config vit/fashion_mnist:student --workdir runs/student
           vitzoo train --config vit/fashion_mnist:distilled --workdir runs/taught \\
             --config.objective.teacher=runs/fashion
Hardware:  2 CPU cores.
Data:      Debian's package dataset-fashion-mnist, the four IDX files in --config.data.dir, or TFDS's fashion_mnist.
Result:    89.7 % of the test images after 12 epochs, 18 minutes on one core; long: 91.6 % after 40.
Source:    the data, Xiao et al., https://arxiv.org/abs/1708.07747; the recipe is our own.
"""

import vitzoo.config

LARGE = dict(width=128, depth=4, num_heads=4, mlp_dim=256)
SMALL = dict(width=48, depth=2, num_heads=3, mlp_dim=96)
RECIPES = {  # epochs, sizes
    "short": (12, LARGE),
    "long": (40, LARGE),
    "student": (8, SMALL),
    "distilled": (8, SMALL),
}


def get_config(arg="short"):
    epochs, sizes = vitzoo.config.choice(arg, RECIPES)
    config = vitzoo.config.default()
    config.total_epochs = epochs
    config.model = dict(
        name="vit",
        variant="Ti/7",
        pooling="gap",
        positions="learned1d",
        position_std=0.3,
        **sizes,
    )
    config.objective = dict(name="classification", label_smoothing=0.1)
    if arg == "distilled":
        config.objective = dict(name="distillation", kind="soft", teacher=vitzoo.config.required("CKPT"))
    config.data = dict(name="fashion_mnist", split="train", batch_size=64)
    config.augment = dict(crop="shift", shift=1)
    config.optimizer = dict(name="adamw", learning_rate=1.5e-3, weight_decay=0.05, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_epochs=0.5)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.checkpoint = dict(every_epochs=1, keep=2)
    config.evaluate = dict(test=dict(name="classification", split="test", every_epochs=4))
    return config
