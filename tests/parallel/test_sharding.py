import re

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from vitzoo.errors import UserError
from vitzoo.nn.constrain import constrain
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.optim.build import build
from vitzoo.optim.optimizers import SGD, Adafactor, AdamW
from vitzoo.parallel.mesh import make_mesh
from vitzoo.parallel.sharding import (
    activations,
    batch_sharding,
    bytes_per_device,
    optimizer_shardings,
    param_shardings,
    put,
    rows_of_this_process,
    rules_of,
)

RULES = (
    (r".*/(query|key|value)/kernel", ("embed", "heads", "head_dim")),
    (r".*/up/kernel|head/kernel", ("embed", "mlp")),
    (r".*/down/kernel", ("mlp", "embed")),
    (r".*", ()),
)


def shapes(**leaves):
    return unflatten(
        {
            path.replace("__", "/").replace("LAYERS", "*"): jax.ShapeDtypeStruct(shape, np.float32)
            for path, shape in leaves.items()
        }
    )


def specs(tree):
    return {path: place.spec for path, place in flatten(tree).items()}


def mesh(spec="data:2,fsdp:2,tensor:2"):
    return make_mesh(spec, jax.devices())


def test_logical_axes_go_to_mesh_axes_behind_the_layer_axis():
    tree = shapes(
        encoder__blocks__LAYERS__mlp__up__kernel=(4, 16, 64),
        encoder__blocks__LAYERS__norm__scale=(4, 16),
        head__kernel=(16, 10),
    )
    assert specs(param_shardings(tree, RULES, mesh())) == {
        "encoder/blocks/*/mlp/up/kernel": P(None, "fsdp", "tensor"),
        "encoder/blocks/*/norm/scale": P(None, None),
        "head/kernel": P("fsdp", "tensor"),
    }


def test_a_dimension_that_does_not_divide_falls_back_to_the_largest_that_does():
    tree = shapes(a__up__kernel=(6, 24), a__down__kernel=(7, 9), blocks__LAYERS__query__kernel=(8, 12, 3, 16))
    assert specs(param_shardings(tree, RULES, mesh("fsdp:8"))) == {
        "a/up/kernel": P(None, "fsdp"),
        "a/down/kernel": P(None, None),
        "blocks/*/query/kernel": P(None, None, None, "fsdp"),
    }
    found = specs(param_shardings(tree, RULES, mesh("data:4,tensor:2")))
    assert found["blocks/*/query/kernel"] == P(None, None, None, "tensor")  # 3 heads don't divide by 2


def test_every_dimension_is_divided_evenly_whatever_the_shape():
    generator = np.random.default_rng(0)
    for _ in range(50):
        tree = shapes(blocks__LAYERS__query__kernel=tuple(int(n) for n in generator.integers(1, 40, 4)))
        place = flatten(param_shardings(tree, RULES, mesh()))["blocks/*/query/kernel"]
        place.shard_shape(tree["blocks"]["*"]["query"]["kernel"].shape)  # raises where it doesn't


def test_a_leaf_without_a_row_in_the_table_is_refused_by_name():
    with pytest.raises(UserError, match=r"no rule matches encoder/blocks/\*/new/kernel"):
        param_shardings(shapes(encoder__blocks__LAYERS__new__kernel=(2, 4, 4)), RULES[:-1], mesh())


@pytest.mark.parametrize("axes", [("embed",), ("embed", "wings")])
def test_a_row_that_does_not_fit_its_leaf_is_refused(axes):
    with pytest.raises(UserError, match="SHARDING_RULES = head/kernel"):
        param_shardings(shapes(head__kernel=(4, 4)), [("head/kernel", axes)], mesh())


@pytest.mark.parametrize("rules", [[("head/.*", "embed")], [("head/.*",)], ["head/.*"], {"head/.*": None}, [(1, None)]])
def test_rules_of_another_form_are_refused(rules):
    with pytest.raises(UserError, match=r'rows are \(path, axes\).* \("head/kernel", \("embed", "classes"\)\)'):
        rules_of(type("MyModel", (), {"SHARDING_RULES": rules}))


def test_a_model_without_rules_is_whole_everywhere_and_none_says_so_for_a_leaf():
    tree = shapes(head__kernel=(8, 8), out__kernel=(8, 8))
    assert set(specs(param_shardings(tree, rules_of(object), mesh())).values()) == {P(None, None)}
    found = specs(param_shardings(tree, [("head/.*", None), (".*", ("embed", "classes"))], mesh()))
    assert found == {"head/kernel": P(None, None), "out/kernel": P("fsdp", "tensor")}


def test_every_parameter_of_every_kind_of_vit_matches_exactly_one_row():
    from vitzoo.models.vit import Config, ViT
    from vitzoo.nn.state import abstract

    kinds = [{"positions": kind} for kind in ("learned1d", "learned2d", "relative", "relative_bias", "rotary")]
    more = {"registers": 2, "layer_scale": 0.1, "qk_norm": True, "pre_logits": True}
    for changes in [*kinds, {"pooling": "map", **more}, {"pooling": "gap", "norm_after_pooling": True, **more}]:
        config = Config.from_variant("Ti/16", num_classes=10, depth=2, image_size=32, **changes)
        _, params = abstract(lambda rngs, config=config: ViT(config, rngs=rngs))
        for path in flatten(params):
            rows = [row for row, _ in ViT.SHARDING_RULES if re.fullmatch(row, path)]
            assert len(rows) == 1, (path, rows)
        param_shardings(params, ViT.SHARDING_RULES, mesh())


