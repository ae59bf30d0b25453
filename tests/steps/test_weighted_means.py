"""A weighted mean, sum of weight · loss over the sum of the weights, is the same for any scale of the weights."""

import functools
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vitzoo.errors import UserError
from vitzoo.nn import state as modules
from vitzoo.objectives.base import Frozen
from vitzoo.objectives.classification import Classification
from vitzoo.objectives.distillation import Distillation
from vitzoo.objectives.language_modelling import CausalLanguageModelling, SequenceToSequence
from vitzoo.objectives.text_labels import SequenceClassification, TokenClassification
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import SGD
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import put
from vitzoo.steps import state as states
from vitzoo.steps.compile import jit_train_step
from vitzoo.steps.train import make_train_step
from vitzoo.training.window import Window

ROWS, CLASSES, LENGTH = 8, 4, 3
BIAS = np.float32([0.5, -0.25, 1.0, 0.0])
LABELS = np.int32([0, 1, 2, 2, 3, 0, 2, 2])
WORDS = np.stack([LABELS, LABELS[::-1], (LABELS + 1) % CLASSES], axis=1)
TEACHER = np.random.default_rng(0).normal(size=(ROWS, CLASSES)).astype(np.float32)
MODEL = SimpleNamespace(num_classes=CLASSES)
CLASS_WEIGHTS = np.array([3.0, 0.5, 1.0, 2.0])
WORD_WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, WORDS.shape).astype(np.float32)
FILLS_UP = np.float32([1, 1, 1, 1, 1, 1, 1, 0])  # the last row only fills up the batch
SCALES = (1e-28, 1e4)


class Bias(nnx.Module):
    """Says the same of every row, or of every token: its bias."""

    SHARDING_RULES = ((r"bias", ()),)

    def __init__(self):
        self.bias = nnx.Param(jnp.asarray(BIAS))

    def __call__(self, *inputs, train=False, key=None, **places):
        shape = (
            inputs[-1].shape[:1] if inputs[-1].ndim == 4 or places.get("tokens_segments") is None else inputs[-1].shape
        )
        return jnp.broadcast_to(self.bias.get_value(), (*shape, CLASSES))


class Info:
    multi_label = False

    def __init__(self, counts=None):
        self.class_counts, self.n = counts, 0 if counts is None else sum(counts)


IMAGES = {"image": np.zeros((ROWS, 1, 1, 1), np.float32), "label": LABELS, "example_weight": FILLS_UP}
TEXTS = {name: np.ones((ROWS, LENGTH), np.int32) for name in ("tokens", "tokens_positions")}
TEXTS |= {"label": LABELS, "example_weight": FILLS_UP}
PLACES = {name: np.ones((ROWS, LENGTH), np.int32) for name in ("tokens", "tokens_segments")}
TAUGHT = IMAGES | {"teacher_logits": TEACHER}


def by_class(objective, batch, **settings):
    return lambda scale: (
        objective(class_weights=tuple(scale * CLASS_WEIGHTS), **settings).bind(Info(), MODEL),
        batch,
    )


def taught(scale):
    """Distillation of a teacher whose logits the batch holds."""
    settings = Distillation(class_weights=tuple(scale * CLASS_WEIGHTS), teacher="RUN", temperature=1.0)
    teacher = SimpleNamespace(classifier=lambda: lambda weights, batch: batch["teacher_logits"])
    bound = settings.bind(Info(), MODEL, teacher=teacher)

    def sums(*given, memory, **how):
        return bound.sums(*given, memory={"teacher": memory}, **how)

    return SimpleNamespace(term_weights=bound.term_weights, counts=bound.counts, sums=sums), TAUGHT


def by_word(objective, **more):
    words = PLACES | {"targets": WORDS, "example_weight": FILLS_UP} | more
    return lambda scale: (objective.bind(Info()), words | {"target_weights": np.float32(scale * WORD_WEIGHTS)})


CASES = {
    "softmax": by_class(Classification, IMAGES, label_smoothing=0.1),
    "sigmoid": by_class(Classification, IMAGES, loss="sigmoid"),
    "sequence_classification": by_class(SequenceClassification, TEXTS),
    "distillation": taught,
    "token_classification": by_word(TokenClassification()),
    "causal_lm": by_word(CausalLanguageModelling(z_loss=0.1)),
    "seq2seq": by_word(SequenceToSequence(), source=PLACES["tokens"], source_segments=PLACES["tokens"]),
}
LOG_P = BIAS.astype(np.float64) - np.log(np.exp(BIAS.astype(np.float64)).sum())


def softplus(x):
    return np.log1p(np.exp(x))


