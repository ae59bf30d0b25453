"""The language models: sizes, first loss, padding and packing, decoding from a cache, sharding, refusals."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from vitzoo.errors import UserError
from vitzoo.models.bert import BERT, BERTConfig
from vitzoo.models.gpt import GPT, GPTConfig
from vitzoo.models.gpt import VARIANTS as GPT_VARIANTS
from vitzoo.models.t5 import T5, T5Config
from vitzoo.models.transformer import Transformer, TransformerConfig
from vitzoo.nn import paths, relative, stack, state
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.schema import build

SIZES = {"vocabulary_size": 30, "width": 16, "num_heads": 4, "mlp_dim": 24}
LLAMA = {
    "positions": "rotary",
    "num_kv_heads": 2,
    "norm": "rms_norm",
    "gated_mlp": True,
    "activation": "silu",
    "bias": False,
    "qk_norm": True,
    "tied_head": False,
}
V1_1 = {"activation": "gelu_tanh", "gated_mlp": True, "tied_head": False}
T5_DEPTHS = {"encoder_depth": 2, "decoder_depth": 2, "head_dim": 6, "buckets": 8, "max_distance": 7}
FAMILIES = {
    "gpt": (GPT, GPTConfig(depth=2, context_length=12, **SIZES)),
    "gpt1": (GPT, GPTConfig(depth=2, context_length=12, pre_norm=False, **SIZES)),
    "llama": (GPT, GPTConfig(depth=2, context_length=12, **SIZES, **LLAMA)),
    "t5": (T5, T5Config(**SIZES, **T5_DEPTHS)),
    "t5_v1_1": (T5, T5Config(**SIZES, **T5_DEPTHS, **V1_1)),
    "bert": (BERT, BERTConfig(depth=2, context_length=12, dropout=0.0, attention_dropout=0.0, **SIZES)),
    "transformer": (Transformer, TransformerConfig(depth=2, dropout=0.0, **SIZES)),
}


def abstract(model, config, execution=DEFAULT):
    return state.abstract(lambda rngs: model(config, rngs=rngs, execution=execution))


def count(model, config):
    return sum(math.prod(leaf.shape) for leaf in paths.flatten(abstract(model, config)[1]).values())


def compiled(function):
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


class Tiny:
    """A family's tiny model with random parameters that all count."""

    def __init__(self, family, execution=DEFAULT, **changes):
        self.model, config = FAMILIES[family]
        self.config = dataclasses.replace(config, **changes)
        self.graph, shapes = abstract(self.model, self.config, execution)
        rng = np.random.default_rng(0)
        flat = paths.flatten(shapes)
        draw = {name: 0.3 * rng.normal(size=leaf.shape) + name.endswith("scale") for name, leaf in flat.items()}
        self.params = paths.unflatten({name: value.astype(np.float32) for name, value in draw.items()})

    def merged(self, params):
        return state.merge(self.graph, params)

    @property
    def reads_source(self):
        return self.model in (T5, Transformer)


# sizes

GPT_SIZES = {
    "gpt1": 116_534_784,  # transformers' openai-gpt without its buffers
    "gpt2-124M": 124_439_808,
    "gpt2-355M": 354_823_168,
    "gpt2-774M": 774_030_080,
    "gpt2-1558M": 1_557_611_200,
}
BERT_SIZES = {  # with the pooler, without heads; https://github.com/google-research/bert
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}
V1_1_SIZES = {
    "small": 76_961_152,
    "base": 247_577_856,
    "large": 783_150_080,
    "xl": 2_849_757_184,
    "xxl": 11_135_332_352,
}
T5_SIZES = {  # transformers 5.24 on the meta device: scripts/make_text_goldens.py --count
    "small": 60_506_624,
    "base": 222_903_552,
    "large": 737_668_096,
    "3B": 2_851_598_336,
    "11B": 11_307_321_344,
    **{f"v1.1-{size}": number for size, number in V1_1_SIZES.items()},
    **{f"flan-{size}": number for size, number in V1_1_SIZES.items()},
    "byt5-small": 299_637_760,
    "byt5-base": 581_653_248,
    "byt5-large": 1_228_183_552,
    "byt5-xl": 3_737_801_728,
    "byt5-xxl": 12_906_899_328,
    "mt5-small": 300_176_768,
    "mt5-base": 582_401_280,
    "mt5-large": 1_229_581_312,
    "mt5-xl": 3_742_619_648,
    "mt5-xxl": 12_921_057_280,
}


