"""What feeds the model of an experiment: its objective says whether it takes images or text."""

import dataclasses
from typing import Any

from vitzoo.config.experiment import feed_kind
from vitzoo.config.fits import needs_classes
from vitzoo.data.feed import Feed


def feed_of(experiment: Any) -> Feed:
    """The feed that an experiment's sections describe."""
    if feed_kind(experiment.objective) == "text":
        from vitzoo.data.sources.fields import GIVEN
        from vitzoo.data.text.feed import TextFeed

        objective, text = experiment.objective, experiment.text
        data = experiment.data
        named = {setting: name for setting in (*GIVEN, "template") if (name := getattr(data, setting))}
        return TextFeed(
            experiment.tokenizer,
            dataclasses.replace(text, fields=named),
            objective.rows,
            experiment.seed,
            experiment.mixture,
            prefix_lm=getattr(objective, "PREFIX_LM", False),
            # such an objective reads labels as numbers, whether that is stated or not
            numbers=data.regression or getattr(objective, "HEAD", "") == "number",
        )
    from vitzoo.data.image_feed import ImageFeed

    classes = bool(needs_classes(experiment.objective, experiment.evaluate))
    return ImageFeed(experiment.preprocessing, experiment.augment, classes=classes)
