import logging
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import Run, batches

from vitzoo.nn.paths import flatten
from vitzoo.optim.adafactor import Adafactor
from vitzoo.optim.adamw import AdamW
from vitzoo.optim.sgd import SGD

MESHES = ["data:8", "fsdp:8", "data:2,fsdp:2,tensor:2"]
SGD_PLAIN = SGD(learning_rate=0.1)


def losses(run, steps=20):
    return [float(metrics["loss"]) for metrics in run.train(batches(steps))]


@pytest.fixture(scope="module")
def one_device():
    run = Run(model={"dropout": 0.1, "drop_path": 0.1})
    return jax.device_get(run.state), losses(run)


def test_training_learns(one_device):
    first, last = one_device[1][0], one_device[1][-1]
    assert first == pytest.approx(np.log(10), rel=1e-5)  # the head starts at zero
    assert last < 0.9 * first


@pytest.mark.parametrize("mesh", MESHES)
def test_a_mesh_changes_neither_the_initial_state_nor_the_losses(one_device, mesh):
    state, expected = one_device
    run = Run(mesh, 8, model={"dropout": 0.1, "drop_path": 0.1})
    for path, leaf in flatten(state).items():
        np.testing.assert_array_equal(np.asarray(flatten(run.state)[path]), leaf, err_msg=path)
    np.testing.assert_allclose(losses(run), expected, rtol=1e-5)


@pytest.mark.parametrize("optimizer", [SGD_PLAIN, Adafactor(min_factored_size=16)], ids=["sgd", "adafactor"])
def test_every_optimizer_trains_alike_on_a_sharded_mesh(optimizer):
    alone, sharded = Run(optimizer=optimizer), Run("data:2,fsdp:2,tensor:2", 8, optimizer=optimizer)
    np.testing.assert_allclose(losses(sharded, 6), losses(alone, 6), rtol=1e-5)


def test_state_lies_where_its_shardings_say_before_and_after_a_step():
    run = Run("fsdp:8", 8, step_settings={"ema": 0.9})
    for _ in range(2):
        for path, leaf in flatten(run.state).items():
            assert leaf.sharding.is_equivalent_to(flatten(run.shardings)[path], leaf.ndim), path
        run.train(batches(1))
    kernel = flatten(run.state)["optimizer/method/mu/encoder/blocks/mlp/up/kernel"]
    assert kernel.sharding.shard_shape(kernel.shape) == (2, 4, 64)


@pytest.mark.parametrize(("mesh", "devices"), [("auto", 1), ("data:8", 8), ("data:2,fsdp:2,tensor:2", 8)])
def test_accumulation_gives_the_gradient_of_the_whole_batch(mesh, devices):
    def after(accumulate):
        run = Run(mesh, devices, optimizer=SGD_PLAIN, step_settings={"accumulate": accumulate})
        batch = next(batches(1, batch_size=32))
        batch["weight"][5:20] = 0.0  # uneven over the micro-batches
        batch["image"][5:20] = 0
        return run.train([batch, batch])[-1], jax.device_get(run.state)

    whole, state = after(1)
    for accumulate in (2, 4):
        parts, accumulated = after(accumulate)
        for name in ("loss", "accuracy", "top5", "grad_norm", "learning_rate"):
            assert parts[name] == pytest.approx(whole[name], rel=1e-5), name
        for path, leaf in flatten(state["params"]).items():
            scale = np.abs(leaf).max() + 1e-30
            np.testing.assert_allclose(flatten(accumulated["params"])[path], leaf, atol=1e-5 * scale, err_msg=path)
        assert int(accumulated["step"]) == int(accumulated["optimizer"]["updates"]) == 2


def test_accumulation_with_dropout_is_the_same_on_every_mesh():
    settings = {"model": {"dropout": 0.2}, "step_settings": {"accumulate": 2}}
    np.testing.assert_allclose(losses(Run("data:8", 8, **settings), 5), losses(Run(**settings), 5), rtol=1e-5)


def test_the_schedule_advances_once_for_each_global_batch():
    run = Run(
        optimizer=SGD(momentum=0.0), schedule=lambda step: step.astype("float32") + 1, step_settings={"accumulate": 2}
    )
    assert [float(m["learning_rate"]) for m in run.train(batches(3))] == [1.0, 2.0, 3.0]
    assert int(run.state["step"]) == int(run.state["updates"]) == 3


class Recorder:
    """A model or objective that reports the key it is given as its loss's gradient-free metric."""

    term_weights = {"loss": 1.0}

    def bind(self, info, num_classes):
        return self

    def counts(self, batch):
        return {"loss": batch["weight"].sum()}

    def sums(self, model, batch, key, train):
        logits = model(batch["image"], train=train, key=key)
        drawn = jax.random.bernoulli(key, 0.5, (32,)).astype("float32")
        return {"loss": (logits**2).sum()}, {f"draw_{i}": (drawn[i], jnp.ones(())) for i in range(32)}


def test_slices_of_equal_inputs_get_different_dropout_masks():
    run = Run(model={"dropout": 0.5}, objective=Recorder(), step_settings={"accumulate": 2})
    (metrics,) = run.train(batches(1))
    # each is the mean over two slices of one draw: the same key twice would give 0 or 1 only
    drawn = [float(metrics[f"draw_{i}"]) for i in range(32)]
    assert 0.5 in drawn
    again = Run(model={"dropout": 0.5}, objective=Recorder(), step_settings={"accumulate": 2}).train(batches(2))
    assert [float(again[0][f"draw_{i}"]) for i in range(32)] == drawn  # the same seed and step
    assert [float(again[1][f"draw_{i}"]) for i in range(32)] != drawn  # the next step


