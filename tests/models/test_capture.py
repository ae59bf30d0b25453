"""`capture`: what a call hands out of a model's inside, for every family, from one forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from test_text_models import FAMILIES, Tiny, compiled

from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.execution import Execution
from vitzoo.parallel.sharding import activations, batch_sharding, param_shardings

BATCH, SOURCE, TOKENS = 2, 5, 4
SEGMENTS = np.array([[1, 1, 2, 0], [1, 1, 1, 1]], np.int32)
SOURCE_SEGMENTS = np.array([[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]], np.int32)
CASES = ["vit", *(name for name in FAMILIES if name not in ("gpt1", "t5_v1_1"))]
GATED = [
    pytest.param("t5", marks=pytest.mark.gate),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "transformer")),
]


class Case:
    """A family's tiny model and what it is called with."""

    def __init__(self, family, tiny, execution):
        self.family = family
        if family == "vit":
            self.model = tiny(execution, pooling="map", registers=1)
        else:  # a GPT with fewer heads of keys than of queries
            self.model = Tiny(family, execution, **({"num_kv_heads": 2} if family == "gpt" else {}))
        draw = np.random.default_rng(0)
        if family == "vit":
            self.inputs, self.places = (self.model.images,), {}
            return
        tokens = draw.integers(1, 30, (BATCH, TOKENS)).astype(np.int32)
        self.inputs, self.places = (tokens,), {"tokens_segments": SEGMENTS}
        if self.model.reads_source:
            self.inputs = (draw.integers(1, 30, (BATCH, SOURCE)).astype(np.int32), tokens)
            self.places["source_segments"] = SOURCE_SEGMENTS

    def merged(self, params=None):
        return state.merge(self.model.graph, self.model.params if params is None else params)

    def call(self, **options):
        return lambda params: self.merged(params)(*self.inputs, **self.places, **options)

    def run(self, **options):
        return compiled(self.call(**options))(self.model.params)

    def layer(self, path, index):
        """The parameters of one block of a stack."""
        blocks = self.model.params[path]["blocks"]["*"]
        return jax.tree.map(lambda leaf: leaf[index], blocks)


@pytest.fixture(scope="module")
def case(tiny):
    made = {}

    def of(family, scan=True):
        if (family, scan) not in made:
            made[family, scan] = Case(family, tiny, Execution(scan=scan))
        return made[family, scan]

    return of


@pytest.fixture(scope="module")
def seen(case):
    """Outputs and everything that a model knows to capture."""
    made = {}

    def of(family, scan=True):
        if (family, scan) not in made:
            one = case(family, scan)
            made[family, scan] = one.run(capture=frozenset(one.merged().captures))
        return made[family, scan]

    return of


@pytest.mark.parametrize(
    "family", ["gpt", *(pytest.param(one, marks=pytest.mark.gate) for one in ("vit", "bert")), *GATED]
)
def test_outputs_are_the_same_with_capture_and_what_is_asked_for_comes(family, case, seen):
    outputs, captured = seen(family)
    np.testing.assert_allclose(case(family).run(), outputs, atol=1e-6)
    assert set(captured) == set(case(family).merged().captures)
    np.testing.assert_array_equal(captured["logits"], outputs)
    one = jax.eval_shape(case(family).call(capture={"attention"}), case(family).model.params)
    assert set(one[1]) == {"attention"}


VISIBLE = {  # by the padding, the texts packed into a row, and the order of a decoder
    "encoder_attention": (SOURCE_SEGMENTS, SOURCE_SEGMENTS, False),
    "cross_attention": (SEGMENTS, SOURCE_SEGMENTS, False),
}


def visible(family, name):
    """Who may look at whom, bool [batch, queries, keys]."""
    causal = family in ("gpt", "llama", "t5", "transformer")
    queries, keys, causal = VISIBLE.get(name, (SEGMENTS, SEGMENTS, causal))
    same = queries[:, :, None] == keys[:, None, :]
    return same & np.tri(*same.shape[1:], dtype=bool) if causal else same


@pytest.mark.parametrize("family", ["vit", "gpt", "bert", *GATED])
def test_weights_sum_to_one_over_what_may_be_seen_and_are_0_elsewhere(family, seen):
    captured = {name: value for name, value in seen(family)[1].items() if name.endswith("attention")}
    assert len(captured) == {"vit": 2, "t5": 3, "transformer": 3}.get(family, 1)
    for name, weights in captured.items():
        assert weights.dtype == jnp.float32
        if family == "vit":
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
            continue
        may = np.broadcast_to(visible(family, name)[:, None], weights.shape)
        assert not may.all()
        assert (np.asarray(weights)[~may] == 0).all(), name
        np.testing.assert_allclose(weights.sum(-1), may.any(-1), atol=1e-6)  # padding may look at no source at all


def normed(x, norm, epsilon):
    x = x - x.mean(-1, keepdims=True) if "bias" in norm else x
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * norm["scale"] + norm.get("bias", 0)


