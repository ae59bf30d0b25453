import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vitzoo.nn.paths import flatten, is_stacked, unflatten
from vitzoo.optim.build import build, clip
from vitzoo.optim.optimizers import LAMB, SGD, Adafactor, AdamW, Lion, T5Adafactor
from vitzoo.optim.schedules import Cosine
from vitzoo.schema import build as settings_of

OPTIMIZERS = [
    AdamW(weight_decay=0.1, grad_clip=0.5),
    SGD(momentum=0.9, nesterov=True, weight_decay=0.1),
    Adafactor(min_factored_size=4, update_clip=0.5, weight_decay=0.1, grad_clip=1.0),
    LAMB(weight_decay=0.1, grad_clip=0.5, grad_clip_scope="per_tensor"),
    Lion(weight_decay=0.1),
    Adafactor(min_factored_size=4, beta1=0.0),
    SGD(momentum=0.0),
]


def constant(rate):
    return lambda step: jnp.float32(rate)


def random_like(tree, seed, scale=1.0):
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda x: scale * generator.normal(size=x.shape).astype(np.float32), tree)


def parameters(depth=3):
    shapes = {
        "class_token": (1, 1, 8),
        "encoder/blocks/*/attention/query/kernel": (depth, 8, 2, 4),
        "encoder/blocks/*/mlp/up/bias": (depth, 16),
        "encoder/blocks/*/mlp/up/kernel": (depth, 8, 16),
        "head/bias": (5,),
        "head/kernel": (8, 5),
    }
    return random_like(unflatten({path: np.zeros(shape) for path, shape in shapes.items()}), seed=0)


def run(optimizer, params, gradients, schedule):
    """The parameters that train and the optimizer's state, after one update for each of `gradients`."""
    tx = build(optimizer, schedule, params)

    def train(params, gradients):
        trained, _ = tx.partition(params)
        state = tx.init(trained)
        for step, gradient in enumerate(gradients):
            changes, state = tx.update(tx.partition(gradient)[0], state, trained, step=step)
            trained = optax.apply_updates(trained, changes)
        return trained, state

    return jax.device_get(jax.jit(train)(params, gradients))


def run_optax(reference, params, gradients):
    def train(params, gradients):
        state = reference.init(params)
        for gradient in gradients:
            changes, state = reference.update(gradient, state, params)
            params = optax.apply_updates(params, changes)
        return params

    return jax.device_get(jax.jit(train)(params, gradients))


def test_sgd_follows_the_schedule_one_two_three():
    params = {"w": jnp.zeros(2)}
    seen = []
    tx = build(SGD(momentum=0.0), lambda step: step + 1.0, params)
    state = tx.init(params)
    for step in range(3):
        changes, state = tx.update({"w": jnp.ones(2)}, state, params, step=step)
        params = optax.apply_updates(params, changes)
        seen.append(params["w"].tolist())
    assert seen == [[-1.0, -1.0], [-3.0, -3.0], [-6.0, -6.0]]
    assert int(state["updates"]) == 3


def test_adamw_is_the_published_algorithm_step_by_step():
    rate, decay, beta1, beta2, epsilon = 0.01, 0.1, 0.9, 0.99, 1e-8
    params = {"kernel": np.float64([0.5, -2.0, 3.0])}
    gradients = [{"kernel": np.float32(g)} for g in ([0.1, -0.2, 0.3], [0.4, 0.0, -0.1], [-1.0, 2.0, 0.01])]
    weights, mean, square = params["kernel"], 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):  # Loshchilov & Hutter 2019, algorithm 2, in float64
        g = np.float64(gradient["kernel"])
        mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g**2
        step = (mean / (1 - beta1**t)) / (np.sqrt(square / (1 - beta2**t)) + epsilon)
        weights = weights - rate * (step + decay * weights)
    optimizer = AdamW(weight_decay=decay, beta1=beta1, beta2=beta2, epsilon=epsilon)
    ours, _ = run(optimizer, {"kernel": np.float32(params["kernel"])}, gradients, constant(rate))
    np.testing.assert_allclose(ours["kernel"], weights, rtol=1e-6)


def test_adamw_is_optax_adamw():
    params = parameters()
    gradients = [random_like(params, seed) for seed in range(1, 4)]
    schedule = Cosine(warmup_steps=1).make(3, 1, 3, 3e-3)
    expected = run_optax(optax.adamw(schedule, 0.9, 0.95, 1e-6, weight_decay=0.1), params, gradients)
    optimizer = AdamW(weight_decay=0.1, weight_decay_rules=((".*", 1.0),), beta2=0.95, epsilon=1e-6)
    ours, _ = run(optimizer, params, gradients, schedule)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), ours, expected)


