"""What encoders of text learn: hidden tokens and next sentences, classes of texts and of words, numbers."""

import functools
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made_text_run import MASKING, made_model
from made_texts import MadeSource, texts

import vitzoo.config
from vitzoo.config.model import ModelChoice
from vitzoo.data.text.labelled import LabelledRows, TaggedRows
from vitzoo.data.text.masked import MaskedRows
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.objectives.language_modelling import MaskedLanguageModelling, TokenObjective
from vitzoo.objectives.text_labels import Regression, SequenceClassification, TokenClassification

LENGTH = 20
WRITTEN = ["one red bird", "two cats", "a very small green boat", "stones"]


def labelled(labels, classes=None):
    pairs = zip(WRITTEN, labels, strict=True)
    return MadeSource([{"text": text, "label": label} for text, label in pairs], classes)


def words_of(row):
    return {"words": row.split(), "tags": [len(word) % 3 for word in row.split()]}


SOURCES = {
    "masked_lm": lambda: MaskedRows(texts(*WRITTEN), MASKING, Text(length=LENGTH, next_sentence=True)),
    "classes": lambda: LabelledRows(labelled([0, 1, 2, 1], ("a", "b", "c")), MASKING, Text(length=LENGTH)),
    "number": lambda: LabelledRows(labelled([0.5, -1.0, 2.0, 0.0]), MASKING, Text(length=LENGTH)),
    "token_classes": lambda: TaggedRows(
        MadeSource([words_of(row) for row in WRITTEN], ("a", "b", "c")), MASKING, Text(length=LENGTH)
    ),
}
OBJECTIVES = {
    "masked_lm": (MaskedLanguageModelling(z_loss=0.1), "pretraining"),
    "classes": (SequenceClassification(label_smoothing=0.1, class_weights=(1.0, 2.0, 3.0)), "classes"),
    "number": (Regression(), "number"),
    "token_classes": (TokenClassification(), "token_classes"),
}


class Case:
    """An objective with its model, its rows, and the gradient of its loss's sum and count, term by term."""

    def __init__(self, kind):
        objective, head = OBJECTIVES[kind]
        self.rows = SOURCES[kind]()
        self.objective = objective.bind(self.rows.info, SimpleNamespace(num_classes=3))
        classes = {} if kind == "number" else {"num_classes": 3}
        _, self.graph, self.params = made_model("bert", head=head, scale=0.3, **classes)
        self.compute = jax.jit(self._compute)

    def _compute(self, params, batch):
        def total(params):
            sums, metrics, _ = self.objective.sums(state.merge(self.graph, params), batch, train=False)
            return sum(self.objective.term_weights[term] * value for term, value in sums.items()), (sums, metrics)

        (_, (sums, metrics)), gradient = jax.value_and_grad(total, has_aux=True)(params)
        return sums, self.objective.counts(batch), metrics, gradient

    def of(self, rows):
        """Of up to four rows, filled up to one shape with rows that hold nothing."""
        rows = [*rows, *[self.rows.padding()] * (4 - len(rows))]
        batch = {key: np.stack([row[key] for row in rows]) for key in rows[0] if key != "id"}
        return self.compute(self.params, batch)


@functools.cache
def case(kind):
    return Case(kind)


def close(first, second):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5, rtol=2e-5), first, second)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_texts_share_of_loss_and_gradient_is_the_same_alone_padded_and_in_any_batch(kind):
    made = case(kind)
    first, second = made.rows.eval_row(0), made.rows.eval_row(1)
    alone, other, both = made.of([first]), made.of([second]), made.of([second, first])
    close(both, jax.tree.map(jnp.add, alone, other))
    # what stands where there is nothing makes no difference
    noise = {
        key: np.where(first["tokens_segments"] > 0, first[key], 7).astype(np.int32) for key in ("tokens", "targets")
    }
    filler = made.rows.padding() | {"tokens": np.full(LENGTH, 7, np.int32), "targets": np.full(LENGTH, 7, np.int32)}
    close(made.of([first | noise, filler]), alone)
    assert all(float(count) > 0 for count in alone[1].values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "masked_lm")) for kind in OBJECTIVES]
)
def test_a_batch_of_padding_alone_has_no_loss_and_no_gradient(kind):
    sums, counts, _, gradient = case(kind).of([case(kind).rows.padding()])
    assert all(float(value) == 0 for value in [*sums.values(), *counts.values()])
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


