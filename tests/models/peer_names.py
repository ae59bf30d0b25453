"""Parameters under the names of transformers and of torch's layers, as trees under ours."""

import jax
import numpy as np


def from_gpt2(names, heads):
    """GPT2LMHeadModel, whose kernels are [in, out]."""
    blocks = [_gpt_block(names, f"transformer.h.{index}", heads) for index in range(_depth(names, "transformer.h."))]
    return {
        "embedding": _table(names, "transformer.wte"),
        "position_embedding": _table(names, "transformer.wpe"),
        "decoder": {"blocks": {"*": _stacked(blocks)}, "norm": _norm(names, "transformer.ln_f")},
    }


def from_gpt1(names, heads):
    """OpenAIGPTLMHeadModel, the same without a last norm."""
    blocks = [_gpt_block(names, f"transformer.h.{index}", heads) for index in range(_depth(names, "transformer.h."))]
    return {
        "embedding": _table(names, "transformer.tokens_embed"),
        "position_embedding": _table(names, "transformer.positions_embed"),
        "decoder": {"blocks": {"*": _stacked(blocks)}},
    }


def from_t5(names, heads):
    """T5ForConditionalGeneration of both versions: no biases, one table of distances in each stack's first block."""
    tree = {"embedding": _table(names, "shared")}
    for stack in ("encoder", "decoder"):
        path = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
        tree[f"{stack}_distance_bias"] = _table(names, path)
        depth = _depth(names, f"{stack}.block.")
        blocks = [_t5_block(names, f"{stack}.block.{index}.layer", heads) for index in range(depth)]
        tree[stack] = {"blocks": {"*": _stacked(blocks)}, "norm": _norm(names, f"{stack}.final_layer_norm")}
    return tree | ({"head": _dense(names, "lm_head")} if "lm_head.weight" in names else {})


def from_bert(names, heads):
    """BertForPreTraining."""
    depth = _depth(names, "bert.encoder.layer.")
    blocks = [_bert_block(names, f"bert.encoder.layer.{index}", heads) for index in range(depth)]
    return {
        "embedding": _table(names, "bert.embeddings.word_embeddings"),
        "position_embedding": _table(names, "bert.embeddings.position_embeddings"),
        "type_embedding": _table(names, "bert.embeddings.token_type_embeddings"),
        "embedding_norm": _norm(names, "bert.embeddings.LayerNorm"),
        "encoder": {"blocks": {"*": _stacked(blocks)}},
        "pooler": _dense(names, "bert.pooler.dense"),
        "masked_dense": _dense(names, "cls.predictions.transform.dense"),
        "masked_norm": _norm(names, "cls.predictions.transform.LayerNorm"),
        "masked_bias": names["cls.predictions.bias"],
        "next_sentence": _dense(names, "cls.seq_relationship"),
    }


def from_torch(names, heads):
    """torch.nn.Transformer's layers, beside a table `shared`."""
    tree = {"embedding": _table(names, "shared")}
    for stack in ("encoder", "decoder"):
        depth = _depth(names, f"{stack}.layers.")
        blocks = [_torch_block(names, f"{stack}.layers.{index}", heads) for index in range(depth)]
        tree[stack] = {"blocks": {"*": _stacked(blocks)}}
    return tree


def _gpt_block(names, path, heads):
    def dense(part):
        return _dense(names, f"{path}.{part}", transposed=False)

    return {
        "attention": _with_heads({**_parts(dense("attn.c_attn")), "out": dense("attn.c_proj")}, heads),
        "mlp": {"up": dense("mlp.c_fc"), "down": dense("mlp.c_proj")},
        "norm1": _norm(names, f"{path}.ln_1"),
        "norm2": _norm(names, f"{path}.ln_2"),
    }


