"""Small training states and what tests do to their files."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.store import Store

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(0.1))


def make_state(step, rows=8, ema=True):
    key = jax.random.fold_in(jax.random.key(0), step)
    params = {"head": {"kernel": jax.random.normal(key, (rows, 16)), "bias": jnp.full((16,), step, jnp.bfloat16)}}
    counters = {name: jnp.int32(value) for name, value in {"step": step, "updates": step - 1, "skipped": 1}.items()}
    average = {"ema": jax.tree.map(lambda x: x / 2, params)} if ema else {}
    return {"params": params, "optimizer": OPTIMIZER.init(params), **average, **counters}


def describe(step):
    return metadata.describe(
        version="0",
        model={"name": "vit"},
        objective={"name": "classification"},
        inputs={"image": {"kind": "image", "size": [8, 8], "channels": 1}},
        classes=["zero", "one"],
        data={"name": "digits", "split": "train", "fingerprint": "f"},
        step=step,
        examples=4 * step,
    )


def abstract_of(state, sharding=None):
    def one(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding or leaf.sharding)

    return jax.tree.map(one, state)


def place(state, devices):
    """Shardings that split every matrix over `devices` of the eight simulated devices."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("fsdp",))
    return jax.tree.map(lambda leaf: NamedSharding(mesh, P("fsdp") if leaf.ndim == 2 else P()), state)


def save(folder, *steps, keep=2, best=None):
    store = Store(folder, keep)
    for step in steps:
        store.save(step, make_state(step), describe(step), {"best": best and {"step": best, "value": 0.5}})
    store.close()


def same(left, right):
    leaves = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


def array_file(folder):
    return max(
        (p for p in (folder / "params").rglob("*") if p.is_file() and p.parent.name == "d"),
        key=lambda p: p.stat().st_size,
    )


def flip_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
