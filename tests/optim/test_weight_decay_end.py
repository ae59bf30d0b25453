"""Weight decay that moves along half a cosine, as DINO's from 0.04 to 0.4 (`cosine_scheduler` of its utils.py):
end + (start − end) · (1 + cos(π · step / total)) / 2, so start at step 0, the mean of both in the middle, end at total.
"""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vitzoo
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import LAMB, SGD, Adafactor, AdamW, Lion
from vitzoo.optim.rules import describe
from vitzoo.training import loop

TOTAL = 8
# cos(π/4) = 1/√2, so at a quarter 0.4 − 0.36 · (1 + 1/√2) / 2
BY_HAND = {0: 0.04, 2: 0.4 - 0.18 * (1 + math.sqrt(0.5)), 4: 0.22, 6: 0.4 - 0.18 * (1 - math.sqrt(0.5)), 8: 0.4, 9: 0.4}
DINO = dict(weight_decay=0.04, weight_decay_end=0.4)


def changes(optimizer, step, rate=0.5, total=TOTAL):
    """What is added to a kernel of 2 and a bias of 2 at a gradient of 0: nothing but decay."""
    params = {"kernel": jnp.full(3, 2.0), "bias": jnp.full(3, 2.0)}
    tx = build(optimizer, lambda step: jnp.float32(rate), params, total_steps=total)
    update = jax.jit(
        lambda step: tx.update(jax.tree.map(jnp.zeros_like, params), tx.init(params), params, step=step)[0]
    )
    return jax.tree.map(lambda leaf: leaf[0].item(), update(step)), tx


@pytest.mark.parametrize(("step", "decay"), BY_HAND.items())
@pytest.mark.parametrize("optimizer", [AdamW, SGD, Adafactor, Lion])
def test_the_decay_of_a_step_is_the_one_by_hand(optimizer, step, decay):
    changed, tx = changes(optimizer(**DINO), step)
    assert changed["kernel"] == pytest.approx(-0.5 * decay * 2, rel=1e-6)
    assert changed["bias"] == 0
    assert tx.weight_decay(step) == pytest.approx(decay, rel=1e-6)


