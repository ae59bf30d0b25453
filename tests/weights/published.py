"""Published files read as models, for tests."""

import jax.numpy as jnp
import numpy as np

from vitzoo.config.experiment import ModelChoice
from vitzoo.nn import paths, state
from vitzoo.weights.files.open import open_source
from vitzoo.weights.formats.known import recognise
from vitzoo.weights.load import builder, with_sizes
from vitzoo.weights.rows import read_rows


def read(path, **given):
    """A file's model, what was read of it, the model's Config and its leaves by path."""
    source = open_source(str(path))
    reading = recognise(source).read(source, given)
    params, _ = read_rows(reading.rows, source.tensors, reading.ignored, source.name)
    fields = {key: value for key, value in reading.model.items() if key != "name"}
    config = with_sizes(ModelChoice(reading.model["name"], "", fields).config())
    graph, shapes = state.abstract(builder(reading.model["name"], config))
    wanted = {path: leaf.shape for path, leaf in paths.flatten(shapes).items()}
    assert {path: leaf.shape for path, leaf in params.items()} == wanted
    tree = paths.unflatten({path: jnp.asarray(leaf) for path, leaf in params.items()})
    return state.merge(graph, tree), reading, config, params


def written(form, config, params, **description):
    """What a format writes, as names and arrays."""
    writing = form.write(config, params, description, None)
    return {name: np.asarray(array) for name, array in writing.tensors}, writing
