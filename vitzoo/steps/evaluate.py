"""One evaluation step: a batch in, a row of results for each of its examples out."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from vitzoo.nn.state import merge
from vitzoo.objectives.base import Batch
from vitzoo.steps.train import Prepare, over_devices


def make_eval_step(
    graph: Any, outputs: Callable[[Any, Batch], Mapping[str, jax.Array]], prepare: Prepare
) -> Callable[[Any, Batch], dict[str, jax.Array]]:
    """`step(params, batch) -> {name: array [B, ...]}`, to be compiled by `steps.compile`.

    Args:
        graph: the model's static structure, from `nn.state.abstract`.
        outputs: (model, prepared batch) to arrays with a row for each example; padding included, so that the caller
            leaves rows of weight 0 out.
        prepare: (batch, key) to the batch that the model takes; called without a key.
    """

    def step(params: Any, batch: Batch) -> dict[str, jax.Array]:
        return dict(outputs(merge(graph, params), over_devices(prepare(batch, None))))

    return step
