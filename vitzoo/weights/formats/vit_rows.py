"""Rows that Vision Transformers born in torch have in common, made from the model's Config."""

from vitzoo.models.vit_config import ViTConfig
from vitzoo.weights.common_rows import dense
from vitzoo.weights.formats.settings import defaults
from vitzoo.weights.layouts import TRANSPOSED, VECTOR, from_heads, fused, to_heads, to_heads_bias
from vitzoo.weights.rows import Row

BLOCKS = "encoder/blocks/*"
KERNEL_BIAS = ("kernel", "bias")
PLAIN = defaults(
    ViTConfig,
    *("pool_prefix", "pad_to_patch", "patch_bias", "patch_norms", "embedding_norm", "out_bias", "qk_norm"),
    "norm_after_pooling",
)
"""Settings that hardly a format has a place for, and their one value there."""
PLAINER = PLAIN | defaults(ViTConfig, "distilled", "registers", "qkv_bias", "gated_mlp", "layer_scale")
"""Those of formats that hold nothing but the first paper's model."""


def attention_rows(together: tuple[str, str], out: str, config: ViTConfig) -> list[Row]:
    """A block's attention whose queries, keys and values are one layer.

    Args:
        together: names of that layer's weight [3 · heads · head_dim, width] and bias.
        out: name of the layer that joins heads.
        config: of the model.
    """
    ours, heads = f"{BLOCKS}/attention", config.num_heads
    kernels, biases = (tuple(f"{ours}/{part}/{leaf}" for part in ("query", "key", "value")) for leaf in KERNEL_BIAS)
    rows = [
        Row(together[0], kernels, fused(3, to_heads(heads), axis=0)),
        Row(f"{out}.weight", f"{ours}/out/kernel", from_heads(heads)),
    ]
    if config.qkv_bias:
        rows.append(Row(together[1], biases, fused(3, to_heads_bias(heads), axis=0)))
    return [*rows, Row(f"{out}.bias", f"{ours}/out/bias")] if config.out_bias else rows


def mlp_rows(up: str, down: str, config: ViTConfig) -> list[Row]:
    """A block's MLP; where it is gated, gate and value are one layer, the gate's half first."""
    ours = f"{BLOCKS}/mlp"
    if not config.gated_mlp:
        return [*dense(up, f"{ours}/up"), *dense(down, f"{ours}/down")]
    kernels, biases = (tuple(f"{ours}/{part}/{leaf}" for part in ("gate", "up")) for leaf in KERNEL_BIAS)
    return [
        Row(f"{up}.weight", kernels, fused(2, TRANSPOSED, axis=0)),
        Row(f"{up}.bias", biases, fused(2, VECTOR, axis=0)),
        *dense(down, f"{ours}/down"),
    ]
