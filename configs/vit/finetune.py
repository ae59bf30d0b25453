"""Fine-tunes any checkpoint on other images: a folder of photos, a CSV file, a TFDS dataset.

Command:   vitzoo train --config vit/finetune --workdir runs/photos \\
             --config.init_from=CKPT --config.data.name=folder:/photos
Hardware:  whatever the model fits on.
Data:      folder:PATH (a sub-folder a class, or train/ and val/ of them), csv:FILE, or a dataset's name.
           Photos are brought to the checkpoint's image size unless config.model.image_size is stated.
Recipe:    AdamW, learning rates that shrink by 0.75 a layer towards the input, 5 epochs but at least 500 steps, so that
           200 photos and 50,000 both get enough. Digits, text and other images that must not be mirrored:
           --config.augment.flip=false. Head only: --config.optimizer.freeze='(?!head/).*'
Source:    layer-wise rates as in BEiT, https://arxiv.org/abs/2106.08254
"""

import vitzoo.config


def get_config():
    config = vitzoo.config.default()
    config.init_from = vitzoo.config.required("RUN")
    config.total_epochs = 5
    config.min_steps = 500
    config.objective = dict(name="classification", label_smoothing=0.1)
    config.data = dict(name=vitzoo.config.required("folder:PHOTOS"), split="train", batch_size=64)
    config.augment = dict(crop="inception", crop_area=(0.35, 1.0), flip=True)
    config.optimizer = dict(name="adamw", learning_rate=5e-4, weight_decay=0.05, grad_clip=1.0, layer_decay=0.75)
    config.schedule = dict(name="cosine", warmup_fraction=0.1)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.checkpoint = dict(every_steps=200, keep=1, keep_best="val/loss")
    config.evaluate = dict(val=dict(name="classification", split="validation", every_steps=200))
    return config
