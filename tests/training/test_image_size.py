"""The image size of a fine-tuning: the checkpoint's, but for what the config states or a dataset declares."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_checkpoint import TINY, make_run
from PIL import Image

import vitzoo.config
from vitzoo.config import resolve
from vitzoo.data.open import open_source
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.training import setup

PUBLISHED = Path(__file__).parents[1] / "goldens" / "weights" / "hf-vit" / "vit"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a model of 8 × 8 pixels, and photos of 24 × 12 (wide and high), in folders and listed by a CSV file."""
    folder = tmp_path_factory.mktemp("sizes")
    make_run(folder / "run", TINY)
    draws, rows = np.random.default_rng(0), ["file,label"]
    for number in range(12):
        file = folder / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (12, 24, 3), np.uint8)).save(file)
        rows.append(f"photos/{file.parent.name}/{file.name},{file.parent.name}")
    (folder / "labels.csv").write_text("\n".join(rows))
    return folder


def prepared(made, data, init_from="run", **model):
    config = vitzoo.config.default()
    config.total_steps = 1
    config.init_from = str(made / init_from)
    config.model = model
    config.data = dict(name=data, batch_size=4)
    resolved = resolve(config)
    return setup.prepare(resolved, setup.mesh_of(resolved.experiment))


@pytest.mark.parametrize("data", ["folder:{}/photos", "csv:{}/labels.csv"])
def test_photos_of_one_size_are_brought_to_the_checkpoints(made, data):
    task = prepared(made, data.format(made))
    assert task.model_config.image_size == (8, 8)
    assert task.stream.rows.train_row(0, 0, 0)["image"].shape[:2] == (8, 8)
    assert task.inputs.described(task.model_config)["image"]["size"] == [8, 8]


def test_photos_of_one_size_are_brought_to_that_of_published_weights(made):
    config = json.loads((PUBLISHED / "config.json").read_text())
    size = config["image_size"]
    shutil.copytree(PUBLISHED, made / "published")
    task = prepared(made, f"folder:{made}/photos", "published")
    assert task.model_config.image_size == (tuple(size) if isinstance(size, list) else (size, size))


def test_a_stated_size_and_that_of_a_dataset_which_declares_one_are_taken(made):
    assert prepared(made, f"folder:{made}/photos", image_size=(12, 24)).model_config.image_size == (12, 24)
    make_run(made / "larger", TINY.__class__(**{**vars(TINY), "image_size": (16, 16)}))
    assert prepared(made, "digits", "larger").model_config.image_size == (8, 8)


def test_training_from_nothing_takes_the_size_of_photos_of_one_size(made):
    source = open_source(Data(name=f"folder:{made}/photos"))
    assert ImageProcessor(Preprocessing()).model_fields(source)["image_size"] == (12, 24)