@pytest.mark.slow
def test_only_the_chosen_tokens_go_through_the_head_and_the_loss_is_that_of_all_in_longer_rows_too():
    made = case("masked_lm")
    rows = [made.rows.eval_row(index) for index in range(4)]
    batch = {key: np.stack([row[key] for row in rows]) for key in rows[0] if key != "id"}
    whole = {key: value for key, value in batch.items() if key not in ("chosen", "label")}
    model = state.merge(made.graph, made.params)
    wide = {key: np.pad(value, ((0, 0), (0, 7))) if np.ndim(value) == 2 else value for key, value in whole.items()}
    sums, metrics, _ = jax.jit(lambda batch: TokenObjective(z_loss=0.1).sums(model, batch, train=False))(wide)
    found, _, said, _ = made.of(rows)
    close({term: found[term] for term in sums}, sums)
    close(said["accuracy"], metrics["accuracy"])
    assert batch["chosen"].shape == (4, round((LENGTH - 3) * 0.15))


class Fixed:
    """An encoder whose answers don't depend on the text."""

    class config:
        key = staticmethod(lambda train, key: key)

    def __init__(self, masked, following):
        self.masked, self.following = masked, following

    def encode(self, tokens, **places):
        return jnp.zeros((*tokens.shape, 2))

    def masked_logits(self, x):
        return jnp.broadcast_to(jnp.asarray(self.masked), (*x.shape[:-1], len(self.masked)))

    def next_sentence_logits(self, x):
        return jnp.asarray(self.following)


@pytest.mark.slow
def test_the_next_sentence_adds_the_mean_over_rows_to_the_mean_over_tokens():
    objective = MaskedLanguageModelling().bind(SOURCES["masked_lm"]().info)
    batch = {
        "tokens": jnp.zeros((3, 4), int),
        "targets": jnp.array([[0, 2, 1, 0], [0, 1, 0, 0], [0, 2, 2, 2]]),
        "target_weights": jnp.array([[0.0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 1]]),
        "chosen": jnp.array([[1, 2], [1, 0], [1, 2]]),
        "label": jnp.array([0, 1, 1]),
        "example_weight": jnp.array([1.0, 1, 0]),
    }
    masked, following = [0.0, 1.0, -1.0], [[2.0, 0.0], [0.5, 0.0], [9.0, -9.0]]
    sums, metrics, _ = objective.sums(Fixed(masked, following), batch, train=False)
    counts = objective.counts(batch)
    loss = sum(weight * sums[term] / counts[term] for term, weight in objective.term_weights.items())
    norm = math.log(sum(map(math.exp, masked)))
    tokens = ((norm + 1) + (norm - 1) + (norm - 1)) / 3  # targets 2, 1 and 1; the third row only fills up
    sentences = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(0.5))) / 2
    assert float(loss) == pytest.approx(tokens + sentences, rel=1e-6)
    assert [float(part) for part in metrics["accuracy"]] == [2, 3]
    assert [float(part) for part in metrics["next_sentence_accuracy"]] == [1, 2]


def test_without_a_second_part_there_is_no_term_for_it():
    rows = MaskedRows(texts(*WRITTEN), MASKING, Text(length=LENGTH))
    assert MaskedLanguageModelling().bind(rows.info).term_weights == {"tokens": 1.0}
    labelled_rows = MaskedRows(labelled([0, 1, 1, 0], ("a", "b")), MASKING, Text(length=LENGTH))
    assert MaskedLanguageModelling().bind(labelled_rows.info).term_weights == {"tokens": 1.0}


@pytest.mark.slow
def test_texts_are_classified_with_the_loss_of_images():
    made = case("classes")
    rows = [made.rows.eval_row(index) for index in range(4)]
    sums, counts, metrics, _ = made.of(rows)
    batch = {
        key: np.stack([row[key] for row in rows])
        for key in ("tokens", "tokens_types", "tokens_segments", "tokens_positions")
    }
    model = state.merge(made.graph, made.params)
    logits = jax.jit(lambda batch: model(**batch))(batch)
    labels = np.array([0, 1, 2, 1])
    smooth = 0.9 * np.eye(3)[labels] + 0.1 / 3
    weights = np.array([1.0, 2, 3])[labels]
    expected = weights * np.asarray(optax.softmax_cross_entropy(logits, smooth))
    assert float(sums["classification"]) == pytest.approx(expected.sum(), rel=1e-5)
    assert float(counts["classification"]) == weights.sum()
    assert float(metrics["accuracy"][0]) == (logits.argmax(-1) == labels).sum()


