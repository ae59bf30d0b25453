"""Checkpoints of t5x, written here with TensorStore and msgpack, or by Orbax, as t5x writes them."""

from pathlib import Path

import flax.serialization
import ml_dtypes
import numpy as np
import orbax.checkpoint
import pytest
import tensorstore
from published import read, refused

from vitzoo.errors import UserError
from vitzoo.nn.paths import unflatten
from vitzoo.weights.files.open import is_published, open_weights_file
from vitzoo.weights.formats.registry import recognise
from vitzoo.weights.mapping import read_mapping

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
NORMS = {"encoder": ("pre_attention_layer_norm", "pre_mlp_layer_norm")}
NORMS["decoder"] = ("pre_self_attention_layer_norm", "pre_cross_attention_layer_norm", "pre_mlp_layer_norm")
ATTENTIONS = {"encoder": {"SelfAttention": "attention"}}
ATTENTIONS["decoder"] = {"SelfAttention": "self_attention", "EncDecAttention": "encoder_decoder_attention"}
PARTS = {"q": "query", "k": "key", "v": "value", "o": "out"}


@pytest.fixture(scope="module")
def ours():
    """Golden T5s: their arrays by transformers' names, and ours by path."""

    def get(name):
        source = open_weights_file(str(GOLDENS / name))
        reading = recognise(source).read(source, {})
        return source.tensors, read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)[0]

    return {name: get(name) for name in ("t5", "t5_v1_1")}