def test_micro_batches_are_interleaved_rows_so_that_every_device_keeps_its_own():
    text = Run("data:8", 8, step_settings={"accumulate": 2}).lower(next(batches(1))).compile().as_text()
    assert "all-reduce" in text
    for moved in ("all-to-all", "collective-permute", "all-gather"):
        assert moved not in text, moved


@pytest.mark.parametrize(
    "optimizer", [AdamW(grad_clip=1.0), Adafactor(min_factored_size=16)], ids=["adamw", "adafactor"]
)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_batch_with_infinity_changes_nothing_but_the_step_and_the_count(optimizer, accumulate):
    def poison(batch, key):
        return {**batch, "image": batch["pixels"]}

    run = Run(optimizer=optimizer, prepare=poison, step_settings={"ema": 0.9, "accumulate": accumulate})
    good = [{**b, "pixels": b.pop("image").astype(np.float32) / 255} for b in batches(4)]
    bad = {**good[2], "pixels": good[2]["pixels"].copy()}
    bad["pixels"][3, 5, 7, 1] = np.inf
    run.train(good[:2])
    before = jax.device_get(run.state)
    (metrics,) = run.train([bad])
    after = jax.device_get(run.state)
    for part in ("params", "optimizer", "ema", "updates"):
        jax.tree.map(np.testing.assert_array_equal, after[part], before[part])
    assert not np.isfinite(metrics["grad_norm"])
    assert (int(after["step"]), int(after["updates"]), int(after["skipped"])) == (3, 2, 1)
    (metrics,) = run.train(good[3:])
    assert np.isfinite(metrics["loss"])
    assert int(metrics["skipped"]) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(run.state)))


def test_the_average_follows_applied_steps_in_float32():
    run = Run(step_settings={"ema": 0.75})
    expected = jax.device_get(run.state["params"])
    for batch in batches(3):
        run.train([batch])
        params = jax.device_get(run.state["params"])
        expected = jax.tree.map(lambda average, new: 0.75 * average + 0.25 * new, expected, params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), run.state["ema"], expected)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(run.state["ema"])} == {"float32"}


def test_a_warm_start_lets_the_average_forget_the_initial_parameters():
    run = Run(step_settings={"ema": 0.999, "ema_warm_start": True})
    start = jax.device_get(run.state["params"])["patch_embedding"]["kernel"]
    run.train(batches(1))
    ema, new = (jax.device_get(run.state[part]["patch_embedding"]["kernel"]) for part in ("ema", "params"))
    np.testing.assert_allclose(ema, 2 / 11 * start + 9 / 11 * new, rtol=1e-5, atol=1e-8)  # (1 + 1) / (10 + 1)


def test_only_the_head_trains_when_all_else_is_frozen():
    run = Run(optimizer=AdamW(weight_decay=0.1, freeze=(r"(?!head/).*",)))
    before = flatten(jax.device_get(run.state["params"]))
    run.train(batches(2))
    changed = {
        path for path, leaf in flatten(jax.device_get(run.state["params"])).items() if (leaf != before[path]).any()
    }
    assert changed == {"head/kernel", "head/bias"}


def test_a_run_with_everything_frozen_stays_finite():
    run = Run(optimizer=AdamW(freeze=(".*",), grad_clip=1.0))
    before = jax.device_get(run.state["params"])
    metrics = run.train(batches(2))[-1]
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(run.state["params"]), before)
    assert np.isfinite(metrics["loss"])
    assert float(metrics["grad_norm"]) == 0.0


def test_the_step_is_compiled_once_whatever_the_step_the_rate_and_the_seed(caplog):
    run = Run("data:8", 8, step_settings={"ema": 0.9})
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        run.train(batches(4))
    compiled = [record for record in caplog.records if "Finished XLA compilation of jit(step)" in record.getMessage()]
    assert len(compiled) == 1


def test_the_old_state_is_donated_without_a_warning():
    run = Run("fsdp:8", 8, step_settings={"ema": 0.9, "accumulate": 2})
    old = run.state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.train(batches(1))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old))


def test_eight_micro_batches_take_a_third_of_the_memory_of_one_batch():
    def temporary_bytes(accumulate):
        run = Run(size=32, step_settings={"accumulate": accumulate})
        return run.lower(next(batches(1, 64, 32))).compile().memory_analysis().temp_size_in_bytes

    assert temporary_bytes(8) <= 0.35 * temporary_bytes(1)


def test_another_seed_draws_other_parameters_and_masks():
    first, second = (losses(Run(model={"dropout": 0.1}, seed=seed), 3) for seed in (0, 1))
    assert first[1:] != second[1:]


def test_two_terms_are_weighted_and_reported_apart():
    class Two(Recorder):
        term_weights = {"loss": 1.0, "size": 0.5}

        def counts(self, batch):
            return {"loss": batch["weight"].sum(), "size": jnp.float32(2.0)}

        def sums(self, model, batch, key, train):
            logits = model(batch["image"], train=train, key=key)
            return {"loss": (logits - 1).sum(), "size": jnp.float32(8.0)}, {}

    (metrics,) = Run(objective=Two()).train(batches(1))
    assert float(metrics["loss_loss"]) == pytest.approx(-10.0)  # a zero head: -1 for each of ten classes, per example
    assert float(metrics["loss_size"]) == pytest.approx(0.5 * 8 / 2)
    assert float(metrics["loss"]) == pytest.approx(-8.0)
