"""Benchmarks' datasets in TFDS's layout, with the features of the real ones and a few made examples."""

import io

import numpy as np
import tensorflow_datasets as tfds
from etils import epath
from PIL import Image

F = tfds.features


def prepare(root, name, features, splits):
    """Writes a dataset, NAME or NAME/CONFIG, as `vitzoo data prepare` does."""
    base, _, setting = name.partition("/")

    with tfds.core.registered.skip_registration():

        class Made(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")
            BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=setting)] if setting else []
            pkg_dir_path = epath.Path(root)

            def _info(self):
                return tfds.core.DatasetInfo(
                    builder=self, features=F.FeaturesDict(features), description="made", disable_shuffling=True
                )

            def _split_generators(self, manager):
                return {split: self._generate_examples(rows) for split, rows in splits.items()}

            def _generate_examples(self, rows):
                yield from enumerate(rows)

    Made.name = base
    builder = Made(data_dir=str(root), **({"config": setting} if setting else {}))
    tfds.disable_progress_bar()
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    builder.download_and_prepare(file_format="array_record", download_config=config)


def png(pixels):
    """uint8 [H, W] as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    file.seek(0)
    return file


def images(count, seed=0):
    """Random grey images, uint8 [count, 8, 8]."""
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8)).astype(np.uint8)


def labelled(pixels, labels, key="label"):
    return [{"image": png(image), key: label} for image, label in zip(pixels, labels, strict=True)]


IMAGE = F.Image(shape=(None, None, 3))
WORDNET = [f"n{number:08d}" for number in range(1000)]


def kinds(count, seed):
    """Images of three kinds that any features tell apart, and their kinds."""
    random, columns = np.random.default_rng(seed), np.arange(8)
    patterns = np.stack([np.tile(columns < 4, (8, 1)), np.tile(columns >= 4, (8, 1)), np.zeros((8, 8), bool)])
    kind = np.arange(count) % 3
    return (patterns[kind] * 1 + 0).astype(np.uint8), kind, random


def vtab_record(task, label, kind):
    """A record of a task whose class is `kind`, without its image."""
    name = type(label).__name__
    if name == "Feature":
        return {label.key: -(-kind * label.values // label.classes) if label.classes else kind}
    far = {"pixel_coords": np.float32([0, 0, 99]), "size": 0}
    if name == "Count":
        return {"objects": [far] * (label.least + kind)}
    between = np.float32((label.bounds[kind] + label.bounds[kind + 1]) / 2)
    if task == "clevr-distance":
        return {"objects": [far, {"pixel_coords": np.float32([0, 0, between]), "size": 0}]}
    walker = {"type": 3, "location": np.float32([0, 0, -99])}  # nearer, and no vehicle
    return {"objects": [walker, {"type": 2, "location": np.float32([0, 0, between])}]}


def vtab_features(task, label):
    name = type(label).__name__
    if name == "Feature":
        return {label.key: F.ClassLabel(num_classes=label.values or 3)}
    if task.startswith("clevr"):
        place = F.Tensor(shape=(3,), dtype=np.float32)
        return {"objects": F.Sequence({"pixel_coords": place, "size": F.ClassLabel(num_classes=2)})}
    place = F.Tensor(shape=(3,), dtype=np.float32)
    return {"objects": F.Sequence({"type": F.ClassLabel(num_classes=8), "location": place})}


TEXT = F.Text()
