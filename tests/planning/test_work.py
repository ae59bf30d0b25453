"""What a step computes and sends."""

import pytest

from vitzoo.config import resolve
from vitzoo.planning import jaxprs
from vitzoo.planning.blueprint import blueprint
from vitzoo.planning.estimate import Forecast, Setting
from vitzoo.planning.topology import parse

TWO_LAYERS = ("model.depth=2", "model.width=48", "model.num_heads=3", "model.mlp_dim=192", "model.vocabulary_size=64")


def test_flops_are_six_times_parameters_and_tokens_and_the_attention(draw):
    drawn = draw("gpt", "cpu", *TWO_LAYERS)
    forecast = Forecast(drawn, parse("cpu:8"))
    tokens, length, width, depth, vocabulary = 256 * 12, 12, 48, 2, 64
    # products with weights: 2 forward, 4 backward for each parameter and token; of attention: two products of
    # 2 · length · width forward a token and layer, twice that backward (6ND + 12LTD)
    weights = depth * 12 * width**2 + vocabulary * width
    closed = 6 * tokens * weights + 12 * depth * length * width * tokens
    assert forecast.estimator.flops("none") == closed
    # full remat computes the blocks again but for the MLP's last product, 4 of the 12 width², which nothing needs
    assert forecast.estimator.flops("full") == closed + depth * tokens * (2 * 8 * width**2 + 4 * length * width)


@pytest.mark.parametrize(
    "name", ["vit", pytest.param("bert", marks=pytest.mark.slow), pytest.param("t5", marks=pytest.mark.slow)]
)
def test_flops_of_a_traced_micro_batch_are_those_of_the_whole_step(draw, name):
    drawn = draw(name, "cpu")
    forecast = Forecast(drawn, parse("cpu:8"))
    batch = drawn.batch(drawn.experiment.data.batch_size)
    assert forecast.estimator.flops("full") == jaxprs.count_flops(drawn.step("full", 1), drawn.state, batch, 0)


def sent(drawn, mesh, remat="none", accumulate=1):
    return Forecast(drawn, parse("cpu:8"))(Setting(mesh, remat, accumulate)).traffic


def test_collective_bytes_of_two_layers_by_hand(draw):
    drawn = draw("gpt", "cpu", *TWO_LAYERS)
    width, depth, float32 = 48, 2, 4
    # leaves of a block: query, key, value, out [48, 48]; up, down [48, 192]; biases 5 · 48 + 192 + 48; norms 4 · 48
    kernels, small = depth * 12 * width**2, depth * (4 * width + 4 * width + width + 4 * width)
    tables, last = (64 + 16) * width, 2 * width
    whole = kernels + small + tables + last
    # over `data` alone every gradient is summed: 7/8 of it sent twice
    assert sent(drawn, (8, 1, 1, 1)).sums == pytest.approx(2 * 7 / 8 * whole * float32)
    assert sent(drawn, (8, 1, 1, 1)).total == sent(drawn, (8, 1, 1, 1)).sums
    # over `fsdp` a block's kernels are gathered twice, the tables once, their gradients reduced once; the small leaves
    # lie whole on every device, and their gradients are summed
    found = sent(drawn, (1, 8, 1, 1))
    assert found.gathers == pytest.approx(7 / 8 * (2 * kernels + tables) * float32)
    assert found.reductions == pytest.approx(7 / 8 * (kernels + tables) * float32)
    assert found.sums == pytest.approx(2 * 7 / 8 * (small + last) * float32)
    # each micro-batch gathers and reduces anew
    assert sent(drawn, (1, 8, 1, 1), accumulate=4).total == pytest.approx(4 * found.total)


GUIDE = {"name": "vit", "variant": "", "patch_size": 4, "width": 16, "depth": 2, "mlp_dim": 32, "num_heads": 2}
GUIDE |= {"num_classes": 10, "image_size": [28, 28], "channels": 1}


def test_a_model_to_learn_from_is_held_read_and_computed_by_hand():
    experiment = resolve("vit/fashion_mnist:distilled", complete=False).experiment
    known = {"model": GUIDE, "inputs": {"image": {"kind": "image", "mean": [100.0]}}, "classes": ["any"] * 10}
    plain = Forecast(blueprint(resolve("vit/fashion_mnist:student").experiment, "cpu"), parse("cpu:2"))
    taught = Forecast(blueprint(experiment, "cpu", frozen={"teacher": known}), parse("cpu:2"))
    both = [[one(Setting(mesh, "none", 4)) for one in (plain, taught)] for mesh in ((2, 1, 1, 1), (1, 2, 1, 1))]
    # kernel and bias of the patches, a token, 1 + 7² places; of a block norms 4 · 16, query, key, value, out
    # 4 · (16² + 16), the MLP's 2 · 16 · 32 + 32 + 16; the last norm and the head
    block = 4 * 16 + 4 * (16**2 + 16) + 2 * 16 * 32 + 32 + 16
    whole = 4 * (16 * 16 + 16 + 16 + 50 * 16 + 2 * block + 2 * 16 + 16 * 10 + 10)
    (alone, beside), (_, cut) = both
    assert beside.memory.optimizer - alone.memory.optimizer == whole
    assert (beside.memory.parameters, beside.memory.gradients) == (alone.memory.parameters, alone.memory.gradients)
    assert beside.memory.batch == alone.memory.batch
    assert beside.memory.activations > alone.memory.activations
    # over fsdp:2 each device has half of what is cut, and gathers the other half for each micro-batch, once
    held = cut.memory.optimizer - both[1][0].memory.optimizer
    assert whole / 2 < held < 0.6 * whole
    assert cut.traffic.gathers - both[1][0].traffic.gathers == pytest.approx(4 * (whole - held))
    assert cut.traffic.reductions == both[1][0].traffic.reductions
    # a forward pass of each of 64 images: 49 patches, then 50 tokens through products with weights and attention's two;
    # and the student's head stands twice in the trace of its logits by head
    layer = 50 * (4 * 16**2 + 2 * 16 * 32) + 2 * 50 * 50 * 16
    assert beside.flops - alone.flops == 64 * 2 * (49 * 16 * 16 + 2 * layer + 16 * 10 + 48 * 10)


def test_in_place_of_a_model_to_learn_from_that_is_not_at_hand_one_like_the_student_is_planned():
    drawn = blueprint(resolve("vit/fashion_mnist:distilled", complete=False).experiment, "cpu")
    assert drawn.layout({"data": 2}).frozen == 4 * drawn.parameters
    note = "to learn from, a model like this one assumed (--config.objective.teacher=CKPT states it)"
    assert note in drawn.notes


def test_layers_that_devices_share_sum_their_activations(draw):
    # 4 heads over tensor:2: attention's and the MLP's outputs are sums of two parts, forward, and so are the gradients
    # of what both are given, backward: four sums a layer, one more where attention is computed again
    changes = ("model.depth=2", "model.width=48", "model.num_heads=4", "model.mlp_dim=192", "model.vocabulary_size=65")
    drawn = draw("gpt", "cpu", *changes)
    tokens = 256 // 4 * 12 * 48 * 4  # bytes of a device's activations
    by_remat = [sent(drawn, (4, 1, 2, 1), remat).tensor / (2 * 1 / 2 * tokens) for remat in ("none", "full")]
    assert by_remat == pytest.approx([2 * 4, 2 * 5])
    assert sent(drawn, (8, 1, 1, 1)).tensor == 0
