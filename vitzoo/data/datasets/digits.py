"""Scikit-learn's handwritten digits as a TFDS dataset: real images that come with the package, no download."""

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from sklearn.datasets import load_digits

from vitzoo.data.datasets.mnist import stratified_order

TEST_EXAMPLES = 360
SPLIT_SEED = 0


class Digits(tfds.core.GeneratorBasedBuilder):
    """1,797 handwritten digits, 8 x 8 pixels, one grey channel, 10 classes.

    The source stores levels 0..16; they are scaled to 0..255 (`round(level * 255 / 16)`).

    - `digits` (`digits/stratified`): train 1,437 and test 360 by a permutation that is stratified by class and fixed
      (RandomState(0)); examples stay in file order within each part.
    - `digits/file_order`: train is the first 1,437 in file order, test the last 360, which other writers wrote: harder.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="stratified", description="stratified by class, fixed permutation"),
        tfds.core.BuilderConfig(name="file_order", description="the last 360 in file order are the test part"),
    ]
    PREPARED_ON_FIRST_USE = True

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description=self.__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(8, 8, 1), encoding_format="png"),
                    "label": tfds.features.ClassLabel(names=[str(digit) for digit in range(10)]),
                }
            ),
            supervised_keys=("image", "label"),
            disable_shuffling=True,  # the order is the stated one, not that of hashed keys
        )

    def _split_generators(self, dl_manager):
        levels, labels = load_digits(return_X_y=True)
        images = np.round(levels.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
        if self.builder_config.name == "file_order":
            train, test = np.split(np.arange(len(labels)), [len(labels) - TEST_EXAMPLES])
        else:
            train, test = stratified_order(labels, TEST_EXAMPLES, SPLIT_SEED)
        return {
            "train": self._generate_examples(images, labels, train),
            "test": self._generate_examples(images, labels, test),
        }

    def _generate_examples(self, images, labels, rows):
        for row in rows:
            yield int(row), {"image": Image.fromarray(images[row]), "label": int(labels[row])}