def attended(x, context, part, may, scale=None, bias=0.0):
    """Softmax over what may be seen, [batch, heads, queries, keys], and what attention makes of it."""

    def heads(of, name):
        found = np.einsum("btw,whd->bthd", of, part[name]["kernel"]) + part[name].get("bias", 0)
        return np.repeat(found, part["query"]["kernel"].shape[1] // found.shape[2], axis=2)

    query, key, value = heads(x, "query"), heads(context, "key"), heads(context, "value")
    logits = np.einsum("bqhd,bkhd->bhqk", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale) + bias
    chances = np.exp(logits - logits.max(-1, keepdims=True)) * may[:, None]
    chances = chances / np.maximum(chances.sum(-1, keepdims=True), 1e-30)
    mixed = np.einsum("bhqk,bkhd->bqhd", chances, value)
    return chances, np.einsum("bqhd,hdw->bqw", mixed, part["out"]["kernel"]) + part["out"].get("bias", 0)


@pytest.mark.parametrize("family", ["vit", "gpt", "bert", pytest.param("t5", marks=pytest.mark.gate)])
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_are_the_softmax_computed_by_hand(family, layer, case, seen):
    one, captured = case(family), seen(family)[1]
    config, block = one.model.config, one.layer("encoder" if family in ("vit", "bert") else "decoder", layer)
    x = np.asarray(captured["blocks"][layer - 1] if layer else captured["embedded"])
    y = x if family == "bert" else normed(x, block["norm1"], config.norm_epsilon)
    may = np.ones((len(x), x.shape[1], x.shape[1]), bool) if family == "vit" else visible(family, "attention")
    how = {}
    if family == "t5":
        rows = jnp.arange(TOKENS)[None]
        how = {"scale": 1.0, "bias": np.asarray(one.merged().decoder_distance_bias(rows, rows))}
    right, _ = attended(y, y, block["attention"], may, **how)
    assert right.shape == (len(x), config.num_heads, x.shape[1], x.shape[1])
    np.testing.assert_allclose(captured["attention"][layer], right, atol=1e-5)


def test_weights_of_cross_attention_are_the_softmax_computed_by_hand(case, seen):
    block, captured = case("transformer").layer("decoder", 1), seen("transformer")[1]
    x = np.asarray(captured["blocks"][0])
    _, y = attended(x, x, block["attention"], visible("transformer", "attention"))
    x = normed(x + y, block["norm1"], 1e-6)
    may = visible("transformer", "cross_attention")
    right, _ = attended(x, np.asarray(captured["encoder_tokens"]), block["cross_attention"], may)
    np.testing.assert_allclose(captured["cross_attention"][1], right, atol=1e-5)


@pytest.mark.parametrize("family", ["vit", *GATED])
def test_scanned_and_unrolled_blocks_give_the_same(family, seen):
    one, other = seen(family), seen(family, scan=False)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one, other)


@pytest.mark.parametrize("family", CASES)
def test_without_capture_no_layer_hands_anything_out(family, case):
    def handed(**options):
        """What the loops over the blocks give besides the tokens that they carry."""
        jaxpr = jax.make_jaxpr(case(family).call(**options))(case(family).model.params)
        loops = [one for one in jaxpr.eqns if one.primitive.name == "scan"]
        assert len(loops) == (2 if family in ("t5", "transformer") else 1)
        return sum(len(loop.outvars) - loop.params["num_carry"] for loop in loops)

    assert handed() == 0
    assert handed(capture={"attention"}) == 1
    assert handed(capture={"attention", "blocks"}) == 2
    assert handed(capture={"tokens"}) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [one if one in ("vit", "t5") else pytest.param(one, marks=pytest.mark.slow) for one in CASES]
)
def test_one_and_eight_devices_capture_the_same(family, case):
    one = case(family)
    inputs, names = [np.resize(x, (8, *x.shape[1:])) for x in one.inputs], frozenset(one.merged().captures)
    places = {name: np.resize(x, (8, *x.shape[1:])) for name, x in one.places.items()}

    def captured(shape):
        axes = {"axis_types": (AxisType.Auto,) * 3, "devices": jax.devices()[: int(np.prod(shape))]}
        mesh = jax.make_mesh(shape, ("data", "fsdp", "tensor"), **axes)
        rows = jax.device_put((inputs, places), batch_sharding(mesh))
        rules = type(one.merged()).SHARDING_RULES
        params = jax.device_put(one.model.params, param_shardings(one.model.params, rules, mesh))

        def call(params, inputs, places):
            with activations(mesh):
                return one.merged(params)(*inputs, **places, capture=names)

        return jax.device_get(compiled(call)(params, *rows))

    alone, spread = captured((1, 1, 1)), captured((2, 2, 2))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), alone, spread)


@pytest.mark.parametrize("family", CASES)
def test_an_unknown_name_is_refused_with_those_that_are_known(family, case):
    with pytest.raises(UserError, match=r"capture = attentions: no such name; known: .*blocks, attention.*tokens"):
        case(family).call(capture={"attentions"})(case(family).model.params)
    with pytest.raises(UserError, match=r'capture = attention: must be a set of names, \{"attention"\}'):
        case(family).call(capture="attention")(case(family).model.params)


def test_a_name_of_another_family_is_refused(case):
    with pytest.raises(UserError, match="capture = cross_attention: no such name; known: embedded, blocks, attention,"):
        case("gpt").call(capture={"cross_attention"})(case("gpt").model.params)
