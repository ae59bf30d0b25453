"""What feeds the model of an experiment: its objective says whether it takes images or text."""

from typing import Any

from vitzoo.config.experiment import feed_kind
from vitzoo.data.feed import Feed


def feed_of(experiment: Any) -> Feed:
    """The feed that an experiment's sections describe."""
    if feed_kind(experiment.objective) == "text":
        from vitzoo.data.text.feed import TextFeed

        rows, mixture = experiment.objective.rows, experiment.mixture
        return TextFeed(experiment.tokenizer, experiment.text, rows, experiment.seed, mixture)
    from vitzoo.data.image_feed import ImageFeed

    return ImageFeed(experiment.preprocessing, experiment.augment)
