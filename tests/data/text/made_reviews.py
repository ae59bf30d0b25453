"""A tiny TFDS text set."""

import tensorflow_datasets as tfds


class Reviews(tfds.core.GeneratorBasedBuilder):
    """Four reviews."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(names=["bad", "good"])}
            ),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for index in range(4):
            yield index, {"text": f"été {index}", "label": index % 2}
