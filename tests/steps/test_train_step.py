import logging
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import Run, batches, net, prepare, vit

from vitzoo.nn.paths import flatten
from vitzoo.nn.state import initialise
from vitzoo.optim.optimizers import SGD, Adafactor, AdamW
from vitzoo.parallel.sharding import put
from vitzoo.steps.compile import compile_train_step

SGD_PLAIN = SGD(learning_rate=0.1)
ALL_AXES = "data:2,fsdp:2,tensor:2"


@pytest.fixture(scope="module")
def base():
    """A run on one device, to be used through `again`."""
    return Run(settings={"ema": 0.75})


def losses(run, steps=20, size=8):
    return [float(metrics["loss"]) for metrics in run.train(batches(steps, size=size))]


def test_training_learns(base):
    seen = losses(base.again())
    assert seen[0] == pytest.approx(np.log(10), rel=1e-5)  # the head starts at zero
    assert seen[-1] < 0.9 * seen[0]


def same_on(mesh, **settings):
    """Whether 20 steps go the same way on one device and on a mesh of eight, from bitwise the same state."""
    size = settings.pop("size")
    alone, spread = Run(**settings), Run(mesh, 8, **settings)
    spread.state["params"] = initialise(spread.model, 0, spread.shardings["params"])
    for path, leaf in flatten(jax.device_get(alone.state)).items():
        np.testing.assert_array_equal(np.asarray(flatten(spread.state)[path]), leaf, err_msg=path)
    np.testing.assert_allclose(losses(spread, size=size), losses(alone, size=size), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data:8", "fsdp:8"])
def test_a_mesh_changes_neither_initial_state_nor_losses_with_dropout_and_accumulation_on(mesh):
    same_on(mesh, model=net(dropout=0.1), settings={"accumulate": 2}, size=8)


@pytest.mark.slow
def test_a_vit_trains_alike_on_a_mesh_of_all_axes():
    rate = {"optimizer": SGD(grad_clip=1.0), "schedule": lambda step: jnp.float32(0.05)}
    same_on(ALL_AXES, model=vit(dropout=0.1, drop_path=0.1), size=16, **rate)


@pytest.mark.slow
def test_adafactor_trains_alike_on_a_mesh_of_all_axes():
    same_on(ALL_AXES, optimizer=Adafactor(learning_rate=1e-3, min_factored_size=16, moment_dtype="float32"), size=8)


@pytest.mark.parametrize(
    "model",
    [
        net(),
        pytest.param(vit(8, patch_dropout=0.5, depth=1), marks=pytest.mark.gate, id="each image loses other patches"),
    ],
)
def test_accumulation_gives_the_gradient_of_the_whole_batch(model):
    def after(accumulate):
        run = Run(ALL_AXES, 8, model=model, optimizer=SGD_PLAIN, settings={"accumulate": accumulate})
        batch = next(batches(1, batch_size=32))
        batch["example_weight"][5:20] = 0.0  # uneven over the micro-batches
        batch["image"][5:20] = 0
        return run.train([batch, batch])[-1], jax.device_get(run.state)

    (whole, state), (parts, accumulated) = after(1), after(4)
    for name in ("loss", "accuracy", "top5_accuracy", "grad_norm", "learning_rate"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-5), name
    for path, leaf in flatten(state["params"]).items():
        scale = np.abs(leaf).max() + 1e-30
        np.testing.assert_allclose(flatten(accumulated["params"])[path], leaf, atol=1e-5 * scale, err_msg=path)
    assert int(accumulated["step"]) == int(accumulated["optimizer"]["updates"]) == 2


def test_the_schedule_advances_once_for_each_global_batch():
    settings = {"accumulate": 2, "ema": 0.999, "ema_warm_start": True}
    run = Run(optimizer=SGD(momentum=0.0), schedule=lambda step: step.astype("float32") + 1, settings=settings)
    start = jax.device_get(run.state["params"])["head"]["bias"]
    assert float(run.train(batches(1))[0]["learning_rate"]) == 1.0
    ema, new = (jax.device_get(run.state[part])["head"]["bias"] for part in ("ema", "params"))
    # with a warm start, the first average weighs the initial parameters by (1 + 1) / (10 + 1)
    np.testing.assert_allclose(ema, 2 / 11 * start + 9 / 11 * new, rtol=1e-5, atol=1e-8)
    assert [float(m["learning_rate"]) for m in run.train(batches(2, start=1))] == [2.0, 3.0]
    assert int(run.state["step"]) == int(run.state["updates"]) == 3


def check_skip(run):
    run.train(batches(2))
    before = jax.device_get(run.state)
    bad = next(batches(1))
    bad["poison"][3] = np.inf
    (metrics,) = run.train([bad])
    after = jax.device_get(run.state)
    for part in ("params", "optimizer", "ema", "updates"):
        jax.tree.map(np.testing.assert_array_equal, after[part], before[part])
    assert not np.isfinite(metrics["grad_norm"])
    assert (int(after["step"]), int(after["updates"]), int(after["skipped"])) == (3, 2, 1)
    (metrics,) = run.train(batches(1, start=3))
    assert np.isfinite(metrics["loss"])
    assert int(metrics["skipped"]) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(run.state)))