@pytest.mark.parametrize("variant", GPT_SIZES)
def test_gpts_have_the_published_number_of_parameters(variant):
    assert count(GPT, GPTConfig.from_variant(variant)) == GPT_SIZES[variant]


@pytest.mark.parametrize("variant", [name for name in GPT.PUBLISHED if name.startswith("gpt3")])
def test_a_gpt3_has_what_its_table_of_sizes_implies(variant):
    """Table 2.1 of the paper: a block has 12 d² + 13 d, and there are tables of ids and places and a last norm."""
    c = GPTConfig.from_variant(variant)
    per_block = 12 * c.width**2 + 13 * c.width
    assert count(GPT, c) == c.depth * per_block + (50_257 + 2048 + 2) * c.width
    stated = float(variant.removeprefix("gpt3-")[:-1]) * (1e9 if variant.endswith("B") else 1e6)
    assert count(GPT, c) == pytest.approx(stated, rel=0.025)


def test_a_gpt2_goes_by_the_name_it_was_published_under_too():
    names = {"117M": "124M", "345M": "355M", "762M": "774M", "1542M": "1558M"}
    for name, size in names.items():
        assert GPTConfig.from_variant(f"gpt2-{name}") == GPTConfig.from_variant(f"gpt2-{size}")


@pytest.mark.parametrize("variant", BERT_SIZES)
def test_berts_have_the_published_number_of_parameters(variant):
    assert count(BERT, BERTConfig.from_variant(variant, head="none")) == BERT_SIZES[variant]


@pytest.mark.slow
@pytest.mark.parametrize("variant", T5_SIZES)
def test_t5s_have_the_published_number_of_parameters(variant):
    assert count(T5, T5Config.from_variant(variant)) == T5_SIZES[variant]


def test_every_published_variant_is_counted_here():
    assert set(T5_SIZES) == set(T5.PUBLISHED)
    assert set(BERT_SIZES) == set(BERT.PUBLISHED)
    rest = {"gopher-44m", "gpt-mini", "gpt-micro", "gpt-nano"}  # minGPT's, whose vocabulary is the tokenizer's
    assert set(GPT.PUBLISHED) == {*GPT_SIZES, *(name for name in GPT_VARIANTS if name.startswith("gpt3")), *rest}


@pytest.mark.parametrize(("variant", "number", "printed"), [("base", 63_082_496, 65e6), ("big", 214_245_376, 213e6)])
def test_the_transformer_of_2017_has_what_its_layers_imply(variant, number, printed):
    """Vocabulary 37,000; attention 4 d² + 4 d, MLP 2 d f + f + d, norms 2 d. Table 3 prints 65 and 213 million."""
    c = TransformerConfig.from_variant(variant, vocabulary_size=37_000)
    d, f = c.width, c.mlp_dim
    attention, mlp, norm = 4 * d * d + 4 * d, 2 * d * f + f + d, 2 * d
    expected = 6 * (attention + mlp + 2 * norm) + 6 * (2 * attention + mlp + 3 * norm) + 37_000 * d
    assert count(Transformer, c) == number == expected
    assert number == pytest.approx(printed, rel=0.03)


# the first loss