@pytest.mark.slow
def test_the_squared_error_is_that_of_the_number_said():
    made = case("number")
    rows = [made.rows.eval_row(index) for index in range(4)]
    batch = {
        key: np.stack([row[key] for row in rows])
        for key in ("tokens", "tokens_types", "tokens_segments", "tokens_positions")
    }
    model = state.merge(made.graph, made.params)
    said = jax.jit(lambda batch: model(**batch))(batch)
    assert said.shape == (4,)
    errors = np.asarray(said) - np.array([0.5, -1.0, 2.0, 0.0])
    sums, counts, metrics, _ = made.of(rows)
    assert float(sums["squared_error"]) == pytest.approx((errors**2).sum(), rel=1e-5)
    assert float(metrics["absolute_error"][0]) == pytest.approx(np.abs(errors).sum(), rel=1e-5)
    assert float(counts["squared_error"]) == 4


def resolve(objective, model="bert", **model_fields):
    config = vitzoo.config.default()
    config.total_steps = 1
    config.model = dict(name=model, **model_fields)
    config.objective = dict(name=objective)
    config.data = dict(name="jsonl:/nowhere.jsonl")
    return vitzoo.config.resolve(config)


@pytest.mark.parametrize(
    ("objective", "model", "message"),
    [
        ("sequence_classification", {"model": "gpt"}, "model.name = gpt: has no head for this objective (classes)"),
        ("token_classification", {"model": "t5"}, "let it answer in text (objective.name=seq2seq)"),
        ("regression", {"model": "transformer"}, "model.name = transformer: has no head for this objective (number)"),
        ("masked_lm", {"model": "gpt"}, "has no head for this objective (pretraining): take bert"),
        ("causal_lm", {}, "model.name = bert: is an encoder, and rows of windows are for a decoder: take gpt, or"),
        ("seq2seq", {}, "model.name = bert: is an encoder, and rows of pairs are for an encoder-decoder: take t5 or"),
        ("causal_lm", {"model": "t5"}, "is an encoder-decoder, and rows of windows are for a decoder: take gpt, or ob"),
        ("seq2seq", {"model": "gpt"}, "model.name = gpt: is a decoder, and rows of pairs are for an encoder-decoder"),
        ("prefix_lm", {}, "is an encoder, and rows of prefix are for a decoder or an encoder-decoder: take gpt, t5 or"),
        ("prefix_lm", {"model": "gpt", "prefix_lm": False}, "model.prefix_lm = False: isn't what this objective lear"),
        ("causal_lm", {"model": "gpt", "prefix_lm": True}, "isn't what this objective learns; take objective.name=pr"),
        ("masked_lm", {"head": "classes"}, "model.head = classes: isn't what this objective learns, pretraining"),
        ("regression", {"head": "classes"}, "model.head = classes: isn't what this objective learns, number"),
        ("classification", {}, "model.name = bert: takes no images"),
    ],
)
def test_a_model_that_can_not_learn_an_objective_is_refused_when_the_config_is_read(objective, model, message):
    with pytest.raises(UserError) as refusal:
        resolve(objective, **model)
    assert message in str(refusal.value)


def test_the_head_is_the_objectives_unless_it_is_stated():
    from vitzoo.config.experiment import inputs_of

    heads = {
        "masked_lm": "pretraining",
        "sequence_classification": "classes",
        "token_classification": "token_classes",
        "regression": "number",
        "causal_lm": None,
    }
    for objective, head in heads.items():
        resolved = resolve(objective, "gpt" if head is None else "bert", **({"head": "auto"} if head else {}))
        assert inputs_of(resolved.experiment).text.head == head
    # a checkpoint's own head gives way to the objective's
    choice = ModelChoice("bert", "", {}, {"vocabulary_size": 9, "head": "pretraining"})
    assert choice.config(head="classes", num_classes=2).head_kind == "classes"
