"""Data of the published sets' form, for configs whose data a test machine lacks."""

import random

import numpy as np

from vitzoo.data.arrays import image_table
from vitzoo.data.datasets.table import table


def gray28(data):
    """As Fashion-MNIST: 28 × 28, gray, ten classes; 60 to train on, 20 to test."""
    drawn, labels = np.random.default_rng(0), np.tile(np.arange(10, dtype=np.int32), 8)
    images = drawn.integers(0, 256, (80, 28, 28, 1), np.uint8)
    names = [f"class {number}" for number in range(10)]
    return image_table("gray28", names, images, labels, {"train": np.arange(60), "test": np.arange(60, 80)})


WORDS = ["one", "two", "three", "red", "green", "cat", "dog", "sees", "hears"]


def sentences(count, seed):
    drawn = random.Random(seed)
    return [" ".join(drawn.choices(WORDS, k=8)) for _ in range(count)]


def prose(data):
    """2,000 documents."""
    texts = [" ".join(sentences(4, seed)) for seed in range(2000)]
    return table("prose", {"text": texts}, range(2000), [f"text {number}" for number in range(2000)])


def pairs(data):
    """Sources and targets, as verses and pronunciations."""
    columns = {"source": sentences(200, 0), "target": sentences(200, 1)}
    return table("pairs", columns, range(200), [f"pair {number}" for number in range(200)])


def mails(data):
    """Texts of two classes."""
    columns = {"text": sentences(200, 2), "label": [number % 2 for number in range(200)]}
    return table("mails", columns, range(200), [f"mail {number}" for number in range(200)], ("ham", "spam"))


def tagged(data):
    """Words with a class each."""
    words = [sentence.split() for sentence in sentences(60, 3)]
    tags = [[int(word in ("cat", "dog")) for word in row] for row in words]
    return table("tagged", {"words": words, "tags": tags}, range(60), ["" for _ in words], ("O", "B-ANIMAL"))
