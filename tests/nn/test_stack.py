"""Blocks and stacks: every way of running gives the same."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.errors import UserError
from vitzoo.nn import masks, state
from vitzoo.nn.attention import Attention
from vitzoo.nn.dense import Dense
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.mlp import MLP
from vitzoo.nn.norms import BatchNorm, LayerNorm
from vitzoo.nn.stack import Block, BlockOutput, Stack

X = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
DEPTH = 2
FAST = {"xla_backend_optimization_level": 0}  # these functions are compiled for one run


def block(rngs, execution=DEFAULT, cross=False, **changes):
    shared = {"rngs": rngs, "execution": execution}
    return Block(
        width=16,
        attention=Attention(16, 2, **shared),
        mlp=MLP(16, 32, **shared),
        norm=partial(LayerNorm, 16, execution=execution),
        cross_attention=Attention(16, 2, **shared) if cross else None,
        **{"layer_scale": 0.5, **changes},
    )


def build(execution, **changes):
    make = partial(block, execution=execution, **changes)
    return lambda rngs: Stack(DEPTH, make, norm=LayerNorm(16, execution=execution), rngs=rngs, execution=execution)


@pytest.fixture(scope="module")
def params():
    return state.initialise(build(Execution()), 0)


def outputs_and_gradients(execution, params, key=None):
    graph, _ = state.abstract(build(execution))

    def loss(params):
        run = state.merge(graph, params)(X, key, np.linspace(0, 0.5, DEPTH), capture={"blocks", "attention"})
        return jnp.sin(run.tokens).sum() + jnp.square(run.captured["attention"]).sum(), run

    return jax.jit(jax.grad(loss, has_aux=True), compiler_options=FAST)(params)


WAYS = [
    Execution(scan=True, remat="full", custom_gradient=True),
    pytest.param(Execution(scan=True, remat="dots", custom_gradient=False), marks=pytest.mark.slow),
    pytest.param(Execution(scan=False, remat="none", custom_gradient=False), marks=pytest.mark.slow),
    pytest.param(Execution(scan=False, remat="dots", custom_gradient=True), marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def reference(params):
    return outputs_and_gradients(Execution(custom_gradient=True), params, jax.random.key(3))


@pytest.mark.gate
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_of_running_gives_the_same_outputs_and_gradients_branches_dropped(way, params, reference):
    other = outputs_and_gradients(way, params, jax.random.key(3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6 * max(1, abs(a).max())), reference, other)


def test_each_block_is_the_plain_block_of_its_parameters(params):
    graph, _ = state.abstract(build(Execution()))
    names = {"blocks", "attention"}
    run = jax.jit(lambda p: state.merge(graph, p)(X, capture=names), compiler_options=FAST)(params)
    one, _ = state.abstract(block)
    alone = jax.jit(lambda p, x: state.merge(one, p)(x)[0])
    x = X
    for index in range(DEPTH):
        x = alone(jax.tree.map(lambda leaf, index=index: leaf[index], params["blocks"]["*"]), x)
        np.testing.assert_allclose(run.captured["blocks"][index], x, atol=1e-6)
    assert run.captured["attention"].shape == (DEPTH, 2, 2, 5, 5)
    np.testing.assert_allclose(run.captured["attention"].sum(-1), 1, atol=1e-6)


def test_what_a_stack_does_not_know_is_refused(params):
    graph, _ = state.abstract(build(Execution()))
    with pytest.raises(UserError, match="capture = cross_attention: no such name; known: blocks, attention"):
        state.merge(graph, params)(X, capture={"cross_attention"})


def test_layers_and_rows_draw_apart(params):
    def dropped(drop):
        graph, _ = state.abstract(build(Execution()))
        x = np.repeat(X[:1], 64, axis=0)
        run = lambda p, drop: state.merge(graph, p)(x, jax.random.key(0), drop, capture={"blocks"})  # noqa: E731
        return jax.jit(run, compiler_options=FAST)(params, drop).captured["blocks"]

    first, last = dropped(np.array([0.5, 0])), dropped(np.array([0, 0.5]))
    assert len(np.unique(np.asarray(first[0]).sum((1, 2)).round(3))) == 4  # each branch there or not
    assert len(np.unique(np.asarray(last[0]).sum((1, 2)).round(3))) == 1
    assert len(np.unique(np.asarray(last[1]).sum((1, 2)).round(3))) == 4


def test_a_post_norm_block_ends_in_a_norm():
    def run(key):
        return block(state.nnx.Rngs(key), pre_norm=False, layer_scale=None)(100 * X)[0]

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


@pytest.mark.gate
@pytest.mark.parametrize("scan", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_tokens_given_one_after_another_with_a_cache_come_out_as_all_at_once(scan):
    context = np.random.default_rng(1).normal(size=(2, 3, 16)).astype(np.float32)
    make = build(Execution(scan=scan), cross=True)
    params = state.initialise(make, 0)
    graph, _ = state.abstract(make)

    def at_once(params):
        return state.merge(graph, params)(X, mask=masks.causal(5), context=context).tokens

    def in_turn(params):
        stack = state.merge(graph, params)
        cache, out = stack.empty_cache(2, 8, context), []
        for first, last in ((0, 3), (3, 4), (4, 5)):  # a prompt of three, then one by one
            at = jnp.broadcast_to(jnp.arange(first, last), (2, last - first))
            run = stack(X[:, first:last], cache=cache, at=at, mask=masks.up_to(at, 8))
            cache = run.cache
            out.append(run.tokens)
        return jnp.concatenate(out, axis=1)

    run = partial(jax.jit, compiler_options=FAST)
    np.testing.assert_allclose(run(in_turn)(params), run(at_once)(params), atol=1e-5)


@pytest.mark.gate
def test_a_row_of_a_cache_may_be_shorter_than_another():
    make = build(Execution())
    params, (graph, _) = state.initialise(make, 0), state.abstract(make)

    def run(params, rows, at):
        stack = state.merge(graph, params)
        first = stack(rows, cache=stack.empty_cache(len(rows), 8), at=at, mask=masks.up_to(at, 8))
        place = jnp.array([[3], [5]])[: len(rows)] if len(rows) > 1 else jnp.array([[3]])
        more = X[: len(rows), :1]
        return stack(more, cache=first.cache, at=place, mask=masks.up_to(place, 8)).tokens

    together = jax.jit(run, compiler_options=FAST)(params, X, jnp.broadcast_to(jnp.arange(5), (2, 5)))
    alone = jax.jit(run, compiler_options=FAST)(params, X[:1, :3], jnp.arange(3)[None])
    np.testing.assert_allclose(together[0], alone[0], atol=1e-5)


class Normed(nnx.Module):
    """A block that keeps statistics of its batches, and has nothing to capture."""

    captures = ()

    def __init__(self, rngs):
        self.linear = Dense(8, 8, rngs=rngs)
        self.norm = BatchNorm(8, momentum=0.5)

    def __call__(self, x, key, drop, cache, *, capture, train):
        return x + self.norm(self.linear(x), train=train), BlockOutput()


@pytest.mark.parametrize(
    ("scan", "remat"),
    [
        pytest.param(True, "full", marks=pytest.mark.gate),
        (True, "none"),
        pytest.param(False, "dots", marks=pytest.mark.gate),
    ],
)
def test_statistics_of_stacked_layers_are_those_of_each_layer_alone(scan, remat):
    execution = Execution(scan=scan, remat=remat)
    graph, params = state.split(Stack(3, Normed, rngs=nnx.Rngs(0), execution=execution))
    x = jax.random.normal(jax.random.key(1), (6, 5, 8))

    def loss(params):
        stack = state.merge(graph, params)
        return jnp.square(stack(x, train=True).tokens).sum(), state.statistics(stack)

    gradients, found = jax.jit(jax.grad(loss, has_aux=True))(params)
    alone, y = state.split(Normed(nnx.Rngs(0)))[0], x
    for layer in range(3):
        block = state.merge(alone, jax.tree.map(lambda leaf, layer=layer: leaf[layer], params["blocks"]["*"]))
        y, _ = block(y, None, None, None, capture=(), train=True)
        for name, value in state.statistics(block)["norm"].items():
            assert not np.allclose(value, params["blocks"]["*"]["norm"][name][layer])
            np.testing.assert_allclose(found["blocks"]["*"]["norm"][name][layer], value, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(gradients["blocks"]["*"]["norm"]["mean"], 0)
    stack = state.merge(graph, params)
    stack(x, train=False)
    np.testing.assert_array_equal(state.statistics(stack)["blocks"]["*"]["norm"]["mean"], np.zeros((3, 8)))