def test_a_batch_with_infinity_changes_nothing_but_the_step_and_the_count(base):
    check_skip(base.again())


@pytest.mark.gate
@pytest.mark.parametrize("optimizer", [SGD(momentum=0.0), AdamW(weight_decay=0.1)])
def test_the_schedule_goes_on_over_a_skipped_step_and_the_optimizers_own_count_does_not(optimizer):
    # `step`, the batches consumed, indexes the schedule: the second batch has the second rate, whatever became of the
    # first; of an optimizer that has applied nothing yet it is the first update, so twice the update at half the rate
    run = Run(optimizer=optimizer, schedule=lambda step: 1e-3 * (jnp.asarray(step, jnp.float32) + 1))
    alone = run.again()
    bad, good = batches(2)
    bad["poison"][:] = np.nan
    changes = {}
    for name, one, given in (("skipped", run, [bad, good]), ("alone", alone, [good])):
        before = flatten(jax.device_get(one.state["params"]))
        rates = [float(metrics["learning_rate"]) for metrics in one.train(given)]
        after = flatten(jax.device_get(one.state["params"]))
        changes[name] = {path: after[path].astype(np.float64) - before[path] for path in after}
        assert rates == pytest.approx([1e-3, 2e-3][: len(given)])
        alone.compiled = one.compiled
    assert (int(run.state["step"]), int(run.state["updates"]), int(run.state["skipped"])) == (2, 1, 1)
    for path, change in changes["skipped"].items():
        np.testing.assert_allclose(change, 2 * changes["alone"][path], rtol=1e-3, atol=2e-7, err_msg=path)


@pytest.mark.gate
def test_a_batch_with_infinity_is_skipped_with_accumulation_and_factored_moments():
    check_skip(Run(optimizer=Adafactor(min_factored_size=16), settings={"ema": 0.9, "accumulate": 2}))


def test_the_average_follows_applied_steps_in_float32(base):
    run = base.again()
    expected = jax.device_get(run.state["params"])
    for batch in batches(3):
        run.train([batch])
        params = jax.device_get(run.state["params"])
        expected = jax.tree.map(lambda average, new: 0.75 * average + 0.25 * new, expected, params)
    ema = jax.device_get(run.state["ema"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), ema, expected)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(ema)} == {"float32"}


class Drawing:
    """An objective whose metrics tell what its key draws."""

    term_weights = {"loss": 1.0, "size": 0.5}

    def bind(self, info, model_config):
        return self

    def counts(self, batch):
        return {"loss": batch["example_weight"].sum(), "size": jnp.float32(4.0)}

    def sums(self, model, batch, key, *, train, memory, step):
        logits = model(batch["image"], train=train, key=key)
        sums = {"loss": (logits - 1).sum(), "size": jnp.float32(8.0)}
        return sums, {"drawn": (jax.random.bernoulli(key, 0.5, (32,)).astype("float32"), jnp.ones(()))}, {}


@pytest.fixture(scope="module")
def drawing():
    return Run(objective=Drawing(), model=net(dropout=0.5), settings={"accumulate": 2})


@pytest.mark.gate
def test_slices_of_equal_inputs_get_different_dropout_masks(drawing):
    first, second = (metrics["drawn"].tolist() for metrics in drawing.again().train(batches(2)))
    assert 0.5 in first  # the mean of two slices' draws: with the same key it would be 0 or 1
    assert drawing.again().train(batches(1))[0]["drawn"].tolist() == first  # the same seed and step
    assert second != first


