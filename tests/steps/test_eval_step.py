import logging

import jax
import numpy as np
from tiny_run import Run, batches, prepare

from vitzoo.parallel.sharding import put
from vitzoo.steps.compile import compile_eval_step, make_eval_step


def outputs(model, batch):
    return {"logits": model(batch["image"]), "label": batch["label"], "example_weight": batch["example_weight"]}


def evaluation(run):
    head = np.random.default_rng(0).normal(size=(32, 10)).astype(np.float32)
    run.state["params"]["head"]["kernel"] = jax.device_put(head, run.shardings["params"]["head"]["kernel"])
    step = compile_eval_step(make_eval_step(run.graph, outputs, prepare), run.mesh)
    return lambda batch: step(run.state["params"], put(batch, run.mesh))


def test_every_example_gets_its_row_whole_on_every_device_from_one_compilation(caplog):
    alone, spread = evaluation(Run()), evaluation(Run("data:2,fsdp:2,tensor:2", 8))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        results = [(batch, spread(batch)) for batch in batches(2)]
    compiled = [record for record in caplog.records if "Finished XLA compilation of jit(step)" in record.getMessage()]
    assert len(compiled) == 1
    for batch, rows in results:
        assert all(value.is_fully_replicated for value in rows.values())
        assert rows["logits"].shape == (16, 10)
        np.testing.assert_array_equal(rows["label"], batch["label"])
        np.testing.assert_allclose(rows["logits"], alone(batch)["logits"], rtol=1e-5, atol=1e-5)
