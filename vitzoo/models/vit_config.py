"""What a Vision Transformer may be: its settings, sizes and published variants."""

import dataclasses
from typing import Any

import numpy as np

from vitzoo.errors import UserError
from vitzoo.models.geometry import ImageGeometry, patch_variant
from vitzoo.nn.positions import METHODS
from vitzoo.schema import setting
from vitzoo.strict_json import JSON

VARIANTS: dict[str, dict[str, JSON]] = {
    "Ti": {"width": 192, "depth": 12, "mlp_dim": 768, "num_heads": 3},
    "s": {"width": 256, "depth": 6, "mlp_dim": 1024, "num_heads": 8},
    "S": {"width": 384, "depth": 12, "mlp_dim": 1536, "num_heads": 6},
    "B": {"width": 768, "depth": 12, "mlp_dim": 3072, "num_heads": 12},
    "L": {"width": 1024, "depth": 24, "mlp_dim": 4096, "num_heads": 16},
    "H": {"width": 1280, "depth": 32, "mlp_dim": 5120, "num_heads": 16},
    "g": {"width": 1408, "depth": 40, "mlp_dim": 6144, "num_heads": 16},
    "G": {"width": 1664, "depth": 48, "mlp_dim": 8192, "num_heads": 16},
}
"""Sizes. A variant is a size and a patch, `S/16`; any patch goes with any size."""

PUBLISHED = [
    *("s/28", "s/16", "S/32", "Ti/16", "B/32", "S/16", "B/28", "B/16"),
    *("L/32", "L/16", "H/14", "g/14", "G/14"),
]
"""Variants that papers report on, by cost."""

_AS_TORCHVISION: dict[str, JSON] = {"gelu": "exact", "num_classes": 1000, "position_resize": "corner_bicubic"}
_TORCHVISION = {"vit_b_16": "B/16", "vit_b_32": "B/32", "vit_l_16": "L/16", "vit_l_32": "L/32", "vit_h_14": "H/14"}
_AS_TIMM: dict[str, JSON] = {
    "gelu": "exact",
    "num_classes": 1000,
    "position_resize": "bicubic",
    "position_antialias": True,
}
_TIMM = {
    "tiny_patch16": "Ti/16",
    "small_patch16": "S/16",
    "small_patch32": "S/32",
    "base_patch8": "B/8",
    "base_patch16": "B/16",
    "base_patch32": "B/32",
    "large_patch16": "L/16",
    "large_patch32": "L/32",
}
ALIASES: dict[str, tuple[str, dict[str, JSON]]] = {
    **{name: (variant, _AS_TORCHVISION) for name, variant in _TORCHVISION.items()},
    **{
        f"vit_{name}_{size}": (variant, {**_AS_TIMM, "image_size": size})
        for name, variant in _TIMM.items()
        for size in (224, 384)
    },
}
"""torchvision's and timm's names → variants, and what their models have besides."""

POOLINGS = ("cls", "gap", "map", "cls_gap")
CLASS_POOLINGS = ("cls", "cls_gap")
"""Those that need a class token."""
POSITIONS = ("none", "learned1d", "learned2d", "sincos2d", "relative", "relative_bias", "rotary")