def test_terms_are_weighted_divided_by_their_counts_and_reported(drawing):
    (metrics,) = drawing.again().train(batches(1))
    assert float(metrics["loss_loss"]) == pytest.approx(-10.0)  # a zero head: -1 for each of ten classes, per example
    assert float(metrics["loss_size"]) == pytest.approx(0.5 * (8 + 8) / 4)
    assert float(metrics["loss"]) == pytest.approx(-8.0)


def test_a_batch_is_prepared_whole_before_it_is_split():
    seen = []

    def mixing(batch, key):
        seen.append((batch["image"].shape, key.shape))
        return prepare(batch, key)

    Run(prepare=mixing, settings={"accumulate": 4}).lower(next(batches(1)))
    assert seen == [((16, 8, 8, 3), ())]


@pytest.mark.gate
def test_micro_batches_are_rows_that_each_device_already_holds():
    text = Run("data:8", 8, settings={"accumulate": 2}).compile(next(batches(1))).as_text()
    assert "all-reduce" in text
    for moved in ("all-to-all", "collective-permute", "all-gather"):
        assert moved not in text, moved


def test_only_the_head_trains_when_all_else_is_frozen():
    run = Run(optimizer=AdamW(weight_decay=0.1, freeze=(r"(?!head/).*",)))
    before = flatten(jax.device_get(run.state["params"]))
    run.train(batches(2))
    after = flatten(jax.device_get(run.state["params"]))
    assert {path for path in after if (after[path] != before[path]).any()} == {"head/kernel", "head/bias"}


@pytest.mark.gate
def test_a_frozen_layer_and_its_average_stay_bitwise_on_a_mesh_while_the_other_layers_train():
    optimizer = AdamW(weight_decay=0.1, freeze=("blocks/0/.*", "embedding/.*"))
    run = Run("fsdp:8", 8, optimizer=optimizer, settings={"ema": 0.9})
    before = flatten(jax.device_get(run.state["params"]))
    run.train(batches(3))
    for kept in ("params", "ema"):
        after = flatten(jax.device_get(run.state[kept]))
        assert after["embedding/kernel"].tobytes() == before["embedding/kernel"].tobytes()
        changed = [[(x[layer] != y[layer]).any() for layer in (0, 1)] for x, y in stacks(before, after)]
        assert changed == [[False, True]] * 4


def stacks(*trees):
    return [[tree[path] for tree in trees] for path in trees[0] if path.startswith("blocks/*/")]


def test_the_step_is_compiled_once_donates_the_state_and_leaves_it_where_it_belongs(caplog):
    run = Run("fsdp:8", 8, settings={"ema": 0.9})
    step, old = compile_train_step(run.pure, run.mesh, run.shardings, seed=0), run.state
    with warnings.catch_warnings(), jax.log_compiles(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")  # such as JAX's about donated buffers that were not usable
        for batch in batches(4):
            run.state, _ = step(run.state, put(batch, run.mesh))
    compiled = [record for record in caplog.records if "Finished XLA compilation of jit(step)" in record.getMessage()]
    assert len(compiled) == 1
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
    for path, leaf in flatten(run.state).items():
        assert leaf.sharding.is_equivalent_to(flatten(run.shardings)[path], leaf.ndim), path
    moment = flatten(run.state)["optimizer/method/mu/blocks/*/up/kernel"]
    assert moment.sharding.shard_shape(moment.shape) == (2, 4, 64)


def test_the_seed_is_an_argument_of_the_compiled_step(drawing):
    batch = next(batches(1))
    compiled, batch = drawing.compile(batch), put(batch, drawing.mesh)
    draws = [compiled(drawing.again().state, batch, np.uint32(seed))[1]["drawn"].tolist() for seed in (0, 1)]
    assert draws[0] != draws[1]


@pytest.mark.slow
def test_eight_micro_batches_take_a_third_of_the_memory_of_one_batch():
    def temporary_bytes(accumulate):
        run = Run(model=vit(32), settings={"accumulate": accumulate})
        return run.compile(next(batches(1, 64, 32))).memory_analysis().temp_size_in_bytes

    assert temporary_bytes(8) <= 0.35 * temporary_bytes(1)
