"""A checkpoint that an objective learns from (`objective.teacher`): loaded beside the model, not trained, not saved."""

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from vitzoo import spelling
from vitzoo.checkpoints.locate import Located
from vitzoo.data.image_feed import ImageFeed, for_channels, preprocessing_of
from vitzoo.data.mixing import denormalise, normalise
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.models.geometry import image_shape
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.objectives.distillation import TEACHER_LOGITS
from vitzoo.parallel.processes import place
from vitzoo.parallel.sharding import param_shardings, rules_of
from vitzoo.registry import find
from vitzoo.steps.state import with_shardings
from vitzoo.weights.load import fitted
from vitzoo.weights.model import builder, config_of
from vitzoo.weights.open import open_weights

FIELD = "objective.teacher"


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A model that answers; its weights are read by `load`.

    Attributes:
        name: as the config says it.
        located: where it is.
        config: every setting of its model.
        build: makes the model from its random keys.
        graph: the model's static structure.
        shapes: its parameters', with their shardings.
        own: how it takes images.
        student: how the batch's images were made, which the student takes.
        columns: for each of the student's classes its place among the teacher's; None where they are the same.
    """

    name: str
    located: Located
    config: Any
    build: Callable
    graph: Any
    shapes: dict[str, Any]
    own: Preprocessing
    student: Preprocessing
    columns: tuple[int, ...] | None

    @classmethod
    def open(
        cls, name: str, *, feed: Any, config: Any, classes: Sequence[str] | None, execution: Execution, mesh: Mesh
    ) -> "Teacher":
        """Find it and lay it out.

        Args:
            name: a checkpoint, as the config says it.
            feed: the student's.
            config: the student's model.
            classes: the names of the student's classes, where they are known.
            execution: how it is computed.
            mesh: over which its parameters are spread, as a model's in training.

        Raises:
            UserError: it is missing or damaged, takes no images of as many channels, or doesn't know the classes.
        """
        try:
            located = open_weights(name)
        except UserError as refusal:
            raise UserError(FIELD, name, refusal.message) from None
        description = located.description
        if not isinstance(feed, ImageFeed) or description["preprocessing"] is None or description["tokenizer"]:
            raise UserError(FIELD, name, f"holds {description['model']['name']}, and a teacher must take images")
        own = config_of(description)
        if own.channels != config.channels:
            message = f"takes images of {own.channels} channel(s), the student of {config.channels}"
            raise UserError(FIELD, name, message)
        build = builder(description["model"]["name"], own, execution)
        graph, shapes = modules.abstract(build)
        places = param_shardings(shapes, rules_of(find("model", description["model"]["name"])), mesh)
        return cls(
            name=name,
            located=located,
            config=own,
            build=build,
            graph=graph,
            shapes=with_shardings(shapes, places),
            own=for_channels(preprocessing_of(description), own.channels),
            student=for_channels(feed.preprocessing, config.channels),
            columns=_columns(name, description["classes"], own.num_classes or 0, classes, config.num_classes),
        )

    @property
    def shardings(self) -> dict[str, Any]:
        """Where each of its parameters lies."""
        return jax.tree.map(lambda leaf: leaf.sharding, self.shapes)

    @property
    def parameters(self) -> int:
        """How many numbers it has."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.shapes))

    def load(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its parameters on the devices, and what it is told apart by: `checkpoint`, `step`, `weights` (which they
        are) and `crc32` of all of them.
        """
        classes = self.located.description["classes"]
        params, _, which = fitted(self.located, self.config, classes, self.build)
        shapes = flatten(self.shapes)
        params = {path: np.asarray(leaf, shapes[path].dtype) for path, leaf in flatten(params).items()}
        checksum = 0
        for path, leaf in params.items():
            checksum = zlib.crc32(np.ascontiguousarray(leaf).data, zlib.crc32(path.encode(), checksum))
        kept = {"checkpoint": self.name, "step": self.located.step, "weights": which, "crc32": f"{checksum:08x}"}
        return unflatten({path: place(leaf, shapes[path].sharding) for path, leaf in params.items()}), kept

    def answer(self, params: Mapping[str, Any], batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """The batch with `teacher_logits` [B, the student's classes]: of the same images, augmented and mixed, brought
        to the teacher's size and scale of pixels.
        """
        image = batch["image"]
        if self.own != self.student:
            image = normalise(denormalise(image, self.student), self.own)
        size = image_shape(self.config)[:2]
        if image.shape[1:3] != size:
            image = jax.image.resize(image, (image.shape[0], *size, image.shape[3]), "bilinear")
        logits = modules.merge(self.graph, dict(params))(image, train=False).astype(jnp.float32)
        if self.columns is not None:
            logits = logits[:, np.asarray(self.columns)]
        return {**batch, TEACHER_LOGITS: jax.lax.stop_gradient(logits)}

    def check_same(self, then: Mapping[str, Any] | None, now: Mapping[str, Any], remedy: str) -> None:
        """Refuses a teacher that is another than the run began with, under the same name."""
        then = then or {}
        differing = [key for key in ("step", "weights", "crc32") if then.get(key) != now[key]]
        if differing:
            marks = ", ".join(f"{key} {then.get(key)}, now {now[key]}" for key in differing)
            raise UserError(FIELD, self.name, f"has changed since this run began ({marks}); {remedy}")


def _columns(
    name: str, theirs: Sequence[str] | None, count: int, mine: Sequence[str] | None, wanted: int
) -> tuple[int, ...] | None:
    """Where each of the student's classes stands in the teacher's answer."""
    if theirs is None or mine is None:
        if count != wanted:
            raise UserError(FIELD, name, f"tells {count} classes apart, the student {wanted}")
        return None
    known = spelling.positions(theirs)
    missing = [one for one in mine if spelling.normalise(one) not in known]
    if missing:
        raise UserError(FIELD, name, f"doesn't know {len(missing)} of the {len(mine)} classes, such as {missing[0]}")
    places = tuple(known[spelling.normalise(one)][0] for one in mine)
    return None if places == tuple(range(count)) else places
