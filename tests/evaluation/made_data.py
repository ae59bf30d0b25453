"""Datasets of random 8 × 8 images, as a user would write them."""

import numpy as np

from vitzoo.data.sources.base import Table

N = 10_003


class Many:
    """10,003 images of ten classes, named by digits."""

    classes = tuple(str(digit) for digit in range(10))
    count = N

    def __init__(self, data):
        random = np.random.default_rng(0)
        self.images = random.integers(0, 256, (self.count, 8, 8), np.uint8)
        self.labels = self.make_labels(random)

    def make_labels(self, random):
        return random.integers(0, len(self.classes), self.count).astype(np.int32)

    def read(self, row):
        return {"image": self.images[row]}

    def open(self, split):
        table = Table(
            name=type(self).__name__.lower(),
            fields=("image", "label"),
            classes=self.classes,
            labels=self.labels,
            checksums=np.arange(self.count),
            splits={"test": np.arange(self.count), "five": np.arange(5)},
            channels=1,
            image_shape=(8, 8),
            read=self.read,
        )
        return table.open(split)


class Four(Many):
    """40 images of four of the ten classes, in an order of its own."""

    classes = ("7", "2", "9", "4")
    count = 40


class Strangers(Four):
    """Classes that no digit has."""

    classes = ("cat", "dog", "cow", "hen")


class Several(Many):
    """Images with several of three labels."""

    classes = ("round", "straight", "closed")
    count = 50

    def make_labels(self, random):
        return (random.random((self.count, 3)) < 0.4).astype(np.float32)


class Holed(Many):
    """50 images, two of which can't be read."""

    count = 50

    def read(self, row):
        return {"image": b"no image" if row in (3, 49) else self.images[row]}
