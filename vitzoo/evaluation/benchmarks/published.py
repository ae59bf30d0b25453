"""What the ViT paper publishes of itself and of its rivals (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929,
table 2), in %; each fine-tuned to the benchmark.
"""

import dataclasses
from collections.abc import Mapping

SOURCE = "https://arxiv.org/abs/2010.11929, table 2"


@dataclasses.dataclass(frozen=True)
class Model:
    """A published model: its scores by benchmark, and TPUv3-core-days of pretraining."""

    name: str
    scores: Mapping[str, str]
    core_days: str


NAMES = ("imagenet", "imagenet-real", "cifar10", "cifar100", "pets", "flowers", "vtab")


def _model(name: str, core_days: str, *scores: str) -> Model:
    return Model(name, dict(zip(NAMES, scores, strict=True)), core_days)


MODELS = (
    _model("ViT-H/14 JFT", "2.5k", "88.55", "90.72", "99.50", "94.55", "97.56", "99.68", "77.63"),
    _model("ViT-L/16 JFT", "0.68k", "87.76", "90.54", "99.42", "93.90", "97.32", "99.74", "76.28"),
    _model("ViT-L/16 I21k", "0.23k", "85.30", "88.62", "99.15", "93.25", "94.67", "99.61", "72.72"),
    _model("BiT-L", "9.9k", "87.54", "90.54", "99.37", "93.51", "96.62", "99.63", "76.29"),
    _model("Noisy Student", "12.3k", "88.4–88.5", "90.55", "–", "–", "–", "–", "–"),
)