@pytest.mark.parametrize(("start", "end"), [(0.04, 0.4), (0.4, 0.04), (0.0, 0.3), (0.3, 0.0)])
def test_both_ends_are_exact_in_either_direction_and_from_nothing(start, end):
    for step, decay in ((0, start), (TOTAL, end)):
        assert changes(SGD(weight_decay=start, weight_decay_end=end), step, rate=1.0)[0]["kernel"] == np.float32(-2) * (
            np.float32(decay)
        )
    middle = changes(SGD(weight_decay=start, weight_decay_end=end), TOTAL // 2, rate=1.0)[0]["kernel"]
    assert middle == pytest.approx(-2 * (start + end) / 2, rel=1e-6)


def test_one_that_ends_where_it_begins_is_the_constant_one():
    for step in (0, 3, TOTAL):
        moving = changes(AdamW(weight_decay=0.1, weight_decay_end=0.1), step)[0]
        assert moving["kernel"] == pytest.approx(changes(AdamW(weight_decay=0.1), step)[0]["kernel"], rel=1e-6)
    assert changes(AdamW(weight_decay=0.1), 0)[1].weight_decay is None


def test_it_is_independent_of_the_peak_where_decay_is():
    # big_vision's: the decay is multiplied by rate / peak alone, here 0.05 / 0.1
    for step, decay in BY_HAND.items():
        optimizer = SGD(learning_rate=0.1, independent_weight_decay=True, **DINO)
        assert changes(optimizer, step, rate=0.05)[0]["kernel"] == pytest.approx(-0.5 * decay * 2, rel=1e-6)


def test_rules_are_factors_of_both_ends_layer_by_layer():
    params = {"encoder": {"blocks": {"*": {"kernel": jnp.ones((3, 2))}}}, "head": {"kernel": jnp.ones(2)}}
    rules = ((r".*/blocks/1/.*", 0.0), (r".*/blocks/2/.*", 0.5), ("head/kernel", 2.0), (".*kernel", 1.0))
    optimizer = SGD(weight_decay_rules=rules, freeze=(".*/blocks/0/.*",), **DINO)
    tx = build(optimizer, lambda step: jnp.float32(1.0), params, total_steps=TOTAL)
    trained, _ = tx.partition(params)  # layers 1 and 2
    zeros = jax.tree.map(jnp.zeros_like, trained)
    for step, decay in BY_HAND.items():
        changed, _ = tx.update(zeros, tx.init(trained), trained, step=step)
        np.testing.assert_allclose(changed["encoder"]["blocks"]["*"]["kernel"][:, 0], [0, -decay / 2], rtol=1e-6)
        np.testing.assert_allclose(changed["head"]["kernel"], -2 * decay, rtol=1e-6)
    rows = {row["path"]: row for row in describe(tx.rules, params)}
    assert rows["head/kernel"]["weight_decay"] == pytest.approx(0.08)
    assert rows["head/kernel"]["weight_decay_end"] == pytest.approx(0.8)
    assert rows["encoder/blocks/*/kernel"]["weight_decay_end"] == pytest.approx([0, 0, 0.2])


def test_lamb_takes_its_ratio_of_the_update_with_the_decay_of_the_step():
    # at a gradient of 0 the update is decay · weights, and its ratio to the weights 1 / decay: any decay moves by rate
    for step in BY_HAND:
        assert changes(LAMB(**DINO), step)[0]["kernel"] == pytest.approx(-0.5 * 2, rel=1e-6)


def test_adamw_of_every_step_is_optax_adamw_with_that_steps_decay():
    params = {"kernel": jnp.array([0.5, -2.0, 3.0])}
    gradients = [{"kernel": jnp.array(g)} for g in ([0.1, -0.2, 0.3], [0.4, 0.0, -0.1], [-1.0, 2.0, 0.01])]
    tx = build(AdamW(**DINO), lambda step: jnp.float32(0.01), params, total_steps=4)
    state, ours, other, kept = tx.init(params), params, params, optax.adamw(0.01).init(params)
    for step, gradient in enumerate(gradients):
        changed, state = tx.update(gradient, state, ours, step=step)
        ours = optax.apply_updates(ours, changed)
        decay = 0.4 - 0.36 * (1 + math.cos(math.pi * step / 4)) / 2
        changed, kept = optax.adamw(0.01, weight_decay=decay).update(gradient, kept, other)
        other = optax.apply_updates(other, changed)
    np.testing.assert_allclose(ours["kernel"], other["kernel"], rtol=1e-6)


def test_without_a_length_it_is_refused():
    with pytest.raises(UserError, match=r"optimizer.weight_decay_end = 0.4: needs total_steps"):
        changes(AdamW(**DINO), 0, total=None)


@pytest.mark.parametrize("value", ["-0.1", "nan", "much"])
def test_a_value_that_is_none_is_refused(value, capsys):
    assert main(["configs", "quickstart", f"--config.optimizer.weight_decay_end={value}"]) == 2
    assert f"optimizer.weight_decay_end = {value}: " in capsys.readouterr().err


FLAGS = ["--config.optimizer.weight_decay=0.04", "--config.optimizer.weight_decay_end=0.4"]


def test_configs_shows_it(capsys):
    assert main(["configs", "quickstart", *FLAGS]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "optimizer.weight_decay_end" in line)
    assert line.split()[1:3] == ["0.4", "(flag)"]


@pytest.mark.gate
def test_a_dry_run_shows_both_ends_of_each_leaf(capsys):
    assert main(["train", "--config", "quickstart", "--dry-run", "--json", *FLAGS]) == 0
    said = capsys.readouterr().out
    shown = {line.split()[0]: line for line in said.splitlines() if line.startswith("  ")}
    assert "0.04 → 0.4" in shown["head/kernel"]
    assert "→" not in shown["head/bias"]
    leaves = {leaf["path"]: leaf for leaf in json.loads(said.splitlines()[-1])["leaves"]}
    assert (leaves["head/kernel"]["weight_decay"], leaves["head/kernel"]["weight_decay_end"]) == (0.04, 0.4)


@pytest.mark.slow
def test_a_run_logs_it_and_a_resumed_one_goes_on_with_that_of_its_step(tmp_path, monkeypatch):
    changes = {"total_steps": 4, "total_epochs": None, "log.every_steps": 1, "checkpoint.every_steps": 2}
    changes |= {"optimizer.weight_decay": 0.04, "optimizer.weight_decay_end": 0.4, "data.batch_size": 8}
    changes |= {"evaluate.test.split": "test[:8]", "schedule.warmup_epochs": 0, "model.depth": 1}
    vitzoo.train("quickstart", tmp_path / "whole", changes)

    put, seen = loop.put, []

    def dying(batch, mesh):
        seen.append(1)
        if len(seen) == 4:
            raise KeyError("dies")
        return put(batch, mesh)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "put", dying)
        with pytest.raises(KeyError, match="dies"):
            vitzoo.train("quickstart", tmp_path / "resumed", changes)
    vitzoo.train("quickstart", tmp_path / "resumed", changes)

    for name in ("whole", "resumed"):
        lines = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        logged = {line["step"]: line["weight_decay"] for line in lines if line["split"] == "train"}
        # batches 0 to 3 of 4, each logged when it has been consumed
        assert [*logged] == [1, 2, 3, 4]
        assert [*logged.values()] == pytest.approx([0.04, BY_HAND[2], 0.22, BY_HAND[6]], rel=1e-6)
    whole, resumed = (
        flatten(read_arrays(tmp_path / name / "checkpoints" / "4" / "params")) for name in ("whole", "resumed")
    )
    assert all(resumed[path].tobytes() == leaf.tobytes() for path, leaf in whole.items())