def test_lamb_is_the_published_algorithm_step_by_step():
    rate, decay, beta1, beta2, epsilon = 0.01, 0.1, 0.9, 0.99, 1e-6
    start = {"kernel": np.float64([0.5, -2.0, 3.0]), "bias": np.float64([1.0, 2.0])}
    gradients = [
        {"kernel": np.float32(k), "bias": np.float32(b)}
        for k, b in (([0.1, -0.2, 0.3], [0.1, -0.3]), ([0.4, 0.0, -0.1], [0.2, 0.2]), ([-1.0, 2.0, 0.01], [-0.1, 0.5]))
    ]
    expected = {}
    for name, weights in start.items():
        mean, square = 0.0, 0.0
        for t, gradient in enumerate(gradients, 1):  # You et al. 2019, algorithm 2, in float64, with φ(z) = z
            g = np.float64(gradient[name])
            mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g**2
            step = (mean / (1 - beta1**t)) / (np.sqrt(square / (1 - beta2**t)) + epsilon)
            if name == "kernel":  # what doesn't decay isn't adapted: Touvron et al. 2022
                step = step + decay * weights
                step *= np.linalg.norm(weights) / np.linalg.norm(step)
            weights = weights - rate * step
        expected[name] = weights
    optimizer = LAMB(weight_decay=decay, beta1=beta1, beta2=beta2, epsilon=epsilon)
    ours, _ = run(optimizer, jax.tree.map(np.float32, start), gradients, constant(rate))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), ours, expected)


def test_lamb_moves_every_layer_by_the_rate_times_its_own_length_even_without_decay():
    params = parameters(depth=3)
    ours, _ = run(LAMB(freeze=(r".*/blocks/1/.*",)), params, [random_like(params, 1)], constant(0.1))
    path = "encoder/blocks/*/mlp/up/kernel"
    before, after = flatten(params)[path][np.array([0, 2])], flatten(ours)[path]
    lengths = np.sqrt((before**2).sum((1, 2)))
    np.testing.assert_allclose(np.sqrt(((after - before) ** 2).sum((1, 2))), 0.1 * lengths, rtol=1e-5)


def test_lamb_starts_from_a_kernel_of_zeros():
    # a norm of 0 would stop it for good
    ours, _ = run(LAMB(), {"kernel": np.zeros(2, np.float32)}, [{"kernel": np.float32([3.0, -0.5])}], constant(0.1))
    np.testing.assert_allclose(ours["kernel"], [-0.1, 0.1], rtol=1e-4)


def test_lion_is_the_published_algorithm_step_by_step():
    rate, decay, beta1, beta2 = 0.01, 1.0, 0.9, 0.99
    weights, moment = np.float64([0.5, -2.0, 3.0]), np.zeros(3)
    gradients = [np.float32(g) for g in ([0.1, -0.2, 0.3], [0.4, 0.1, -0.1], [-1.0, 2.0, -0.4])]
    start = weights
    for g in gradients:  # Chen et al. 2023, algorithm 2
        weights = weights - rate * (np.sign(beta1 * moment + (1 - beta1) * g) + decay * weights)
        moment = beta2 * moment + (1 - beta2) * g
    optimizer = Lion(weight_decay=decay, beta1=beta1, beta2=beta2)
    ours, _ = run(optimizer, {"kernel": np.float32(start)}, [{"kernel": g} for g in gradients], constant(rate))
    np.testing.assert_allclose(ours["kernel"], weights, rtol=1e-6)