@dataclasses.dataclass(frozen=True)
class ViTConfig(ImageGeometry):
    """What a ViT is. Sizes are (height, width) in pixels, or one number for both."""

    patch_size: int | tuple[int, int] = setting(16, "pixels of a patch", minimum=1, form="HEIGHT,WIDTH")
    width: int = setting(384, "size of a token", minimum=1, maximum=2**17)
    depth: int = setting(12, "number of blocks", minimum=1, maximum=10_000)
    mlp_dim: int = setting(1536, "size between the two layers of a block's MLP", minimum=1, maximum=2**20)
    num_heads: int = setting(6, "attention heads; divides width, unless head_dim is set", minimum=1)
    head_dim: int | None = setting(None, "size of an attention head; none: width / num_heads", minimum=1)
    num_classes: int | None = setting(None, "outputs of the head; none: from the data; 0: no head", minimum=0)
    image_size: int | tuple[int, int] | None = setting(
        None, "pixels of an image; none: from the data, else 224", minimum=1, form="HEIGHT,WIDTH"
    )
    channels: int | None = setting(None, "of an image; none: from the data, else 3", minimum=1)
    pad_to_patch: bool = setting(
        False,
        "fill an image that patch_size doesn't divide with the mean colour, at the bottom and right; else refused",
    )
    pooling: str = setting(
        "cls", "what the head sees: class token, average, attention, class token beside average", choices=POOLINGS
    )
    pool_include_prefix: bool = setting(False, "gap and map see the tokens before the patches too")
    class_token: bool | None = setting(None, "whether there is one; none: when pooling is cls or cls_gap")
    distillation: str = setting(
        "none",
        "DeiT's second token, after the class token; head: with a head of its own, and logits are the mean of both",
        choices=("none", "token", "head"),
    )
    registers: int = setting(0, "tokens that are thrown away at the end (arXiv 2309.16588)", minimum=0)
    positions: str = setting("learned1d", "how a token knows its place", choices=POSITIONS)
    prefix_positions: str = setting(
        "class",
        "which tokens before the patches have a row in learned1d; class: class and distillation token, not registers",
        choices=("none", "class", "all"),
    )
    position_std: float = setting(
        0.02, "of learned positions at the start; 0.5 makes tiny images learn their places at once", above=0
    )
    rotary_base: float = setting(
        100.0,
        "ratio of the fastest to the slowest rotary angle, nearly",
        above=1,
        needs=("{section}.positions=rotary", lambda own: own.positions == "rotary"),
    )
    position_resize: str = setting("corner_linear", "how positions go to another grid", choices=METHODS)
    position_antialias: bool = setting(False, "smooth bilinear and bicubic when the grid shrinks")
    position_offset: float = setting(
        0.0, "added to the new sides when bilinear or bicubic resizes: 0.1 in DINO and DINOv2", minimum=0, below=1
    )
    patch_bias: bool = setting(True, "of the patch embedding")
    patch_norms: bool = setting(False, "LayerNorm on a patch's pixels and on its token (vit-pytorch)")
    embedding_norm: bool = setting(False, "LayerNorm on the tokens before the first block (CLIP)")
    qkv_bias: bool = setting(True, "of queries, keys and values")
    out_bias: bool = setting(True, "of attention's output")
    gated_mlp: bool = setting(
        False, "SwiGLU in place of GELU: a third layer's output multiplies silu (arXiv 2002.05202)"
    )
    layer_scale: float | None = setting(None, "initial factor of each branch; none: left out", above=0)
    qk_norm: bool = setting(False, "LayerNorm on queries and keys")
    qk_norm_bias: bool = setting(
        False,
        "of that LayerNorm; timm's has one, Google's not",
        needs=("{section}.qk_norm=true", lambda own: own.qk_norm),
    )
    dropout: float = setting(0.0, "after the embedding, after attention and in the MLP", minimum=0, below=1)
    attention_dropout: float = setting(0.0, "on the attention weights", minimum=0, below=1)
    drop_path: float = setting(0.0, "stochastic depth: rate of the last block", minimum=0, below=1)
    drop_path_schedule: str = setting("linear", "of the rate over depth, from 0", choices=("linear", "uniform"))
    patch_dropout: float = setting(0.0, "fraction of the patches left out in training", minimum=0, below=1)
    pre_logits: bool | int = setting(False, "a tanh layer before the head; a number is its width", minimum=0)
    gelu: str = setting(
        "tanh", "Google's weights have tanh, timm's exact, OpenAI's CLIP quick", choices=("tanh", "exact", "quick")
    )
    norm_epsilon: float = setting(1e-6, "added to the variance", above=0, maximum=0.1)
    norm_after_pooling: bool = setting(False, "final norm after pooling instead of before")
    head_bias_init: float = setting(0.0, "bias of the head; about -log(classes) for a sigmoid loss")

    @classmethod
    def from_variant(cls, variant: str, **changes: JSON) -> "ViTConfig":
        """`Config.from_variant("S/16", num_classes=10)`; UserError if unknown, or if the fields don't fit together."""
        fields: dict[str, Any] = {**patch_variant(variant, VARIANTS, PUBLISHED), **changes}
        config = cls(**fields)
        config.check()
        return config

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        if (self.head_dim is None or self.pooling == "map") and self.width % self.num_heads:
            divisors = [n for n in range(1, self.width + 1) if self.width % n == 0]
            low, high = sorted(sorted(divisors, key=lambda n: abs(n - self.num_heads))[:2])
            raise UserError("num_heads", self.num_heads, f"does not divide width {self.width} (nearest: {low}, {high})")
        self._check_positions()
        if self.has_class_token is False and (self.pooling in CLASS_POOLINGS or self.distillation != "none"):
            need = f"pooling={self.pooling}" if self.pooling in CLASS_POOLINGS else f"distillation={self.distillation}"
            raise UserError("class_token", self.class_token, f"{need} needs it; or take pooling gap or map")
        if self.distillation == "head" and self.pooling != "cls":
            raise UserError("distillation", "head", f"needs pooling cls; it is {self.pooling}")
        if self.pool_include_prefix and self.pooling in CLASS_POOLINGS:
            raise UserError("pool_include_prefix", True, f"acts with pooling gap or map; it is {self.pooling}")
        if self.image_size is not None:
            self.check_grid()

    def _check_positions(self) -> None:
        if self.positions == "rotary" and self.head_dim is not None:
            if self.head_dim % 4:
                raise UserError("head_dim", self.head_dim, "positions=rotary needs a multiple of 4")
            return
        unit = {"rotary": 4 * self.num_heads, "learned2d": 2, "sincos2d": 4}.get(self.positions, 1)
        if self.width % unit:
            near = ", ".join(str(n) for n in (self.width // unit * unit, self.width // unit * unit + unit) if n)
            why = f"positions={self.positions} needs a multiple of {unit} (nearest: {near})"
            raise UserError("width", self.width, why)

    @property
    def has_class_token(self) -> bool:
        """Whether a class token stands before the patches."""
        return self.pooling in CLASS_POOLINGS if self.class_token is None else self.class_token

    @property
    def prefix_tokens(self) -> int:
        """Tokens before the patches: class token, distillation token, registers."""
        return self._class_tokens + self.registers

    @property
    def placed_prefix(self) -> int:
        """How many of these, the first, have a row in `learned1d`; the rows of the patches follow."""
        return {"none": 0, "class": self._class_tokens, "all": self.prefix_tokens}[self.prefix_positions]

    @property
    def _class_tokens(self) -> int:
        return int(self.has_class_token) + int(self.distillation != "none")

    @property
    def head_size(self) -> int:
        """Size of an attention head."""
        return self.width // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def pooled_size(self) -> int:
        """Size of what pooling gives."""
        return 2 * self.width if self.pooling == "cls_gap" else self.width

    @property
    def drop_path_rates(self) -> np.ndarray | None:
        """[depth], each block's rate; `linear` runs from 0 to `drop_path` (a single block gets it whole)."""
        first = self.drop_path if self.drop_path_schedule == "uniform" or self.depth == 1 else 0
        return np.linspace(first, self.drop_path, self.depth, dtype=np.float32) if self.drop_path else None

    @property
    def random(self) -> bool:
        """Whether training draws random numbers inside the model."""
        return any((self.dropout, self.attention_dropout, self.drop_path, self.patch_dropout))
