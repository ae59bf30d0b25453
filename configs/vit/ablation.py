"""The paper's two ablations, of positions and of pooling, on Fashion-MNIST with a small model.

Command:   vitzoo train --config vit/ablation:1d --config.seed=0 --workdir runs/ablation/1d-0
           the whole table, three seeds each: python scripts/ablation.py --workdir runs/ablation
Argument:  none, 1d, 2d, relative, sincos2d, rotary (positions; class token) or cls, gap, map (pooling; learned 1-D).
Hardware:  2 CPU cores.
Source:    Dosovitskiy et al., An Image is Worth 16x16 Words, appendix D.3 and D.4, https://arxiv.org/abs/2010.11929
"""

import vitzoo.config

KINDS = {  # pooling and positions
    "none": ("cls", "none"),
    "1d": ("cls", "learned1d"),
    "2d": ("cls", "learned2d"),
    "relative": ("cls", "relative"),
    "sincos2d": ("cls", "sincos2d"),
    "rotary": ("cls", "rotary"),
    "cls": ("cls", "learned1d"),
    "gap": ("gap", "learned1d"),
    "map": ("map", "learned1d"),
}


def get_config(arg="1d"):
    pooling, positions = vitzoo.config.choice(arg, KINDS)
    config = vitzoo.config.default()
    config.total_epochs = 6
    config.model = dict(
        name="vit",
        variant="Ti/7",
        width=64,
        depth=4,
        num_heads=2,
        mlp_dim=128,
        pooling=pooling,
        positions=positions,
    )
    config.objective = dict(name="classification")
    config.data = dict(name="fashion_mnist", split="train[:12000]", batch_size=64)
    config.optimizer = dict(name="adamw", learning_rate=1.5e-3, weight_decay=0.05, grad_clip=1.0)
    config.schedule = dict(name="cosine", warmup_epochs=0.5)
    config.ema_warm_start = True  # of the moving average that --config.ema=0.999 would keep
    config.evaluate = dict(test=dict(name="classification", split="test", every_epochs=6))
    return config
