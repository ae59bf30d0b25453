"""What feeds the model of an experiment: its objective says whether it takes images or text."""

import dataclasses
from typing import Any

from vitzoo.config.experiment import feed_kind
from vitzoo.config.fits import needs_classes
from vitzoo.data.feed import Feed


def feed_of(experiment: Any) -> Feed:
    """The feed that an experiment's sections describe."""
    if feed_kind(experiment.objective) == "text":
        from vitzoo.data.text.feed import TextFeed

        objective, text = experiment.objective, experiment.text
        # such an objective reads labels as numbers, whether that is stated or not
        text = dataclasses.replace(text, regression=text.regression or getattr(objective, "HEAD", "") == "number")
        prefix_lm = getattr(objective, "PREFIX_LM", False)
        return TextFeed(
            experiment.tokenizer, text, objective.rows, experiment.seed, experiment.mixture, prefix_lm=prefix_lm
        )
    from vitzoo.data.image_feed import ImageFeed

    classes = bool(needs_classes(experiment.objective, experiment.evaluate))
    return ImageFeed(experiment.preprocessing, experiment.augment, classes=classes)