def as_t5x(tensors):
    """The same arrays under t5x's names, layers numbered."""
    found = {"token_embedder/embedding": tensors["shared.weight"]}
    if "lm_head.weight" in tensors:
        found["decoder/logits_dense/kernel"] = tensors["lm_head.weight"].T
    for stack, depth in (("encoder", 2), ("decoder", 1)):
        table = tensors[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        found[f"{stack}/relpos_bias/rel_embedding"] = table.T
        found[f"{stack}/{stack}_norm/scale"] = tensors[f"{stack}.final_layer_norm.weight"]
        for index in range(depth):
            theirs, mine = f"{stack}.block.{index}.layer", f"{stack}/layers_{index}"
            for place, (attention, name) in enumerate(ATTENTIONS[stack].items()):
                for part, named in PARTS.items():
                    found[f"{mine}/{name}/{named}/kernel"] = tensors[f"{theirs}.{place}.{attention}.{part}.weight"].T
            for place, norm in enumerate(NORMS[stack]):
                found[f"{mine}/{norm}/scale"] = tensors[f"{theirs}.{place}.layer_norm.weight"]
            last = f"{theirs}.{len(NORMS[stack]) - 1}.DenseReluDense."
            for name in (name for name in tensors if name.startswith(last)):
                found[f"{mine}/mlp/{name.removeprefix(last).partition('.')[0]}/kernel"] = tensors[name].T
    return found


def scanned(arrays, heads=3):
    """Layers stacked on axis 1 and heads apart, with the one table of distances for each layer."""
    stacks: dict[str, list[np.ndarray]] = {}
    found = {}
    for name, array in arrays.items():
        stack, _, rest = name.partition("/layers_")
        if rest:
            path = rest.partition("/")[2]
            if "attention" in path and path.endswith("kernel"):
                joined = path.endswith("out/kernel")
                array = array.reshape(heads, -1, array.shape[-1]) if joined else array.reshape(len(array), heads, -1)
            stacks.setdefault(f"{stack}/{stack}/{path}", []).append(array)
        elif name.endswith("rel_embedding"):
            depth = 2 if name.startswith("encoder") else 1
            found[name.replace("/", f"/{stack.partition('/')[0]}/", 1)] = np.stack([array] * depth, 1)
        else:
            found[name] = array
    return found | {name: np.stack(layers, 1) for name, layers in stacks.items()}


def write(folder, arrays, *, ocdbt=False, inside=(), version=3):
    """A checkpoint: an array in a folder of its own, or in one store, and the file that says where."""
    folder.mkdir(parents=True)
    store = {"driver": "file", "path": f"{folder}/"}
    store = {"driver": "ocdbt", "base": store} if ocdbt else store
    target: dict = {}
    for name, array in arrays.items():
        path = f"target.{name.replace('/', '.')}"
        where = {"driver": "zarr", "dtype": array.dtype.name, "kvstore": {"driver": "file", "path": path}}
        *above, last = name.split("/")
        node = target
        for part in above:
            node = node.setdefault(part, {})
        node[last] = np.ascontiguousarray(array) if name in inside else where
        if name not in inside:
            spec = {"driver": "zarr", "kvstore": {**store, "path": f"{store.get('path', '')}{path}/"}}
            spec["metadata"] = {"compressor": {"id": "gzip"}, "chunks": [max(1, n // 2) for n in array.shape]}
            made = tensorstore.open(spec, create=True, dtype=array.dtype.name, shape=array.shape).result()
            made.write(np.ascontiguousarray(array)).result()
    content = {"version": version, "optimizer": {"target": target, "state": {"step": np.int32(7)}}}
    (folder / "checkpoint").write_bytes(flax.serialization.msgpack_serialize(content))
    return folder


def write_orbax(folder, arrays, *, ocdbt=False, inside=None):
    """A newer checkpoint, whose folder `state` is Orbax's; with `inside`, its older index, which holds these itself."""
    spread = unflatten({name: np.ascontiguousarray(x) for name, x in arrays.items() if name not in (inside or ())})
    tree = {"target": spread, "state": {"step": np.int32(7), "param_states": {"v": np.ones(3, np.float32)}}}
    handler = orbax.checkpoint.PyTreeCheckpointHandler(use_ocdbt=ocdbt)
    with orbax.checkpoint.Checkpointer(handler) as checkpointer:
        checkpointer.save(folder / "state", args=orbax.checkpoint.args.PyTreeSave(tree))
    if inside is not None:
        (folder / "state" / "_METADATA").unlink()
        named: dict = {name: f"PLACEHOLDER://target.{name.replace('/', '.')}" for name in arrays}
        named |= {name: np.ascontiguousarray(arrays[name]) for name in inside}
        index = {"target": unflatten(named), "state": {"step": np.int32(7)}}
        (folder / "state" / "checkpoint").write_bytes(flax.serialization.msgpack_serialize(index))
    return folder


def leaves(folder):
    source = open_weights_file(str(folder))
    form = recognise(source)
    assert form.name == "t5x"
    reading = form.read(source, {})
    return reading, read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)[0]


def check(folder, expected):
    reading, found = leaves(folder)
    assert found.keys() == expected.keys()
    for path, leaf in expected.items():
        np.testing.assert_array_equal(found[path], leaf)
    return reading


@pytest.mark.parametrize("name", ["t5", "t5_v1_1"])
def test_numbered_layers(name, ours, tmp_path):
    tensors, expected = ours[name]
    folder = write(tmp_path / "checkpoint_7", as_t5x(tensors), inside=("encoder/encoder_norm/scale",))
    assert is_published(str(folder))
    reading = check(folder, expected)
    wanted = {"tied_head": name == "t5", "gated_mlp": name != "t5", "num_heads": 3, "head_dim": 4, "mlp_dim": 14}
    assert wanted.items() <= reading.model.items()
    assert "max_distance 128" in reading.notes[0]
    assert read(folder)[2].encoder_depth == 2


def test_stacked_layers_with_heads_apart_and_one_store_for_all(ours, tmp_path):
    tensors, expected = ours["t5_v1_1"]
    folder = write(tmp_path / "checkpoint_7", scanned(as_t5x(tensors)), ocdbt=True)
    reading = check(folder, expected)
    assert (reading.model["encoder_depth"], reading.model["decoder_depth"], reading.model["head_dim"]) == (2, 1, 4)


@pytest.mark.parametrize(
    ("scan", "how"),
    [(False, {}), (True, {}), (True, {"ocdbt": True}), (False, {"inside": ("encoder/encoder_norm/scale",)})],
    ids=["numbered", "scanned", "one store", "older index"],
)
def test_newer_checkpoints_whose_state_is_orbaxs(scan, how, ours, tmp_path):
    tensors, expected = ours["t5_v1_1"]
    arrays = as_t5x(tensors)
    folder = write_orbax(tmp_path / "checkpoint_7", scanned(arrays) if scan else arrays, **how)
    for named in (folder, folder / "state"):
        assert is_published(str(named))
        check(named, expected)


def test_a_newer_checkpoint_that_is_cut_or_of_another_program_is_refused(ours, tmp_path):
    state = write_orbax(tmp_path / "checkpoint_7", as_t5x(ours["t5"][0])) / "state"
    (state / "target.token_embedder.embedding" / "0.0").write_bytes(b"x")
    assert "can't be read within target.token_embedder.embedding (" in refused(state.parent)
    (state / "_METADATA").unlink()
    assert "has no index (checkpoint or _METADATA): it isn't the whole checkpoint" in refused(state.parent)
    assert "has nothing below encoder2; there are decoder, encoder, token_embedder" in refused(
        f"{write(tmp_path / 'old', as_t5x(ours['t5'][0]))}:encoder2"
    )
    handler = orbax.checkpoint.PyTreeCheckpointHandler()
    with orbax.checkpoint.Checkpointer(handler) as checkpointer:
        tree = {"params": {"kernel": np.ones(3, np.float32)}}
        checkpointer.save(tmp_path / "other" / "state", args=orbax.checkpoint.args.PyTreeSave(tree))
    assert not is_published(str(tmp_path / "other"))


def test_bfloat16_is_read(ours, tmp_path):
    arrays = {name: array.astype(ml_dtypes.bfloat16) for name, array in as_t5x(ours["t5"][0]).items()}
    _, found = leaves(write(tmp_path / "c", arrays))
    table = ours["t5"][1]["embedding/table"].astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(found["embedding/table"], table)


def test_a_table_of_distances_in_every_layer_is_refused(ours, tmp_path):
    arrays = scanned(as_t5x(ours["t5"][0]))
    name = "encoder/encoder/relpos_bias/rel_embedding"
    arrays[name] = arrays[name] + np.arange(2)[:, None]
    with pytest.raises(UserError, match="has a table of distances in every layer of its encoder"):
        leaves(write(tmp_path / "c", arrays))


def test_a_missing_array_an_older_version_and_damage_are_refused(ours, tmp_path):
    arrays = as_t5x(ours["t5"][0])
    lost = {name: array for name, array in arrays.items() if name != "decoder/layers_0/mlp/wo/kernel"}
    with pytest.raises(UserError, match="it misses decoder/layers_0/mlp/wo/kernel"):
        leaves(write(tmp_path / "lost", lost))
    with pytest.raises(UserError, match="is of version 2 of t5x's format; only 3 is read"):
        leaves(write(tmp_path / "old", arrays, version=2))
    damaged = write(tmp_path / "damaged", arrays)
    (damaged / "checkpoint").write_bytes(b"\x81")
    with pytest.raises(UserError, match="checkpoint is no index of t5x"):
        leaves(damaged)
    cut = write(tmp_path / "cut", arrays)
    (cut / "target.token_embedder.embedding" / "0.0").write_bytes(b"x")
    with pytest.raises(UserError, match=r"can't be read within target.token_embedder.embedding") as caught:
        leaves(cut)
    assert "\n" not in str(caught.value)
