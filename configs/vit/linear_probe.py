"""A linear classifier on the frozen features of any checkpoint: how good they are as they stand.

Command:   vitzoo train --config vit/linear_probe --config.init_from=CKPT --workdir runs/probe
           other images: --config.data.name=folder:/photos --config.data.split=train
Hardware:  about a third of a training's cost for each image, since nothing goes back through the frozen part.
Data:      imagenet2012 of TFDS, or any other.
Result:    published figures are of other features than a model's own pooled ones (DINO's S/16: 77.0 %, class tokens of
           the last four blocks), so none is to be expected exactly. Not run by us.
Recipe:    only the head trains, without weight decay; the rate is 0.001 · batch / 256; nothing is dropped out.
Source:    the linear evaluation of Caron et al. (DINO), https://arxiv.org/abs/2104.14294, appendix and code
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("CKPT")
    config.total_epochs = 100
    config.model = dict(dropout=0.0, drop_path=0.0)
    config.objective = dict(name="classification")
    config.data = dict(name="imagenet2012", split="train", batch_size=1024)
    config.augment = dict(crop="inception", crop_area=(0.08, 1.0), flip=True)
    config.optimizer = dict(
        name="sgd", learning_rate=0.001 * 1024 / 256, momentum=0.9, freeze=(r"(?!(distillation_)?head/).*",)
    )
    config.schedule = dict(name="cosine")
    config.checkpoint = dict(every_epochs=1, keep=1, keep_best="val/accuracy")
    config.evaluate = dict(val=dict(name="classification", split="validation", every_epochs=1))
    return config
