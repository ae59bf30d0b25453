"""AugReg: a Vision Transformer on ImageNet-1k or -21k with the augmentation and regularisation that its size wants.

Command:   vitzoo train --config vit/augreg:i1k,B/16 --workdir runs/augreg
           vitzoo train --config vit/augreg:i21k,B/16 --config.data.name=folder:/imagenet21k --workdir runs/augreg21k
Argument:  i1k or i21k; a variant (Ti/16, S/32, S/16, B/32, B/16, L/16); then, to depart from what is best for it, a row
           of the table (none, light1, light2, medium1, medium2, strong1, strong2) and `dropout` (dropout and stochastic
           depth of 0.1): vit/augreg:i1k,L/16,strong1,dropout. The paper's other choice is weight_decay 0.03.
Hardware:  accelerators; published for TPU v3. 300 epochs of batches of 4,096.
Data:      imagenet2012 of TFDS; ImageNet-21k (winter 2021 or the first release) as a folder, which TFDS doesn't have.
Result:    published, ImageNet top-1 at 224: i1k S/16 78.8 %, B/16 79.2 %; i21k, then fine-tuned at 384
           (vit/original_finetune): Ti/16 78.2 %, S/32 79.6 %, S/16 83.7 %, B/32 83.6 %, B/16 85.5 %, L/16 85.6 %.
           Not run by us.
Recipe:    sigmoid cross-entropy; a weight decay of 1e-4 that isn't multiplied by the learning rate of 1e-3. `dropout`
           helped B and L on ImageNet-1k in the paper.
Source:    Steiner et al., How to train your ViT?, https://arxiv.org/abs/2106.10270, figure 4;
           google-research/big_vision, configs/vit_i1k.py and vit_i21k.py
"""

import vitzoo.config

TABLE = {  # RandAugment's layers and magnitude, mixup
    "none": dict(randaugment_layers=0, randaugment_magnitude=0.0, mixup=0.0),
    "light1": dict(randaugment_layers=2, randaugment_magnitude=0.0, mixup=0.0),  # magnitude 0 isn't nothing
    "light2": dict(randaugment_layers=2, randaugment_magnitude=10.0, mixup=0.2),
    "medium1": dict(randaugment_layers=2, randaugment_magnitude=15.0, mixup=0.2),
    "medium2": dict(randaugment_layers=2, randaugment_magnitude=15.0, mixup=0.5),
    "strong1": dict(randaugment_layers=2, randaugment_magnitude=20.0, mixup=0.5),
    "strong2": dict(randaugment_layers=2, randaugment_magnitude=20.0, mixup=0.8),
}
BEST = {
    "i1k": {
        "Ti/16": "light1",
        "S/32": "medium1",
        "S/16": "medium2",
        "B/32": "medium2",
        "B/16": "medium2",
        "L/16": "medium2",
    },
    "i21k": {
        "Ti/16": "none",
        "S/32": "none",
        "S/16": "light1",
        "B/32": "light2",
        "B/16": "light2",
        "L/16": "medium2",
    },
}
HELD_OUT = 51_200 / 14_197_122  # of ImageNet-21k


def get_config(arg="i1k,B/16"):
    data, variant, row, dropout = (*arg.split(",", 3), "", "", "")[:4]
    variant = variant or "B/16"
    best = vitzoo.config.choice(variant, vitzoo.config.choice(data, BEST))
    rate = vitzoo.config.choice(dropout or "plain", {"plain": 0.0, "dropout": 0.1})
    config = vitzoo.config.default()
    config.total_epochs = 300
    config.model = dict(name="vit", variant=variant, image_size=224, dropout=rate, drop_path=rate)
    config.inputs.image = dict(resize="short_side_crop", crop_fraction=224 / 256)
    config.augment = dict(crop="inception", flip=True, **vitzoo.config.choice(row or best, TABLE))
    config.optimizer = dict(
        name="adamw",
        learning_rate=1e-3,
        weight_decay=1e-4,
        independent_weight_decay=True,
        grad_clip=1.0,
        moment_dtype="bfloat16",
    )
    config.schedule = dict(name="cosine", warmup_steps=10_000)
    config.objective = dict(name="classification", loss="sigmoid")
    config.checkpoint = dict(every_steps=1000, keep=2)
    if data == "i1k":
        config.model = dict(pooling="cls", pre_logits=True, head_bias_init=-6.9)
        config.data = dict(name="imagenet2012", split="train[:99%]", batch_size=4096)
        config.evaluate = dict(
            minival=dict(name="classification", split="train[99%:]", loss="sigmoid", every_epochs=5),
            val=dict(name="classification", split="validation", loss="sigmoid", every_epochs=10),
        )
    else:
        config.model = dict(pooling="gap", head_bias_init=-10.0)
        name = vitzoo.config.required("folder:IMAGENET21K")
        config.data = dict(name=name, split="train", batch_size=4096, validation_fraction=HELD_OUT)
        config.evaluate = dict(
            val=dict(name="classification", split="validation", loss="sigmoid", every_epochs=5),
        )
    return config
