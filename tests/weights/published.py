"""Published files read as models, copied with changes, refused; for tests."""

import functools
import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from vitzoo.config.assembly import assemble
from vitzoo.config.model import ModelChoice
from vitzoo.errors import UserError
from vitzoo.nn import paths, state
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.formats.registry import recognise
from vitzoo.weights.mapping import read_mapping


def read(path, **given):
    """A file's model, what was read of it, the model's Config and its leaves by path."""
    source = open_weights_file(str(path))
    reading = recognise(source).read(source, given)
    params, _ = read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
    fields = {key: value for key, value in reading.model.items() if key != "name"}
    made = assemble(ModelChoice(reading.model["name"], "", fields))
    config, (graph, shapes) = made.config, made.abstract
    wanted = {path: leaf.shape for path, leaf in paths.flatten(shapes).items()}
    assert {path: leaf.shape for path, leaf in params.items()} == wanted
    tree = paths.unflatten({path: jnp.asarray(leaf) for path, leaf in params.items()})
    return state.merge(graph, tree), reading, config, params


def reader(folder, place=lambda name: name):
    """Reads each golden below a folder once: model, reading, Config, leaves by path, and what is expected of it.

    `place` gives the file's path below the folder from the golden's name.
    """

    @functools.cache
    def get(name):
        with np.load(folder / name / "expected.npz") as file:
            return *read(folder / place(name)), dict(file)

    return get


def copied(golden, to, *, config=None, arrays=None):
    """A golden's folder without what is expected, with other settings and arrays (None takes one out, and a function
    of the arrays gives them all).
    """
    folder = to / golden.name
    shutil.copytree(golden, folder, ignore=shutil.ignore_patterns("expected.npz"))
    if config is not None:
        stated = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps({k: v for k, v in stated.items() if v is not None}))
    if arrays is not None:
        found = safetensors.numpy.load_file(folder / "model.safetensors")
        changed = arrays(found) if callable(arrays) else found | arrays
        kept = {key: np.ascontiguousarray(array) for key, array in changed.items() if array is not None}
        safetensors.numpy.save_file(kept, folder / "model.safetensors")
    return folder


def leaves(folder, **given):
    """What is read of a folder, and its leaves by path, without a model."""
    source = open_weights_file(str(folder))
    reading = recognise(source).read(source, given)
    return reading, read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)[0]


def refused(folder, **given):
    """The one line by which a folder is refused."""
    with pytest.raises(UserError) as caught:
        leaves(folder, **given)
    line = str(caught.value)
    assert "\n" not in line
    return line


def written(form, config, params, **description):
    """What a format writes, as names and arrays."""
    writing = form.write(config, params, description, None)
    return {name: np.asarray(array) for name, array in writing.tensors}, writing
