"""A pass counts every real example once, whatever the batch, the devices and the workers."""

import logging

import jax
import numpy as np
import pytest
from made_checkpoint import DIGITS, TINY, random_params
from made_data import N

from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.errors import UserError
from vitzoo.evaluation.classification import ClassificationEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.parallel.mesh import make_mesh

GRAPH, _ = state.abstract(lambda rngs: ViT(TINY, rngs=rngs))
PARAMS = random_params(TINY)


def evaluation(
    split="test", devices=1, name="made_data:Many", batch_size=64, classes=DIGITS, all_classes=False, **data
):
    return Evaluation(
        ClassificationEvaluator(split=split, all_classes=all_classes),
        GRAPH,
        inputs=Inputs({"image": ImageProcessor(Preprocessing())}),
        config=TINY,
        data=Data(name=name, batch_size=batch_size, **data),
        classes=classes,
        mesh=make_mesh("auto", jax.devices()[:devices]),
    )


@pytest.fixture(scope="module")
def truth():
    """The metrics with one batch for all and plain NumPy data."""
    from made_data import Many

    data = Many(None)
    images = (data.images[..., None].astype(np.float32) - 127.5) / 127.5
    logits = np.asarray(jax.jit(lambda params, x: state.merge(GRAPH, params)(x))(PARAMS, images), np.float64)
    logits -= logits.max(1, keepdims=True)
    log_probability = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    right = logits.argmax(1) == data.labels
    return {"n": N, "accuracy": right.mean(), "loss": -log_probability[np.arange(N), data.labels].mean()}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"batch_size": 64, "devices": 1}, marks=pytest.mark.slow),
        pytest.param({"batch_size": 64, "devices": 8}, marks=pytest.mark.slow),
        {"batch_size": 100, "devices": 8},  # padded to 104
        pytest.param(
            {"batch_size": 64, "devices": 1, "workers": 2, "in_memory": "never"},
            marks=pytest.mark.slow,
        ),
        pytest.param({"batch_size": 64, "devices": 8, "workers": 0, "in_memory": "never"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ten_thousand_and_three_images_are_counted_once_however_they_are_batched(how, truth):
    # dropping the rest of the last batch counted 9,984 of them, and 19 were lost
    got = evaluation(**how)(PARAMS)
    assert got["n"] == 10_003
    assert got["accuracy"] == pytest.approx(truth["accuracy"], abs=1e-6)
    assert got["loss"] == pytest.approx(truth["loss"], abs=1e-6)


@pytest.mark.parametrize(("batch_size", "devices"), [(64, 1), (64, 8), (5, 8)])
def test_five_images_are_five_whatever_the_batch_is_padded_to(batch_size, devices):
    bound = evaluation("five", devices, batch_size=batch_size)
    rows = bound.rows(PARAMS)
    assert rows["position"].tolist() == [0, 1, 2, 3, 4]
    assert rows["id"].tolist() == [0, 1, 2, 3, 4]
    assert bound.metrics(rows)["accuracy"] in {0, 0.2, 0.4, 0.6, 0.8, 1}


def test_rows_come_in_the_datasets_order_and_ids_say_which(truth):
    from made_data import Many

    rows = evaluation("test[100:333]", 8).rows(PARAMS)
    assert rows["id"].tolist() == list(range(100, 333))
    np.testing.assert_array_equal(rows["label"], Many(None).labels[100:333])


def test_unreadable_images_are_left_out_and_positions_stay():
    rows = evaluation(name="made_data:Holed", bad_files="skip", in_memory="never").rows(PARAMS)
    assert rows["position"].tolist() == [index for index in range(50) if index not in (3, 49)]


def test_one_compilation_serves_every_pass_and_other_weights(caplog):
    bound = evaluation("five")
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        bound(PARAMS)
        bound(random_params(TINY, seed=5))
        bound(PARAMS)
    compiled = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Compiling jit(")]
    assert len([text for text in compiled if "uint8[64,8,8,1]" in text]) == 1


def test_four_of_ten_classes_are_scored_among_themselves_and_where_asked_among_all():
    every, four = (evaluation(name="made_data:Four", all_classes=asked).rows(PARAMS) for asked in (True, False))
    own = np.array([7, 2, 9, 4])
    np.testing.assert_array_equal(every["label"], own[four["label"]])
    assert not set(every["prediction"]) <= set(own)
    assert set(four["prediction"]) <= {0, 1, 2, 3}
    # where the best of all is one of the four, it is the best of the four
    among = np.isin(every["prediction"], own)
    np.testing.assert_array_equal(every["prediction"][among], own[four["prediction"][among]])
    assert (every["rank"] >= four["rank"]).all()


def test_classes_that_the_model_does_not_have_are_refused():
    with pytest.raises(UserError, match="cat, dog, cow, hen"):
        evaluation(name="made_data:Strangers")
    with pytest.raises(UserError, match="has 4 classes and the model 10"):
        evaluation(name="made_data:Four", classes=None)