def _t5_block(names, path, heads):
    def attention(part):
        return _with_heads(_dense_each(names, f"{path}.{part}", query="q", key="k", value="v", out="o"), heads)

    crosses = f"{path}.1.EncDecAttention.q.weight" in names
    last = f"{path}.{2 if crosses else 1}"
    gated = f"{last}.DenseReluDense.wi_0.weight" in names
    mlp = {"gate": "wi_0", "up": "wi_1"} if gated else {"up": "wi"}
    block = {
        "attention": attention("0.SelfAttention"),
        "mlp": _dense_each(names, f"{last}.DenseReluDense", down="wo", **mlp),
        "norm1": _norm(names, f"{path}.0.layer_norm"),
        "norm2": _norm(names, f"{last}.layer_norm"),
    }
    if crosses:
        block |= {"cross_attention": attention("1.EncDecAttention"), "cross_norm": _norm(names, f"{path}.1.layer_norm")}
    return block


def _bert_block(names, path, heads):
    attention = _dense_each(names, f"{path}.attention.self", query="query", key="key", value="value")
    attention["out"] = _dense(names, f"{path}.attention.output.dense")
    return {
        "attention": _with_heads(attention, heads),
        "mlp": _dense_each(names, path, up="intermediate.dense", down="output.dense"),
        "norm1": _norm(names, f"{path}.attention.output.LayerNorm"),
        "norm2": _norm(names, f"{path}.output.LayerNorm"),
    }


def _torch_block(names, path, heads):
    def attention(part):
        fused = {
            "kernel": names[f"{path}.{part}.in_proj_weight"].T,
            "bias": names[f"{path}.{part}.in_proj_bias"],
        }
        return _with_heads({**_parts(fused), "out": _dense(names, f"{path}.{part}.out_proj")}, heads)

    crosses = f"{path}.norm3.weight" in names
    block = {
        "attention": attention("self_attn"),
        "mlp": _dense_each(names, path, up="linear1", down="linear2"),
        "norm1": _norm(names, f"{path}.norm1"),
        "norm2": _norm(names, f"{path}.norm3" if crosses else f"{path}.norm2"),
    }
    if crosses:
        block |= {"cross_attention": attention("multihead_attn"), "cross_norm": _norm(names, f"{path}.norm2")}
    return block


def _depth(names, prefix):
    """Blocks whose names begin with the prefix and a number."""
    return 1 + max(int(name.removeprefix(prefix).partition(".")[0]) for name in names if name.startswith(prefix))


def _stacked(blocks):
    return jax.tree.map(lambda *layers: np.stack(layers), *blocks)


def _table(names, path):
    return {"table": names[f"{path}.weight"]}


def _norm(names, path):
    bias = {"bias": names[f"{path}.bias"]} if f"{path}.bias" in names else {}
    return {"scale": names[f"{path}.weight"], **bias}


def _dense(names, path, *, transposed=True):
    """A kernel [in, out], from `transposed` [out, in] or as it stands, and the bias where there is one."""
    kernel = names[f"{path}.weight"]
    bias = {"bias": names[f"{path}.bias"]} if f"{path}.bias" in names else {}
    return {"kernel": kernel.T if transposed else kernel, **bias}


def _dense_each(names, path, **parts):
    return {ours: _dense(names, f"{path}.{theirs}") for ours, theirs in parts.items()}


def _parts(fused):
    """Query, key and value out of one layer that makes all three."""
    pieces = {leaf: np.split(value, 3, axis=-1) for leaf, value in fused.items()}
    return {part: {leaf: each[i] for leaf, each in pieces.items()} for i, part in enumerate(("query", "key", "value"))}


def _with_heads(parts, heads):
    """The projections [width, heads x head_dim] and back, with a dimension for the heads."""
    out = parts["out"] | {"kernel": parts["out"]["kernel"].reshape(heads, -1, parts["out"]["kernel"].shape[-1])}
    cut = {
        name: {leaf: value.reshape(*value.shape[:-1], heads, -1) for leaf, value in part.items()}
        for name, part in parts.items()
        if name != "out"
    }
    return {**cut, "out": out}