def test_optimizer_leaves_lie_as_their_parameters_do():
    params = shapes(
        encoder__blocks__LAYERS__mlp__up__kernel=(4, 64, 32),
        encoder__blocks__LAYERS__mlp__up__bias=(4, 32),
        head__kernel=(64, 64),
    )
    places = param_shardings(params, RULES, mesh())

    def found(optimizer):
        tx = build(optimizer, lambda step: 0.1, params)
        state = jax.eval_shape(lambda params: tx.init(tx.partition(params)[0]), params)
        return specs(optimizer_shardings(state, params, places))

    adam = found(AdamW())
    assert adam["method/mu/encoder/blocks/*/mlp/up/kernel"] == P(None, "fsdp", "tensor")
    assert adam["method/nu/head/kernel"] == P("fsdp", "tensor")
    assert adam["method/count"] == adam["updates"] == P()
    parted = found(AdamW(freeze=(".*/blocks/0/.*",)))  # of three layers
    assert parted["method/mu/encoder/blocks/*/mlp/up/kernel"] == P(None, "fsdp", "tensor")
    assert found(SGD())["method/trace/head/kernel"] == P("fsdp", "tensor")
    factored = found(Adafactor(min_factored_size=32))
    # rows keep the axis that is left when the larger is averaged away, columns the other one
    assert factored["method/layers_4/0/v_row/encoder/blocks/*/mlp/up/kernel"] == P(None, "tensor")
    assert factored["method/layers_4/0/v_col/encoder/blocks/*/mlp/up/kernel"] == P(None, "fsdp")
    assert factored["method/single/0/v_row/head/kernel"] == P("fsdp")
    assert factored["method/single/0/v_col/head/kernel"] == P("tensor")
    assert factored["method/single/0/v/head/kernel"] == P()
    assert factored["method/single/3/ema/head/kernel"] == P("fsdp", "tensor")


def test_fsdp_divides_the_bytes_of_a_kernel():
    params = shapes(head__kernel=(64, 128))
    assert bytes_per_device(params, param_shardings(params, RULES, mesh("fsdp:8"))) == 64 * 128 * 4 // 8
    assert bytes_per_device(params, param_shardings(params, RULES, mesh("data:8"))) == 64 * 128 * 4


def test_a_batch_is_spread_over_data_and_fsdp_and_comes_back_as_it_was():
    batch = {
        "image": np.arange(16 * 4, dtype=np.uint8).reshape(16, 2, 2, 1),
        "label": np.arange(16, dtype=np.int32),
        "id": np.arange(16) + 2**40,
    }
    there = put(batch, mesh())
    assert sorted(there) == ["image", "label"]
    assert there["image"].sharding.shard_shape((16, 2, 2, 1)) == (4, 2, 2, 1)
    assert there["image"].dtype == np.uint8
    np.testing.assert_array_equal(np.asarray(there["image"]), batch["image"])


def test_devices_along_sequence_hold_the_same_rows_and_the_same_state():
    sequence = mesh("data:2,sequence:4")
    ids = np.arange(16 * 8, dtype=np.int32).reshape(16, 8)
    there = put({"ids": ids}, sequence)["ids"]
    for shard in there.addressable_shards:
        row = np.argwhere(sequence.device_ids == shard.device.id)[0][0]  # `data` is the first axis
        np.testing.assert_array_equal(shard.data, ids[8 * row : 8 * row + 8])
    shapes = {"head": {"kernel": jax.ShapeDtypeStruct((16, 8), np.float32)}}
    rules = ((".*", ("embed", "classes")),)
    assert specs(param_shardings(shapes, rules, sequence)) == {"head/kernel": P(None, None)}


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((8, 8, 4), ("batch", "tokens", None), P("data", "sequence")),
        ((8, 8, 4, 3), ("batch", "tokens", "heads", None), P("data", "sequence")),
        ((8, 6, 4), ("batch", "tokens", None), P("data")),  # 6 tokens over 4 devices stay whole
        ((8, 8, 4, 3), ("batch", None, "heads", None), P("data")),  # keys, which every query needs
    ],
)
def test_tokens_lie_over_sequence_where_they_divide(shape, axes, expected):
    sequence = mesh("data:2,sequence:4")

    def spread(x):
        with activations(sequence):
            return constrain(x * 2, axes)

    out = jax.jit(spread)(np.ones(shape, np.float32))
    assert out.sharding.is_equivalent_to(jax.NamedSharding(sequence, expected), len(shape))


def test_one_process_loads_every_row():
    for spec in ("data:8", "fsdp:8", "data:2,fsdp:2,tensor:2", "tensor:8", "sequence:8", "data:2,sequence:4"):
        assert rows_of_this_process(16, mesh(spec)) == slice(0, 16)
    assert rows_of_this_process(3, make_mesh("auto", jax.devices()[:1])) == slice(0, 3)


def test_activations_are_laid_over_the_mesh_while_tracing():
    def spread(x):
        with activations(mesh()):
            return constrain(x * 2, ("batch", None, "mlp"))

    out = jax.jit(spread)(np.ones((8, 3, 4), np.float32))
    assert out.sharding.is_equivalent_to(jax.NamedSharding(mesh(), P(("data", "fsdp"), None, "tensor")), 3)
    assert batch_sharding(mesh()).shard_shape((8, 3, 4)) == (2, 3, 4)
