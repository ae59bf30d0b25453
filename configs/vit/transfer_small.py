"""The learning-rate sweep of `vit/transfer` on three sets that a CPU fine-tunes on in a minute or two.

Command:   vitzoo sweep --config vit/transfer_small:mnist_5k --config.init_from=CKPT --workdir runs/mnist-rates \\
             --over optimizer.learning_rate=0.3,0.1,0.03,0.01
Argument:  digits, mnist_5k, fashion_mnist.
Hardware:  2 CPU cores.
Data:      scikit-learn's digits and MNIST-5k (in the package), Fashion-MNIST (Debian's dataset-fashion-mnist, four IDX
           files, or TFDS). A tenth to a sixth of `train` is `val`, by which the sweep chooses; `test` is only reported.
Source:    optimizer and schedule of google-research/big_vision, configs/transfer.py; sizes are our own.
"""

import vitzoo.config

TASKS = {  # training images, steps
    "digits": (1_300, 200),
    "mnist_5k": (3_600, 500),
    "fashion_mnist": (50_000, 1_000),
}


def get_config(arg="mnist_5k"):
    images, steps = vitzoo.config.choice(arg, TASKS)
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_steps = steps
    config.model = dict(image_size=28)  # digits are enlarged from 8 × 8
    config.objective = dict(name="classification")
    config.data = dict(name=arg, split=f"train[:{images}]", batch_size=64)
    config.augment = dict(crop="shift", shift=1)
    config.optimizer = dict(name="sgd", learning_rate=0.1, momentum=0.9, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_steps=steps // 10)
    config.checkpoint = dict(every_steps=steps, keep=1, keep_best="val/accuracy")
    config.evaluate = dict(
        val=dict(name="classification", split=f"train[{images}:]", every_steps=steps),
        test=dict(name="classification", split="test", every_steps=steps),
    )
    return config
