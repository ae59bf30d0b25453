"""Blocks and stacks: every way of running gives the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.nn import state
from vitzoo.nn.execution import Execution
from vitzoo.nn.norms import LayerNorm
from vitzoo.nn.stack import Block, Stack

X = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
DEPTH = 2
FAST = {"xla_backend_optimization_level": 0}  # these functions are compiled for one run


def build(execution, **changes):
    def make(rngs):
        return Block(16, 32, 2, layer_scale=0.5, rngs=rngs, execution=execution, **changes)

    return lambda rngs: Stack(DEPTH, make, norm=LayerNorm(16, execution=execution), rngs=rngs, execution=execution)


@pytest.fixture(scope="module")
def params():
    return state.initialise(build(Execution()), 0)


def outputs_and_gradients(execution, params, key=None):
    graph, _ = state.abstract(build(execution))

    def loss(params):
        run = state.merge(graph, params)(X, key, np.linspace(0, 0.5, DEPTH), features=True)
        return jnp.sin(run.tokens).sum(), run

    return jax.jit(jax.grad(loss, has_aux=True), compiler_options=FAST)(params)


WAYS = [
    Execution(scan=True, remat="full", derivatives="own"),
    Execution(scan=True, remat="dots", derivatives="plain"),
    Execution(scan=False, remat="none", derivatives="plain"),
    Execution(scan=False, remat="dots", derivatives="own"),
]


@pytest.fixture(scope="module")
def reference(params):
    return outputs_and_gradients(Execution(derivatives="own"), params, jax.random.key(3))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_of_running_gives_the_same_outputs_and_gradients_branches_dropped(way, params, reference):
    other = outputs_and_gradients(way, params, jax.random.key(3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6 * max(1, abs(a).max())), reference, other)


def test_each_block_is_the_plain_block_of_its_parameters(params):
    graph, _ = state.abstract(build(Execution()))
    run = jax.jit(lambda p: state.merge(graph, p)(X, features=True, weights=True), compiler_options=FAST)(params)
    one, _ = state.abstract(lambda rngs: Block(16, 32, 2, layer_scale=0.5, rngs=rngs))
    block = jax.jit(lambda p, x: state.merge(one, p)(x)[0])
    x = X
    for index in range(DEPTH):
        x = block(jax.tree.map(lambda leaf, index=index: leaf[index], params["blocks"]), x)
        np.testing.assert_allclose(run.blocks[index], x, atol=1e-6)
    assert run.attention.shape == (DEPTH, 2, 2, 5, 5)
    np.testing.assert_allclose(run.attention.sum(-1), 1, atol=1e-6)


def test_layers_and_rows_draw_apart(params):
    def dropped(drop):
        graph, _ = state.abstract(build(Execution()))
        x = np.repeat(X[:1], 64, axis=0)
        run = lambda p, drop: state.merge(graph, p)(x, jax.random.key(0), drop, features=True).blocks  # noqa: E731
        return jax.jit(run, compiler_options=FAST)(params, drop)

    first, last = dropped(np.array([0.5, 0])), dropped(np.array([0, 0.5]))
    assert len(np.unique(np.asarray(first[0]).sum((1, 2)).round(3))) == 4  # each branch there or not
    assert len(np.unique(np.asarray(last[0]).sum((1, 2)).round(3))) == 1
    assert len(np.unique(np.asarray(last[1]).sum((1, 2)).round(3))) == 4


def test_a_post_norm_block_ends_in_a_norm():
    def run(key):
        block = Block(16, 32, 2, pre_norm=False, rngs=state.nnx.Rngs(key))
        return block(100 * X)[0]

    y = np.asarray(jax.jit(run, compiler_options=FAST)(jax.random.key(0)))
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 1, atol=1e-3)


def test_remat_keeps_less_for_the_backward_pass(params):
    def kept(remat):
        graph, _ = state.abstract(build(Execution(remat=remat)))
        loss = lambda p: state.merge(graph, p)(X).tokens.sum()  # noqa: E731
        shapes = jax.eval_shape(lambda p: jax.vjp(loss, p)[1], params)
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    assert kept("full") < kept("dots") < kept("none")
