"""The checkpoint that a training starts from (`init_from`): its architecture, preprocessing and weights."""

import dataclasses
from typing import Any

from vitzoo.config import Resolved
from vitzoo.data.settings import Preprocessing
from vitzoo.schema import build


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A checkpoint that was found and verified; its weights are read when the parameters are made."""

    name: str
    description: dict

    @classmethod
    def open(cls, checkpoint: str) -> "Pretrained":
        raise NotImplementedError

    def preprocessing(self, resolved: Resolved) -> Preprocessing:
        """The checkpoint's preprocessing, with what the config itself sets."""
        own = dataclasses.asdict(resolved.experiment.preprocessing)
        mine = {key: own[key] for key in own if resolved.sources.get(f"preprocessing.{key}") in ("file", "flag")}
        theirs = {
            key: self.description["preprocessing"][key] for key in own if key in self.description["preprocessing"]
        }
        return build(Preprocessing, {**theirs, **mine}, "preprocessing")

    def parameters(self, task: Any) -> tuple[dict, list[str]]:
        raise NotImplementedError