def expected(kind):
    """The loss in float64, from its definition."""
    rows, labels = FILLS_UP > 0, LABELS[FILLS_UP > 0]
    weights = CLASS_WEIGHTS[labels]
    if kind == "softmax":
        return np.average(-(0.9 * LOG_P[labels] + 0.1 * LOG_P.mean()), weights=weights)
    if kind == "sigmoid":
        return np.average(softplus(BIAS).sum() - BIAS[labels], weights=weights)
    if kind == "sequence_classification":
        return np.average(-LOG_P[labels], weights=weights)
    if kind == "distillation":
        teacher = TEACHER[rows] - np.log(np.exp(TEACHER[rows]).sum(-1, keepdims=True))
        taught = (np.exp(teacher) * (teacher - LOG_P)).sum(-1).mean()
        return 0.5 * np.average(-LOG_P[labels], weights=weights) + 0.5 * taught
    loss = np.average(-LOG_P[WORDS[rows]], weights=WORD_WEIGHTS[rows])
    z = np.log(np.exp(BIAS.astype(np.float64)).sum()) ** 2
    return loss + (0.1 * z if kind == "causal_lm" else 0)


@functools.cache
def setup(mesh):
    graph, shapes = modules.abstract(lambda rngs: Bias())
    tx = build(SGD(learning_rate=1.0, momentum=0.0), lambda step: jnp.float32(1.0), shapes)
    mesh = make_mesh(mesh or "auto", jax.devices()[: 4 if mesh else 1])
    return graph, tx, mesh, states.shardings(states.abstract(shapes, tx), Bias.SHARDING_RULES, mesh)


def step(case, scale, mesh="", accumulate=1):
    """The metrics of one step of plain SGD with rate 1, and what it took away from the bias: the gradient."""
    objective, batch = case(scale)
    graph, tx, mesh, places = setup(mesh)
    keep = lambda batch, key: dict(batch)  # noqa: E731
    pure = make_train_step(graph, objective, tx, lambda step: jnp.float32(1), prepare=keep, accumulate=accumulate)
    state = states.create(jax.device_put({"bias": BIAS.copy()}, places["params"]), tx, shardings=places)
    state, metrics = jit_train_step(pure, mesh, places)(state, put(batch, mesh), np.uint32(0))
    return jax.device_get(metrics), BIAS - jax.device_get(state["params"]["bias"])


OFTEN = ("softmax", "causal_lm", "seq2seq")


@pytest.mark.parametrize("kind", [one if one in OFTEN else pytest.param(one, marks=pytest.mark.slow) for one in CASES])
def test_loss_and_gradient_are_those_of_the_definition_for_any_scale_of_the_weights(kind):
    reference = step(CASES[kind], 1.0)
    assert reference[0]["loss"] == pytest.approx(expected(kind), rel=1e-6)
    for scale in SCALES:
        metrics, gradient = step(CASES[kind], scale)
        for name in ("loss", "accuracy", "grad_norm", *(n for n in metrics if n.startswith("loss_"))):
            assert metrics[name] == pytest.approx(reference[0][name], rel=1e-5), (scale, name)
        np.testing.assert_allclose(gradient, reference[1], rtol=1e-5, atol=1e-7)


@pytest.mark.gate
@pytest.mark.parametrize(("mesh", "accumulate"), [("", 4), ("fsdp:2,data:2", 2)])
@pytest.mark.parametrize("kind", ["softmax", "causal_lm"])
def test_the_weights_are_summed_over_the_global_batch_before_anything_is_divided(kind, mesh, accumulate):
    reference, gradient = step(CASES[kind], 1e-3)
    metrics, spread = step(CASES[kind], 1e-3, mesh, accumulate)
    for name in ("loss", "accuracy", "grad_norm"):
        assert metrics[name] == pytest.approx(reference[name], rel=1e-5), name
    np.testing.assert_allclose(spread, gradient, rtol=1e-5, atol=1e-7)


def test_a_batch_of_the_large_class_under_balanced_weights_has_the_loss_of_that_class():
    # 910 of 1,000 examples in one of ten classes, all equal in the logits: ln 10, whatever the class's weight of 0.11
    objective = Classification(class_weights="balanced").bind(Info((910, *[10] * 9)), SimpleNamespace(num_classes=10))
    batch = {"image": jnp.zeros((8, 1, 1, 1)), "label": jnp.zeros(8, int), "example_weight": jnp.ones(8)}
    case = lambda scale: (objective, batch)  # noqa: E731
    assert step_of_ten(case) == pytest.approx(math.log(10), rel=1e-6)


