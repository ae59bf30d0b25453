import logging

import jax
import numpy as np
import pytest
from tiny_run import Run, batches, prepare

from vitzoo.parallel.sharding import put
from vitzoo.steps.compile import compile_eval_step
from vitzoo.steps.evaluate import make_eval_step


def outputs(model, batch):
    logits = model(batch["image"])
    return {"logits": logits, "label": batch["label"], "weight": batch["weight"]}


def evaluate(run, batch):
    step = compile_eval_step(make_eval_step(run.graph, outputs, prepare), run.mesh)
    return step, jax.device_get(step(run.state["params"], put(batch, run.mesh)))


@pytest.mark.parametrize("mesh", ["data:8", "data:2,fsdp:2,tensor:2"])
def test_every_example_gets_the_same_row_on_every_mesh(mesh):
    batch = next(batches(1))
    alone, spread = Run(), Run(mesh, 8)
    head = np.random.default_rng(0).normal(size=(32, 10)).astype(np.float32)
    for run in (alone, spread):
        run.state["params"]["head"]["kernel"] = jax.device_put(head, run.shardings["params"]["head"]["kernel"])
    rows, expected = evaluate(spread, batch)[1], evaluate(alone, batch)[1]
    assert rows["logits"].shape == (16, 10)
    np.testing.assert_array_equal(rows["label"], batch["label"])
    np.testing.assert_allclose(rows["logits"], expected["logits"], rtol=1e-4, atol=1e-5)


def test_results_are_whole_on_every_device_and_compiled_once(caplog):
    run = Run("fsdp:8", 8)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        step, _ = evaluate(run, next(batches(1)))
        out = step(run.state["params"], put(next(batches(1, start=1)), run.mesh))
    assert all(value.is_fully_replicated for value in out.values())
    compiled = [record for record in caplog.records if "Finished XLA compilation of jit(step)" in record.getMessage()]
    assert len(compiled) == 1