@pytest.mark.gate
@pytest.mark.parametrize(
    ("model", "config", "above"),
    [
        # logits of a GPT or BERT begin near 0: 0.02 sqrt(width) of deviation, and half its square joins the loss
        (GPT, GPTConfig(vocabulary_size=50_257, width=32, depth=2, num_heads=2, mlp_dim=64), (0.0, 0.05)),
        pytest.param(
            *(BERT, BERTConfig(vocabulary_size=30_522, width=32, depth=2, num_heads=2, mlp_dim=64), (0.0, 0.05)),
            marks=pytest.mark.slow,
        ),
        # those of the others begin with deviation 1, which adds a half
        pytest.param(
            *(T5, T5Config(vocabulary_size=32_128, width=32, num_heads=2, mlp_dim=64), (0.3, 0.7)),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(T5, T5Config(vocabulary_size=32_128, width=32, num_heads=2, mlp_dim=64, **V1_1), (0.3, 0.7)),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Transformer,
            TransformerConfig(vocabulary_size=37_000, width=32, depth=2, num_heads=2, mlp_dim=64),
            (0.3, 0.7),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["gpt2", "bert", "t5", "t5 v1.1", "transformer"],
)
def test_the_first_loss_is_near_the_logarithm_of_the_vocabulary(model, config, above):
    tokens, targets = np.random.default_rng(0).integers(config.vocabulary_size, size=(2, 4, 32))
    inputs = (tokens,) if model in (GPT, BERT) else (tokens, tokens)

    def loss(key):
        logits = model(config, rngs=nnx.Rngs(key))(*inputs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    more = float(compiled(loss)(jax.random.key(0))) - math.log(config.vocabulary_size)
    low, high = above
    assert low - 0.05 < more < high


# a text alone, padded, packed


LENGTH = 12


def _padded(*rows):
    """Each row's texts behind each other as segments 1, 2 ..., padded to LENGTH: tokens, segments, positions."""
    tokens, segments, positions = np.zeros((3, len(rows), LENGTH), np.int32)
    for row, texts in enumerate(rows):
        end = 0
        for segment, text in enumerate(texts, 1):
            at = slice(end, end := end + len(text))
            tokens[row, at], segments[row, at], positions[row, at] = text, segment, np.arange(len(text))
    return {"tokens": tokens, "tokens_segments": segments, "tokens_positions": positions}


@pytest.mark.gate
@pytest.mark.parametrize(
    "family",
    [
        "gpt",
        pytest.param("llama", marks=pytest.mark.slow),
        pytest.param("t5", marks=pytest.mark.slow),
        pytest.param("bert", marks=pytest.mark.slow),
        pytest.param("transformer", marks=pytest.mark.slow),
    ],
)
def test_a_text_alone_equals_it_padded_and_packed_in_logits_and_gradients(family):
    tiny = Tiny(family, Execution(custom_gradient=False))
    rng = np.random.default_rng(1)
    wanted = rng.normal(size=(2, 4, 30)).astype(np.float32)
    first, other, second = targets = [rng.integers(1, 30, size=n) for n in (4, 2, 4)]
    sources = [rng.integers(1, 30, size=n) for n in (5, 2, 5)]
    alone = {"tokens": np.stack([first, second])}
    padded, packed = _padded([first], [second]), _padded([first, other, second], [])
    if tiny.reads_source:
        alone |= {"source": np.stack([sources[0], sources[2]])}
        padded |= {f"source_{name}": value for name, value in _padded(sources[:1], sources[2:]).items()}
        packed |= {f"source_{name}": value for name, value in _padded(sources, []).items()}
    # where the two texts' logits are: row, first column
    batches = {"alone": (alone, [(0, 0), (1, 0)]), "padded": (padded, [(0, 0), (1, 0)])}
    batches |= {"packed": (packed, [(0, 0), (0, sum(map(len, targets[:2])))])}

    @compiled
    def run(params, inputs, places):
        def loss(params):
            logits = tiny.merged(params)(**inputs)[places[:, :1], places[:, 1:] + jnp.arange(4)]
            return (logits * wanted).sum(), logits

        (_, logits), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        return logits, paths.flatten(gradients)

    logits, gradients = run(tiny.params, alone, np.array(batches.pop("alone")[1]))
    for name, (inputs, places) in batches.items():
        others, other_gradients = run(tiny.params, inputs, np.array(places))
        np.testing.assert_allclose(others, logits, atol=1e-5, err_msg=name)
        for path, gradient in gradients.items():
            limit = 1e-5 * max(1, abs(gradient).max())
            np.testing.assert_allclose(other_gradients[path], gradient, atol=limit, err_msg=f"{name}: {path}")


def test_rows_of_padding_alone_are_finite():
    tiny = Tiny("t5")
    zeros = np.zeros((2, 4), np.int32)
    run = compiled(lambda params: tiny.merged(params)(zeros, zeros, tokens_segments=zeros, source_segments=zeros))
    assert np.isfinite(run(tiny.params)).all()


# decoding


@pytest.mark.gate
@pytest.mark.parametrize(
    "family",
    [
        "t5",
        *(pytest.param(family, marks=pytest.mark.slow) for family in ("gpt", "llama", "transformer")),
    ],
)
def test_decoding_from_a_cache_gives_the_logits_of_the_whole_text_for_rows_of_different_lengths(family):
    tiny = Tiny(family)
    rng = np.random.default_rng(2)
    tokens, lengths = rng.integers(1, 30, size=(2, 8)).astype(np.int32), np.array([5, 3])
    sources = {
        "source": rng.integers(1, 30, size=(2, 5)),
        "source_segments": np.array([[1] * 5, [1] * 3 + [0] * 2]),
    }
    inputs = sources if tiny.reads_source else {}
    masks = {"source_segments": sources["source_segments"]} if tiny.reads_source else {}

    @compiled
    def whole(params):
        return tiny.merged(params)(tokens=tokens, **inputs)

    @compiled
    def begin(params):
        model = tiny.merged(params)
        return model.begin(model.encode(*inputs.values()), 10) if tiny.reads_source else model.begin(2, 10)

    @compiled
    def extend(params, tokens, positions, cache):
        return tiny.merged(params).extend(tokens, positions, cache, **masks)

    right = whole(tiny.params)
    logits, cache = extend(tiny.params, tokens[:, :5], np.arange(5)[None].repeat(2, 0), begin(tiny.params))
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(logits[row, :length], right[row, :length], atol=1e-5)
    for step in range(3):
        at = lengths + step
        logits, cache = extend(tiny.params, tokens[[0, 1], at][:, None], at[:, None], cache)
        np.testing.assert_allclose(logits[:, 0], right[[0, 1], at], atol=1e-5)


def test_a_cache_longer_than_the_table_of_positions_is_refused():
    tiny = Tiny("gpt")
    with pytest.raises(UserError, match="length = 13: is more than context_length = 12"):
        jax.eval_shape(lambda params: tiny.merged(params).begin(1, 13), tiny.params)


# the vocabulary


@pytest.mark.parametrize("tied", [True, False])
def test_ids_that_round_the_vocabulary_up_have_rows_but_no_logits_and_no_gradient(tied):
    tiny = Tiny("gpt", vocabulary_multiple=32, tied_head=tied)
    assert tiny.params["embedding"]["table"].shape == (32, 16)
    tokens = np.arange(6, dtype=np.int32)[None]
    run = compiled(lambda params: tiny.merged(params)(tokens))
    logits = run(tiny.params)
    assert logits.shape == (1, 6, 30)
    tiny.params["embedding"]["table"][30:] = 1e6
    if not tied:
        tiny.params["head"]["kernel"][:, 30:] = 1e6
    np.testing.assert_array_equal(run(tiny.params), logits)


# sharding

CHOICES = [
    *((model, config) for model, config in FAMILIES.values()),
    *((BERT, BERTConfig(depth=1, head=head, num_classes=3, **SIZES)) for head in ("classes", "token_classes", "none")),
    (Transformer, TransformerConfig(depth=1, tied_head=False, pre_norm=True, **SIZES)),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice[0].__name__}")
def test_every_leaf_has_one_sharding_rule_of_its_rank(choice):
    model, config = choice
    _, shapes = abstract(model, config)
    rules = model.SHARDING_RULES
    axes = paths.match_rules(rules, shapes, "SHARDING_RULES", every_leaf=True, every_rule=False)
    for path, leaf in paths.flatten(shapes).items():
        assert len(axes[path]) == len(paths.layer_shape(path, leaf)), path
        matching = [
            rule for rule in rules if paths.match_rules([rule], paths.unflatten({path: leaf}), "", every_rule=False)
        ]
        assert len(matching) == 1, path


def test_no_sharding_rule_is_left_over_but_those_of_pictures():
    # each family leaves some of the shared parts' rules unused (T5 has no biases), all together none
    trees = [abstract(*choice)[1] for choice in CHOICES]
    merged = {path: leaf for tree in trees for path, leaf in paths.flatten(tree).items()}
    stated = dict.fromkeys(rule for model in (GPT, T5, BERT, Transformer) for rule in model.SHARDING_RULES)
    rules = [rule for rule in stated if rule not in (*relative.RULES, *stack.RULES)]
    matched = {rule for rule in rules for path in merged if re.fullmatch(rule[0], path)}
    assert matched == set(rules)


# what is seen on the way


def test_features_of_an_encoder_decoder_name_everything_seen_on_the_way():
    tiny = Tiny("t5")
    source, tokens = np.ones((2, 5), np.int32), np.ones((2, 3), np.int32)
    seen = jax.eval_shape(lambda params: tiny.merged(params).features(source, tokens, attention=True), tiny.params)
    one, other = (2, 5, 16), (2, 3, 16)
    assert {name: value.shape for name, value in seen.items()} == {
        "encoder_embedded": one,
        "encoder_block_0": one,
        "encoder_block_1": one,
        "encoder_tokens": one,
        "embedded": other,
        "block_0": other,
        "block_1": other,
        "tokens": other,
        "logits": (2, 3, 30),
        "encoder_attention": (2, 2, 4, 5, 5),
        "attention": (2, 2, 4, 3, 3),
        "cross_attention": (2, 2, 4, 3, 5),
    }


# refusals


@pytest.mark.parametrize(
    ("config", "variant", "near"),
    [(GPTConfig, "gpt2-124", "gpt2-124M"), (T5Config, "v1.1-smal", "v1.1-small"), (BERTConfig, "bas", "base")],
)
def test_an_unknown_variant_names_the_nearest(config, variant, near):
    with pytest.raises(UserError, match=f"variant = {variant}: no such variant; did you mean {near}?"):
        config.from_variant(variant)


def test_a_variant_that_is_near_none_lists_them():
    with pytest.raises(UserError, match="known: base, big"):
        TransformerConfig.from_variant("enormous")


@pytest.mark.parametrize("config", [GPTConfig, BERTConfig, TransformerConfig])
def test_heads_must_divide_the_width(config):
    with pytest.raises(UserError, match=r"num_heads = 6: does not divide width 16 \(nearest: 4, 8\)"):
        config(**{**SIZES, "num_heads": 6}).check()


def test_heads_of_keys_must_divide_those_of_queries():
    with pytest.raises(UserError, match=r"num_kv_heads = 3: does not divide num_heads 4 \(nearest: 2, 4\)"):
        GPTConfig(**SIZES, num_kv_heads=3).check()


def test_rotary_positions_need_heads_of_even_size():
    with pytest.raises(UserError, match="num_heads = 16: gives heads of 1; rotary positions need even ones"):
        GPTConfig(**{**SIZES, "num_heads": 16}, positions="rotary").check()


@pytest.mark.parametrize("family", ["gpt", "llama", "bert"])
def test_a_text_longer_than_the_context_is_refused(family):
    tiny = Tiny(family)
    with pytest.raises(UserError, match=r"tokens = 13: tokens, and the model takes 12 \(context_length\)"):
        jax.eval_shape(lambda params: tiny.merged(params)(np.zeros((1, 13), np.int32)), tiny.params)


@pytest.mark.parametrize("family", ["gpt", "t5", "bert", "transformer"])
def test_training_with_dropout_needs_a_key(family):
    tiny = Tiny(family, dropout=0.1)
    ids = np.zeros((1, 3), np.int32)
    inputs = (ids, ids) if tiny.reads_source else (ids,)
    with pytest.raises(UserError, match="key: training with dropout needs one"):
        jax.eval_shape(lambda params: tiny.merged(params)(*inputs, train=True), tiny.params)


def test_ids_that_are_no_whole_numbers_are_refused():
    tiny = Tiny("gpt")
    with pytest.raises(UserError, match=r"tokens = float32\[1, 3\]: must be whole numbers \[batch, tokens\]"):
        jax.eval_shape(lambda params: tiny.merged(params)(np.zeros((1, 3), np.float32)), tiny.params)


@pytest.mark.parametrize("config", [GPTConfig, T5Config, BERTConfig, TransformerConfig])
def test_a_negative_rate_of_dropout_is_refused(config):
    with pytest.raises(UserError, match="dropout"):
        build(config, {"vocabulary_size": 30, "dropout": -0.1})


def test_a_model_without_a_vocabulary_is_refused():
    with pytest.raises(UserError, match="vocabulary_size: must be set where no tokenizer says it"):
        abstract(T5, T5Config())


def test_buckets_that_hold_one_distance_each_end_before_the_largest_distance():
    with pytest.raises(UserError, match="max_distance = 16: must be more than half of the 32 buckets"):
        T5Config(max_distance=16).check()


def test_a_t5_in_float16_is_refused_as_its_sums_overflow():
    """https://github.com/huggingface/transformers/issues/4586: the sums reach 66,246, float16 ends at 65,504."""
    with pytest.raises(
        UserError, match="dtype = float16: the sums of a T5 exceed its largest number, 65,504; take bfl"
    ):
        abstract(*FAMILIES["t5"], Execution(dtype="float16"))


# bfloat16


def _train(family, steps):
    """The losses of some steps of AdamW in bfloat16, with dropout, on one batch."""
    tiny = Tiny(family, Execution(dtype="bfloat16"), dropout=0.1)
    params = state.initialise(lambda rngs: tiny.model(tiny.config, rngs=rngs), 0)
    ids = np.random.default_rng(0).integers(1, 30, size=(4, 8))
    inputs = (ids, ids) if tiny.reads_source else (ids,)
    optimizer = optax.adamw(1e-2)

    def loss(params, key):
        logits = state.merge(tiny.graph, params)(*inputs, train=True, key=key)
        assert logits.dtype == jnp.float32
        return optax.softmax_cross_entropy_with_integer_labels(logits, np.roll(ids, -1, 1)).mean()

    @compiled
    def step(params, moments, index):
        value, gradients = jax.value_and_grad(loss)(params, jax.random.fold_in(jax.random.key(0), index))
        updates, moments = optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), moments, value

    moments, losses = optimizer.init(params), []
    for index in range(steps):
        params, moments, value = step(params, moments, index)
        losses.append(float(value))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt", "t5"])
def test_training_in_bfloat16_stays_finite_and_lowers_the_loss(family):
    losses = _train(family, 10)
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt", "gpt1", "llama", "t5", "t5_v1_1", "bert", "transformer"])
def test_200_steps_in_bfloat16_learn_the_batch(family):
    losses = _train(family, 200)
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.5 * losses[0]
