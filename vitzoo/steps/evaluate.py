"""One evaluation step: a batch in, a row of results for each of its examples out, or sums over them."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from vitzoo.nn.state import merge
from vitzoo.objectives.base import Batch
from vitzoo.steps.train import Prepare, over_devices, row_keys


def make_eval_step(
    graph: Any, outputs: Callable[..., Mapping[str, Any]], prepare: Prepare
) -> Callable[..., dict[str, Any]]:
    """`step(params, batch, first, beside) -> {name: array [B, ...]}`, to be compiled by `steps.compile`. `first` is the
    place of the batch's first row in the split, by which each row's `key` is drawn; `beside` what of the state
    `outputs` takes besides the parameters.

    Args:
        graph: the model's static structure, from `nn.state.abstract`.
        outputs: (model, prepared batch, what is in `beside` by name) to arrays with a row for each example; padding
            included, so that the caller leaves rows of weight 0 out. `sums` is a dict of arrays of the whole batch.
        prepare: (batch, key) to the batch that the model takes; called without a key.
    """

    def step(params: Any, batch: Batch, first: jax.Array, beside: Mapping[str, Any]) -> dict[str, Any]:
        batch = prepare(batch, None)
        rows = over_devices(batch | row_keys(batch, jax.random.key(0), first))
        return dict(outputs(merge(graph, params), rows, **beside))

    return step