def step_of_ten(case):
    objective, batch = case(1.0)
    graph, shapes = modules.abstract(lambda rngs: Ten())
    tx = build(SGD(momentum=0.0), lambda step: jnp.float32(1.0), shapes)
    pure = make_train_step(graph, objective, tx, lambda step: jnp.float32(1), prepare=lambda batch, key: dict(batch))
    state = states.create({"bias": jnp.zeros(10)}, tx)
    return float(jax.jit(pure)(state, batch, 0)[1]["loss"])


class Drifting:
    """Learns from a frozen model, and remembers how often."""

    term_weights = {"distance": 1.0}

    def __init__(self, remembers="drift"):
        self.remembers = remembers

    def init(self, params):
        return {self.remembers: jnp.zeros(())}

    def counts(self, batch):
        return {"distance": batch["example_weight"].sum()}

    def sums(self, model, batch, key=None, *, train, memory, step):
        distance = (model(batch["image"]) - memory["guide"]["bias"] - memory["drift"]) ** 2
        return {"distance": (batch["example_weight"] * distance.sum(-1)).sum()}, {}, {}

    def update(self, memory, params, notes, step):
        return {**memory, "drift": memory["drift"] + memory["guide"]["bias"].sum()}


def test_a_frozen_model_lies_beside_what_is_remembered_and_stays_as_it_is():
    guide = Frozen({}, None, {"bias": jax.ShapeDtypeStruct((CLASSES,), jnp.float32)}, ((".*", None),), None, None)
    graph, tx, mesh, _ = setup("")
    shapes, objective = {"bias": jax.ShapeDtypeStruct((CLASSES,), jnp.float32)}, Drifting()
    state = states.abstract(shapes, tx, objective=objective, frozen={"guide": guide})
    places = states.shardings(state, Bias.SHARDING_RULES, mesh, {"guide": guide})
    assert jax.tree.structure(state) == jax.tree.structure(places)
    pure = make_train_step(graph, objective, tx, lambda step: jnp.float32(1), prepare=lambda batch, key: dict(batch))
    state = states.create({"bias": jnp.asarray(BIAS)}, tx, shardings=places, objective=objective)
    state |= {"frozen": {"guide": {"bias": jnp.arange(CLASSES, dtype=jnp.float32)}}}
    state, metrics = jit_train_step(pure, mesh, places)(state, put(IMAGES, mesh), np.uint32(0))
    assert metrics["loss"] == pytest.approx(((BIAS - np.arange(CLASSES)) ** 2).sum(), rel=1e-6)
    assert jax.device_get(state["objective"]) == {"drift": 0 + 1 + 2 + 3}
    np.testing.assert_array_equal(state["frozen"]["guide"]["bias"], np.arange(CLASSES))
    with pytest.raises(UserError, match=r"objective.guide: is also what `init` calls a part of the memory; rename one"):
        states.abstract(shapes, tx, objective=Drifting("guide"), frozen={"guide": guide})


class Ten(nnx.Module):
    def __init__(self):
        self.bias = nnx.Param(jnp.zeros(10))

    def __call__(self, images, *, train=False, key=None):
        return jnp.broadcast_to(self.bias.get_value(), (len(images), 10))


@pytest.mark.parametrize("kind", ["softmax", "distillation", "causal_lm"])
def test_a_batch_whose_weights_are_all_zero_changes_nothing_and_no_mean_of_the_log(kind):
    objective, batch = CASES[kind](1.0)
    none = batch | {"example_weight": np.zeros(ROWS, np.float32)}
    metrics, gradient = step(lambda scale: (objective, none), 1.0)
    assert (metrics["loss"], metrics["grad_norm"], metrics["skipped"]) == (0, 0, 0)
    assert not gradient.any()
    counted = step(CASES[kind], 1.0)[0]
    window = Window(stop=False)
    window.add(1, metrics)
    window.add(2, counted)
    line = window.line()
    assert line["loss"] == pytest.approx(float(counted["loss"]), rel=1e-6)
    assert line["accuracy"] == pytest.approx(float(counted["accuracy"]), rel=1e-6)


@pytest.mark.parametrize("weights", [(0.0, 1.0, 1.0, 1.0), (0.0, 1e-6, 2e-6, 1e-6)])
def test_a_batch_of_a_class_that_weighs_nothing_counts_nothing(weights):
    objective = Classification(class_weights=weights).bind(Info(), MODEL)
    batch = IMAGES | {"label": np.zeros(ROWS, np.int32)}
    metrics, gradient = step(lambda scale: (objective, batch), 1.0)
    assert metrics["loss"] == 0
    assert not gradient.any()
