"""An optimizer's update doesn't depend on the dimensions in which a kernel is kept, unless its published form does."""

from pathlib import Path

import jax
import numpy as np
import optax
import pytest

from vitzoo.nn.paths import flatten, unflatten
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import LAMB, SGD, Adafactor, AdamW, Lion, T5Adafactor

GOLDENS = Path(__file__).parents[1] / "goldens" / "optimizer_t5_adafactor.npz"
# T5's names in transformers, its linear layers [outputs, inputs]; ours and the shape in which we keep it
OURS = {
    "SelfAttention.q.weight": ("attention/query/kernel", (10, 3, 4)),
    "SelfAttention.k.weight": ("attention/key/kernel", (10, 3, 4)),
    "SelfAttention.v.weight": ("attention/value/kernel", (10, 3, 4)),
    "SelfAttention.o.weight": ("attention/out/kernel", (3, 4, 10)),
    "DenseReluDense.wi.weight": ("mlp/up/kernel", (10, 14)),
    "DenseReluDense.wo.weight": ("mlp/down/kernel", (14, 10)),
    "layer_norm.weight": ("norm/scale", (10,)),
}
INSENSITIVE = [
    T5Adafactor(),
    T5Adafactor(beta1=0.9, grad_clip=0.5, grad_clip_scope="per_tensor"),
    AdamW(weight_decay=0.1, grad_clip=0.5, grad_clip_scope="per_tensor"),
    LAMB(weight_decay=0.1, grad_clip=0.5, grad_clip_scope="per_tensor"),
    SGD(nesterov=True, weight_decay=0.1),
    Lion(weight_decay=0.1),
]

# where a kernel is, the shape in which it is kept, and that of its matrix, with sides of 128 and more
KEPT = {
    "attention/query/kernel": ((130, 2, 66), (130, 132)),
    "blocks/*/cross_attention/key/kernel": ((2, 130, 4, 33), (2, 130, 132)),
    "blocks/*/attention/out/kernel": ((2, 2, 66, 140), (2, 132, 140)),
    "patch_embedding/kernel": ((7, 7, 3, 130), (147, 130)),
}


def after(optimizer, params, gradients, rate=0.1):
    """Parameters by path after an update for each gradient."""
    tx = build(optimizer, lambda step: np.float32(rate), params)

    @jax.jit
    def train(params, state, gradient, step):
        changes, state = tx.update(gradient, state, params, step=step)
        return optax.apply_updates(params, changes), state

    state = jax.jit(tx.init)(params)
    for step, gradient in enumerate(gradients):
        params, state = train(params, state, gradient, step)
    return flatten(jax.device_get(params))


@pytest.mark.parametrize("prefix", ["", "encoder/blocks/*/"])
def test_t5_adafactor_is_that_of_transformers_on_every_kind_of_tensor(prefix):
    golden = np.load(GOLDENS)

    def ours(part, *index):
        found = {}
        for name, (path, shape) in OURS.items():
            own = golden[f"{part}/{name}"][index].T.reshape(shape)
            found[prefix + path] = own[None].repeat(2, 0) if prefix else own
        return unflatten(found)

    gradients = [ours("gradient", step) for step in range(len(golden["gradient/layer_norm.weight"]))]
    expected = flatten(ours("after"))
    # transformers factors every matrix; T5 those whose two sides have 128 or more
    found = after(T5Adafactor(min_factored_size=1), ours("before"), gradients, float(golden["rate"]))
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=2e-5, atol=2e-6, err_msg=path)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", INSENSITIVE, ids=lambda one: type(one).__name__)
def test_a_kernel_kept_in_more_dimensions_is_trained_as_the_matrix_that_it_is(optimizer):
    draw = np.random.default_rng(0)
    start, *gradients = ({path: draw.normal(size=kept) for path, (kept, _) in KEPT.items()} for _ in range(4))
    gradients = [{path: one * np.exp(draw.normal(size=one.shape)) for path, one in each.items()} for each in gradients]

    def kept(arrays):
        return unflatten({path: one.astype(np.float32) for path, one in arrays.items()})

    def matrices(arrays):
        return unflatten(
            {as_plain(path): one.astype(np.float32).reshape(KEPT[path][1]) for path, one in arrays.items()}
        )

    found = after(optimizer, kept(start), [kept(each) for each in gradients])
    expected = after(optimizer, matrices(start), [matrices(each) for each in gradients])
    for path, (_, matrix) in KEPT.items():
        assert abs(found[path] - start[path]).max() > 1e-3
        close = {"rtol": 2e-5, "atol": 2e-6, "err_msg": path}
        np.testing.assert_allclose(found[path].reshape(matrix), expected[as_plain(path)], **close)


def as_plain(path):
    """The same stack or none, under a name that says nothing of heads."""
    return path.replace("attention/", "mlp/").replace("query", "up").replace("key", "up").replace("patch_", "plain_")


@pytest.mark.parametrize(("size", "factored"), [(127, False), (128, True)])
def test_t5_factors_an_attention_kernel_whose_matrix_has_128_rows_and_columns(size, factored):
    kernels = {"query": (size, 2, 64), "out": (2, 64, size)}
    params = {name: {"kernel": np.zeros(shape, np.float32)} for name, shape in kernels.items()}
    state = jax.eval_shape(build(T5Adafactor(), lambda step: 0.1, params).init, params)
    largest = max(leaf.size for leaf in jax.tree.leaves(state))
    assert largest == (128 if factored else size * 128)


def test_moments_that_are_not_factored_are_kept_as_their_parameter_so_that_they_are_sharded_like_it():
    params = {"attention": {"query": {"kernel": np.zeros((64, 2, 32), np.float32)}}}
    state = jax.eval_shape(build(T5Adafactor(beta1=0.9), lambda step: 0.1, params).init, params)
    shapes = [leaf.shape for path, leaf in flatten(state).items() if leaf.size == 64 * 64]
    assert shapes == [(64, 2, 32)] * 2  # the second moment and the momentum


def test_big_visions_adafactor_factors_the_kernels_as_big_vision_keeps_them():
    # flax's attention keeps [width, heads, head_dim] there; over the two largest dimensions, so 64 and 33 of 64, 2, 33
    params = {"attention": {"query": {"kernel": np.zeros((64, 2, 33), np.float32)}}}
    state = jax.eval_shape(build(Adafactor(beta1=0.0), lambda step: 0.1, params).init, params)
    assert sorted(leaf.shape for leaf in jax.tree.leaves(state) if leaf.size > 1) == [(2, 33), (64, 2)]