def test_independent_decay_is_the_chain_of_big_vision():
    # clip, scale_by_adam, scale(lr), add_decayed_weights(wd), scale_by_schedule, scale(-1): wd doesn't see lr
    params = {"head": {"kernel": jnp.float32([[0.5, -2.0], [1.0, 3.0]])}}
    gradients = [random_like(params, seed) for seed in range(1, 4)]
    part_of_peak = Cosine(warmup_steps=1).make(3, 1, 3, 1.0)
    reference = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(),
        optax.scale(3e-3),
        optax.add_decayed_weights(1e-4),
        optax.scale_by_schedule(part_of_peak),
        optax.scale(-1.0),
    )
    expected = run_optax(reference, params, gradients)
    optimizer = AdamW(learning_rate=3e-3, weight_decay=1e-4, independent_weight_decay=True, grad_clip=1.0)
    ours, _ = run(optimizer, params, gradients, lambda step: 3e-3 * part_of_peak(step))
    np.testing.assert_allclose(ours["head"]["kernel"], expected["head"]["kernel"], rtol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_is_torch_sgd_with_momentum(nesterov):
    gradients = [np.float32(g) for g in (1.0, -2.0, 0.5)]
    weight, trace = 1.0, 0.0
    for g in gradients:  # torch.optim.SGD with dampening 0
        trace = 0.9 * trace + g
        weight -= 0.1 * (g + 0.9 * trace if nesterov else trace)
    optimizer = SGD(momentum=0.9, nesterov=nesterov)
    ours, _ = run(optimizer, {"w": jnp.ones(())}, [{"w": g} for g in gradients], constant(0.1))
    assert float(ours["w"]) == pytest.approx(weight, rel=1e-6)


@pytest.mark.gate
def test_adafactor_without_stacks_is_the_chain_of_big_vision():
    params = {path.replace("blocks", "layer"): leaf for path, leaf in flatten(parameters()).items()}
    params = unflatten(params)
    gradients = [random_like(params, seed) for seed in range(1, 4)]

    def decay(count, exponent):
        return jnp.minimum(0.999, 1 - jnp.float32(count + 1) ** -exponent)

    reference = optax.chain(
        optax.scale_by_factored_rms(min_dim_size_to_factor=4, decay_rate=0.8, decay_rate_fn=decay),
        optax.ema(0.9, debias=False),
        optax.scale(-0.1),
    )
    expected = run_optax(reference, params, gradients)
    ours, _ = run(Adafactor(min_factored_size=4, moment_dtype="float32"), params, gradients, constant(0.1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, expected)


def test_adafactor_without_factoring_or_momentum_takes_the_sign_of_a_first_gradient():
    # at step 1 the decay is 1 - 1^-0.8 = 0, so that g / sqrt(g^2) is the sign
    ours, _ = run(Adafactor(beta1=0.0), {"w": jnp.zeros(3)}, [{"w": np.float32([2.0, -0.1, 7.0])}], constant(0.5))
    np.testing.assert_allclose(ours["w"], [-0.5, 0.5, -0.5], rtol=1e-6)


def split_layers(tree, depth):
    """Every layer of a stack as a leaf of its own, below `layer_0`, `layer_1` ..."""
    flat = {}
    for path, leaf in flatten(tree).items():
        if is_stacked(path):
            flat |= {path.replace("blocks/*", f"layer_{i}"): leaf[i] for i in range(depth)}
        else:
            flat[path] = leaf
    return unflatten(flat)


@pytest.mark.gate
@pytest.mark.parametrize(
    "optimizer",
    [pytest.param(one, marks=[pytest.mark.slow] * isinstance(one, AdamW | Lion)) for one in OPTIMIZERS[:5]],
    ids=lambda o: type(o).__name__,
)
def test_a_step_on_stacked_layers_is_the_step_on_separate_ones(optimizer):
    depth, params = 3, parameters(depth=3)
    gradients = [random_like(params, seed) for seed in (1, 2)]
    stacked, _ = run(optimizer, params, gradients, constant(0.1))
    separate, _ = run(
        optimizer, split_layers(params, depth), [split_layers(g, depth) for g in gradients], constant(0.1)
    )
    assert len(flatten(separate)) == 3 + 3 * depth
    for path, leaf in flatten(split_layers(stacked, depth)).items():
        np.testing.assert_allclose(leaf, flatten(separate)[path], rtol=1e-6, atol=1e-7, err_msg=path)


def test_adafactor_factors_within_a_layer_never_over_the_stack():
    params = {"blocks": {"*": {"kernel": jnp.zeros((64, 32, 48)), "bias": jnp.zeros((64, 48))}}}
    tx = build(Adafactor(min_factored_size=32), constant(0.1), params)
    shapes = {path: leaf.shape for path, leaf in flatten(tx.init(params)).items()}
    assert shapes["method/layers_64/0/v_row/blocks/*/kernel"] == (64, 32)
    assert shapes["method/layers_64/0/v_col/blocks/*/kernel"] == (64, 48)
    assert shapes["method/layers_64/0/v/blocks/*/bias"] == (64, 48)


def test_weight_decay_reaches_kernels_and_nothing_else():
    params = parameters()
    zeros = jax.tree.map(np.zeros_like, params)
    ours, _ = run(AdamW(weight_decay=0.1), params, [zeros], constant(0.1))
    for path, leaf in flatten(ours).items():
        before = flatten(params)[path]
        if path.endswith("kernel"):
            np.testing.assert_allclose(leaf, 0.99 * before, rtol=1e-6, err_msg=path)  # 1 - 0.1 * 0.1
        else:
            assert (leaf == before).all(), path


@pytest.mark.parametrize("optimizer", [AdamW(), Adafactor(min_factored_size=4)], ids=lambda o: type(o).__name__)
def test_multipliers_act_on_the_update_of_each_layer(optimizer):
    params, depth = parameters(depth=3), 3
    gradient = random_like(params, 1)
    plain, _ = run(optimizer, params, [gradient], constant(0.1))
    changed = settings_of(
        type(optimizer), {**vars(optimizer), "layer_decay": 0.5, "learning_rate_rules": (("head/.*", 10.0),)}
    )
    ours, _ = run(changed, params, [gradient], constant(0.1))
    before, factor = flatten(params), {"head/kernel": 10.0, "class_token": 0.5**4}
    for path, expected in factor.items():
        change, whole = flatten(ours)[path] - before[path], flatten(plain)[path] - before[path]
        np.testing.assert_allclose(change, expected * whole, rtol=1e-3, atol=1e-7)
    path = "encoder/blocks/*/mlp/up/kernel"
    for layer in range(depth):
        change, whole = (flatten(tree)[path][layer] - before[path][layer] for tree in (ours, plain))
        np.testing.assert_allclose(change, 0.5 ** (depth - layer) * whole, rtol=1e-3, atol=1e-7)


def test_clipping_scales_to_the_global_norm_and_leaves_smaller_gradients_bitwise_alone():
    gradients = {"a": jnp.float32([3.0]), "b": jnp.float32([[4.0]])}
    clipped = clip(gradients, 1.0)
    assert float(clipped["a"][0]) == pytest.approx(0.6)
    assert float(clipped["b"][0, 0]) == pytest.approx(0.8)
    assert jax.tree.map(lambda a, b: bool((a == b).all()), clip(gradients, 5.0), gradients) == {"a": True, "b": True}


def test_clipping_per_tensor_scales_each_layer_to_its_own_norm():
    layers = {"kernel": jnp.float32([[[3.0, 4.0]], [[0.3, 0.4]]])}
    gradients = {"blocks": {"*": layers}, "bias": jnp.float32([0.0, 2.0])}
    clipped = clip(gradients, 1.0, "per_tensor")
    np.testing.assert_allclose(clipped["blocks"]["*"]["kernel"], [[[0.6, 0.8]], [[0.3, 0.4]]], rtol=1e-6)
    np.testing.assert_allclose(clipped["bias"], [0.0, 1.0])
    unclipped = clip(gradients, 5.0, "per_tensor")
    jax.tree.map(np.testing.assert_array_equal, unclipped, gradients)


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_zero_gradients_survive_clipping(largest):
    # optax 0.2.8's clip_by_global_norm(0) gives NaN here
    ours, _ = run(AdamW(grad_clip=largest), {"w": jnp.ones(3)}, [{"w": np.zeros(3, np.float32)}], constant(0.1))
    assert ours["w"].tolist() == [1.0, 1.0, 1.0]


def test_frozen_parameters_have_no_moments_and_do_not_count_in_the_norm():
    params = {"head": {"kernel": jnp.ones((2, 2))}, "encoder": {"kernel": jnp.ones((2, 2))}}
    gradients = {"head": {"kernel": np.full((2, 2), 0.5)}, "encoder": {"kernel": np.full((2, 2), 1e6)}}
    tx = build(AdamW(freeze=("encoder/.*",), grad_clip=1.0), constant(0.1), params)
    trained, frozen = tx.partition(params)
    assert list(flatten(trained)) == ["head/kernel"]
    assert list(flatten(tx.init(trained)["method"]["mu"])) == ["head/kernel"]
    assert jax.tree.structure(tx.join(trained, frozen)) == jax.tree.structure(params)
    ours, state = run(SGD(freeze=("encoder/.*",), momentum=0.0, grad_clip=1.0), params, [gradients], constant(1.0))
    np.testing.assert_allclose(ours["head"]["kernel"], 0.5)  # its norm is 1: not clipped
    assert int(state["updates"]) == 1


def test_layers_frozen_by_number_stay_bitwise_and_the_others_train_as_if_they_were_alone():
    params, gradient = parameters(depth=4), random_like(parameters(depth=4), 1)
    usual = {"weight_decay": 0.1, "grad_clip": 0.5}
    optimizer = AdamW(freeze=(r".*/blocks/[02]/.*",), **usual)
    ours, state = run(optimizer, params, [gradient], constant(0.1))
    alone, _ = run(AdamW(**usual), layers_of(params, [1, 3]), [layers_of(gradient, [1, 3])], constant(0.1))
    jax.tree.map(np.testing.assert_array_equal, ours, alone)
    assert {len(leaf) for path, leaf in flatten(state).items() if is_stacked(path)} == {2}
    tx = build(optimizer, constant(0.1), params)
    trained, frozen = tx.partition(params)
    jax.tree.map(np.testing.assert_array_equal, frozen, {"encoder": layers_of(params, [0, 2])["encoder"]})
    jax.tree.map(np.testing.assert_array_equal, tx.join(trained, frozen), params)


def layers_of(tree, layers):
    return unflatten({p: leaf[np.array(layers)] if is_stacked(p) else leaf for p, leaf in flatten(tree).items()})


def test_factors_by_number_act_on_their_layers():
    params, depth = parameters(depth=3), 3
    zeros = jax.tree.map(np.zeros_like, params)
    decayed = AdamW(
        weight_decay=0.1,
        weight_decay_rules=((r".*/blocks/2/.*", 2.0), (r".*/blocks/\*/mlp/.*kernel", 1.0)),
        learning_rate_rules=((r".*/blocks/1/.*", 0.5),),
    )
    ours, _ = run(decayed, params, [zeros], constant(0.1))
    path = "encoder/blocks/*/mlp/up/kernel"
    for layer, factor in zip(range(depth), (0.99, 0.995, 0.98), strict=True):  # 1 - 0.1 · 0.1 · what the rules say
        np.testing.assert_allclose(flatten(ours)[path][layer], factor * flatten(params)[path][layer], rtol=1e-6)
    bias = flatten(ours)["encoder/blocks/*/mlp/up/bias"]
    before = flatten(params)["encoder/blocks/*/mlp/up/bias"]
    assert (bias[:2] == before[:2]).all()
    np.testing.assert_allclose(bias[2], 0.98 * before[2], rtol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
def test_the_state_is_nested_dicts_of_arrays_and_never_empty(optimizer):
    tx = build(optimizer, constant(0.1), parameters())
    state = jax.eval_shape(tx.init, parameters())

    def plain(node):
        return all(map(plain, node.values())) if isinstance(node, dict) else isinstance(node, jax.ShapeDtypeStruct)

    assert plain(state)
    assert all("/" not in name and name for path in flatten(state) for name in path.split("/"))
    after = jax.eval_shape(lambda g, s: tx.update(g, s, g, step=0)[1], parameters(), state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)


def test_moment_types_are_those_asked_for():
    def types(optimizer):
        tx = build(optimizer, constant(0.1), parameters())
        state = jax.eval_shape(tx.init, parameters())
        return {path.split("/")[-3]: leaf.dtype.name for path, leaf in flatten(state).items() if "head/kernel" in path}

    assert types(AdamW()) == {"mu": "float32", "nu": "float32"}
    assert types(AdamW(moment_dtype="bfloat16")) == {"mu": "bfloat16", "nu": "float32"}
    assert types(SGD(moment_dtype="bfloat16")) == {"trace": "bfloat16"}
    assert types(Adafactor())["ema"] == "bfloat16"
    assert types(Lion(moment_dtype="bfloat16")) == {"mu": "bfloat16"}
    assert types(LAMB(moment_dtype="bfloat16")) == {"mu": "bfloat16", "nu": "float32"}


def test_adafactor_as_t5_trains_is_the_first_paper_step_by_step():
    # Shazeer & Stern 2018, algorithm 6, for a vector (not factored): update clipped at 1, scaled by the parameter's
    # root mean square of at least 1e-3
    weights = np.float64([0.5, -2.0, 3.0])
    gradients = [np.float32(g) for g in ([0.1, -0.2, 0.3], [0.4, 0.0, -0.1], [-1.0, 2.0, 0.01])]
    stated = dict(beta1=0.0, beta2=1.0, update_clip=1.0, scale_by_parameter=True, min_factored_size=128)
    assert dataclasses.asdict(T5Adafactor()) == dataclasses.asdict(Adafactor(**stated))
    ours, _ = run(T5Adafactor(), {"w": np.float32(weights)}, [{"w": g} for g in gradients], constant(0.01))
    square = np.zeros(3)
    for t, g in enumerate(gradients, 1):
        decay = 1 - t**-0.8
        square = decay * square + (1 - decay) * (np.float64(g) ** 2 + 1e-30)
        update = g / np.sqrt(square)
        update /= max(1.0, np.sqrt(np.mean(update**2)))
        weights = weights - 0.01 * max(1e-3, np.sqrt(np.mean(weights**2))) * update
    np.testing.assert_allclose(ours["w"], weights, rtol=1e-5)
