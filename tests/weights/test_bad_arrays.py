"""Arrays that aren't what their names say: of another type, rank or shape, or with numbers that aren't finite; in files
of every kind and under every format's names. Each is refused by its name, in one line."""

import dataclasses
import json
import math
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path

import made_checkpoint
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
from made_checkpoint import random_params
from published import copied, refused
from test_t5x import as_t5x, scanned, write

import vitzoo
from vitzoo.checkpoints import arrays as saved
from vitzoo.config.assembly import from_description
from vitzoo.errors import UserError
from vitzoo.nn import paths
from vitzoo.weights.files import arrays as archives
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.files.weights import Tensors
from vitzoo.weights.formats.registry import recognise
from vitzoo.weights.mapping import read_mapping
from vitzoo.weights.open import open_weights, read_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
PUBLISHED = (
    *("gpt1", "gpt2", "nanogpt/ckpt.pt", "t5_v1_1", "bert", "bert_tags", "hf-vit/new_dinov2_giant", "hf-vit/siglip"),
    *("timm-vit/qk_norm", "timm-vit/so150m_map", "facebook-vit/deit_distilled/deit_distilled.pth"),
    *("torchvision-vit/representation/vit.pth", "vit-pytorch/cls/vit.pt", "vit-pytorch/simple/vit.pt"),
    *("vision_transformer/training.npz", "big_vision/separate.npz"),
)
ALONE = ("facebook-vit", "torchvision-vit", "vit-pytorch")
"""Those that don't say their heads, nor all of them their image's size."""
RANKS = {
    "one more": lambda array: array[None],
    "one more at the end": lambda array: array[..., None],
    "a row": lambda array: array.ravel(),
    "a scalar": lambda array: array.reshape(-1)[0],
    "no rows": lambda array: array[:0],
    "a row more": lambda array: np.concatenate([array, array[:1]]),
}
VALUES = {
    "int32": lambda array: array.astype(np.int32),
    "bool": lambda array: array > 0,
    "complex64": lambda array: array.astype(np.complex64),
    "datetime64[s]": lambda array: array.astype("datetime64[s]"),
    "<U3": lambda array: array.astype("U3"),
    "|V4": lambda array: np.ascontiguousarray(array).view("V4"),
    "[('a', '<i2'), ('b', '<i2')]": lambda array: np.ascontiguousarray(array).view([("a", "<i2"), ("b", "<i2")]),
    "NaN": lambda array: np.where(array == array.flat[0], np.nan, array).astype(np.float32),
    "infinite": lambda array: np.where(array == array.flat[0], -np.inf, array).astype(ml_dtypes.bfloat16),
    "infinite as float32": lambda array: np.where(array == array.flat[0], 1e300, array.astype(np.float64)),
}


@pytest.fixture(scope="module")
def opened():
    """Opens a golden once: what is published, its arrays in memory, and the shapes of the model's leaves."""

    def get(name):
        given = {"num_heads": 3} if name.startswith(ALONE) else {}
        given |= {"image_size": (6, 4)} if "simple" in name else {}
        located = open_weights(str(GOLDENS / name), given)
        _, shapes = from_description(located.description).abstract
        shapes = {path: leaf.shape for path, leaf in paths.flatten(shapes).items()}
        return located, dict(located.source.tensors), shapes

    return get


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_array_of_another_rank_shape_or_kind_is_refused_by_its_name(name, opened):
    located, arrays, shapes = opened(name)
    reading = located.reading
    assert read_mapping(reading.mapping, arrays, reading.ignored, name, shapes)[0].keys() == shapes.keys()
    kinds = list(VALUES.items())
    for number, row in enumerate(reading.mapping):
        names = row.files_names()
        key, whole = names[number % len(names)], {name: arrays[name] for name in names}
        for what, change in [*RANKS.items(), kinds[number % len(kinds)]]:
            changed = change(arrays[key])
            if changed.shape == arrays[key].shape and what in RANKS:
                continue  # a row is one already
            with pytest.raises(UserError) as caught:
                read_mapping([row], {**whole, key: changed}, (), name, shapes)
            line = str(caught.value)
            assert "\n" not in line
            assert line.startswith(f"checkpoint = {name}: has ")
            # where the first layer is the odd one, the second is named
            assert any(one in line for one in (key, names[min(1, len(names) - 1)])), (what, line)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", ["gpt2", "big_vision/separate.npz"])
def test_what_no_number_of_weights_is_gets_its_own_message(kind, name, opened):
    located, arrays, shapes = opened(name)
    key = located.reading.mapping[2].files_names()[0]
    with pytest.raises(UserError) as caught:
        read_mapping(
            located.reading.mapping, {**arrays, key: VALUES[kind](arrays[key])}, located.reading.ignored, name, shapes
        )
    expected = "with numbers that aren't finite (NaN" if "NaN" in kind or "infinite" in kind else f"of type {kind}"
    assert f"has {key} {expected}" in str(caught.value)


def as_read(folder):
    return read_weights(open_weights(str(folder)))[0]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64", ">f4"])
def test_every_type_of_weights_is_read_as_float32(kind, tmp_path):
    archive = tmp_path / "a.npz"
    with np.load(GOLDENS / "big_vision" / "separate.npz") as file:
        changed = {key: array.astype(kind) for key, array in file.items()}
    np.savez(archive, **{key: array.view("V2") if kind == "bfloat16" else array for key, array in changed.items()})
    found = paths.flatten(as_read(archive))
    np.testing.assert_array_equal(found["patch_embedding/kernel"], changed["embedding/kernel"].astype(np.float32))
    assert {leaf.dtype for leaf in found.values()} == {np.dtype(np.float32)}


def test_ignored_arrays_may_hold_anything(tmp_path):
    more = {
        "bert.embeddings.position_ids": np.arange(16)[None],
        "bert.embeddings.token_type_ids": np.ones((1, 16), bool),
    }
    assert as_read(copied(GOLDENS / "bert", tmp_path, arrays=more))


TIES = {"gpt2": "lm_head.weight", "gpt1": "lm_head.weight", "t5": "lm_head.weight"}
TIES |= {"bert_masked": "cls.predictions.decoder.weight", "mt5": "encoder.embed_tokens.weight"}
TABLES = {
    "gpt2": "wte.weight",
    "gpt1": "transformer.tokens_embed.weight",
    "t5": "shared.weight",
    "mt5": "shared.weight",
}


@pytest.mark.parametrize("name", TIES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_tied_copy_that_is_not_finite_is_no_head_of_its_own(name, value, tmp_path):
    table = TABLES.get(name, "bert.embeddings.word_embeddings.weight")

    def copy(arrays):
        odd = arrays[table].copy()
        odd[0, 0] = value
        return {**arrays, TIES[name]: odd}

    line = refused(copied(GOLDENS / name, tmp_path / "copy", arrays=copy))
    assert f"has {TIES[name]} with numbers that aren't finite" in line


# ------------------------------------------------------------------------------------------------- safetensors


def test_types_that_numpy_lacks_are_refused_by_name_and_only_where_they_are_used(tmp_path):
    arrays = safetensors.numpy.load_file(GOLDENS / "bert" / "model.safetensors")
    for name in ("bert.embeddings.position_ids", "cls.predictions.bias"):
        folder = copied(GOLDENS / "bert", tmp_path / name)
        (folder / "model.safetensors").write_bytes(safetensors.numpy.save({**arrays, name: np.ones(20, np.uint8)}))
        content = bytearray((folder / "model.safetensors").read_bytes())
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        header[name]["dtype"] = "F8_E4M3"
        written = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + content[8 + size :])
        if name == "bert.embeddings.position_ids":
            assert as_read(folder)
        else:
            with pytest.raises(UserError, match=rf"has {name} of type F8_E4M3, which can't be read"):
                as_read(folder)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("model.safetensors.index.json", "which is an index, not weights"),
        ("x" * 5000, "which isn't there"),
        ("a\0b", "which isn't there"),
        ("/etc/passwd", "which isn't a file beside it"),
        (7, "which isn't a file beside it"),
    ],
)
def test_an_index_names_files_of_weights_beside_it(bad, why, tmp_path):
    folder = copied(GOLDENS / "gpt2", tmp_path)
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    names = list(open_weights_file(str(folder / "part.safetensors")).tensors)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names[1:], "part.safetensors")}))
    assert (
        list(open_weights_file(str(folder)).tensors) == names
    )  # what a file holds beside what the index says is there too
    index.write_text(json.dumps({"weight_map": {**dict.fromkeys(names, "part.safetensors"), names[0]: bad}}))
    line = refused(folder)
    assert why in line
    assert len(line) < 500
    index.write_text(
        json.dumps({"weight_map": {**dict.fromkeys(names, "part.safetensors"), "a\nb": "part.safetensors"}})
    )
    assert r"part.safetensors lacks 'a\nb', which model.safetensors.index.json says it has" in refused(folder)


def test_two_parts_of_an_index_may_not_hold_one_array(tmp_path):
    folder = copied(GOLDENS / "gpt2", tmp_path)
    (folder / "other.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    where = {"wte.weight": "model.safetensors", "wpe.weight": "other.safetensors"}
    (folder / "x.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    with pytest.raises(UserError, match=r"other.safetensors and model.safetensors both hold h\.0"):
        open_weights_file(str(folder / "x.safetensors.index.json"))


@pytest.mark.parametrize("name", ["a\nb", "x" * 3000, "\u202e"])
def test_names_that_no_message_could_show_are_refused(name, tmp_path):
    np.savez(tmp_path / "a.npz", **{name: np.ones(2, np.float32)})
    with pytest.raises(UserError, match=r"holds an array with the name '.*', which no weights have"):
        open_weights_file(str(tmp_path / "a.npz"))


# --------------------------------------------------------------------------------------------------------- npz


def archive(path, **entries):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


def entry(header, numbers=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + numbers


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2**40,)}", "its header is no array's|malformed"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 8)}", "tells of 35,184,372,088,832 bytes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -2)}", "damaged within x"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "tells of 12 bytes of numbers, and there are 8"),
        ("{'descr': '|S0', 'fortran_order': False, 'shape': (2,)}", "has descr = [|]S0, which is no number's"),
        ("(" * 900, "damaged within x"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "holds objects"),
        ("7", "damaged within x"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2)}", r"has shape = \(True, 2\); up to 32 sizes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, False)}", r"has shape = \(2, False\); up to 32 sizes"),
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", "its header is no array's"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "its header is no array's"),
        ("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': ()}", "has descr = .*, which is no number's"),
        ("{'descr': '<U1000000', 'fortran_order': False, 'shape': ()}", "which is no number's"),
        (f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 40}}}", "up to 32 sizes are right"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}", "its header is no array's"),
    ],
)
def test_an_archives_header_that_claims_what_is_not_there_costs_nothing(header, why, tmp_path):
    file = archive(tmp_path / "a.npz", x=entry(header, bytes(8)))
    tracemalloc.start()
    with pytest.raises(UserError, match=why) as caught:
        open_weights_file(str(file)).tensors["x"]
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("length", [10_001, 60_000, 2**26])
def test_a_header_that_is_longer_than_any_costs_nothing(version, length, tmp_path):
    if version == 1 and length >= 2**16:
        length = 2**16 - 1
    start = b"\x93NUMPY" + bytes([version, 0]) + struct.pack({1: "<H", 2: "<I"}[version], length)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", start + b" " * length)
    tracemalloc.start()
    with pytest.raises(UserError, match="damaged within x"):
        open_weights_file(str(tmp_path / "a.npz"))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def packed(path, arrays):
    """An archive of zeros of these shapes, which takes a thousandth of them on disk."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, shape in arrays.items():
            header = str({"descr": "<f4", "fortran_order": False, "shape": shape})
            with file.open(f"{name}.npy", "w", force_zip64=True) as into:
                into.write(entry(header))
                for _ in range(0, 4 * math.prod(shape), 2**20):
                    into.write(bytes(2**20))
    return path


def test_an_archive_that_would_grow_without_measure_is_refused_by_its_largest_array(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "ALWAYS_FINE", 2**23)
    file = packed(tmp_path / "a.npz", {"small": (2**18,), "Transformer/posembed_input/pos_embedding": (1, 2**13, 2**9)})
    with pytest.raises(
        UserError, match=r"would grow from [\d,]+ to 17,\d+,\d+ bytes, most of them Transformer/posembed"
    ):
        open_weights_file(str(file))


@pytest.mark.parametrize("path", ["surplus", "head/bias"])
def test_a_checkpoint_of_zeros_without_measure_is_refused_before_they_are_read(path, tmp_path, monkeypatch):
    def with_zeros(config, seed=0):
        return paths.unflatten({**paths.flatten(random_params(config, seed)), path: np.zeros(2**22, np.float32)})

    monkeypatch.setattr(saved, "ALWAYS_FINE", 2**22)
    monkeypatch.setattr(made_checkpoint, "random_params", with_zeros)
    made_checkpoint.make_run(tmp_path / "run", ema=False)
    monkeypatch.setattr(ocp.Checkpointer, "restore", lambda *_, **__: pytest.fail("numbers were read"))
    with pytest.raises(
        UserError, match=rf"would grow from [\d,]+ to 16,\d+,\d+ bytes, most of them {path}: no weights"
    ):
        vitzoo.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("embedding/bias", 0),
        ("Transformer/encoderblock_0/LayerNorm_0/scale", 0),
        ("head/bias", 0),
        ("pos_embedding", 2),
    ],
)
def test_a_shape_that_the_model_cannot_have_is_refused_before_any_numbers_are_read(name, axis, tmp_path, monkeypatch):
    with np.load(GOLDENS / "big_vision" / "separate.npz") as golden:
        arrays = dict(golden)
    shape = [side * 2**14 if place == axis else side for place, side in enumerate(arrays[name].shape)]
    larger = np.broadcast_to(np.float32(0), shape)
    np.savez_compressed(tmp_path / "a.npz", **{**arrays, name: larger})
    read = []
    whole = archives._array
    monkeypatch.setattr(archives, "_array", lambda *told: read.append(told[2]) or whole(*told))
    with pytest.raises(UserError, match=r"has .+ of shape"):
        as_read(tmp_path / "a.npz")
    assert name not in read


@pytest.mark.parametrize("where", ["an array", "a setting of it", "the settings of the file"])
def test_a_safetensors_header_that_names_something_twice_is_refused(where, tmp_path):
    folder = copied(GOLDENS / "gpt2", tmp_path)
    content = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].decode().strip()
    name, about = next((name, one) for name, one in json.loads(header).items() if name != "__metadata__")
    if where == "an array":
        header = header[:-1] + f', "{name}": {json.dumps(about)}}}'
    elif where == "a setting of it":
        header = header.replace('"dtype":', '"dtype":"F32","dtype":', 1)
    else:
        header = header.replace("{", '{"__metadata__":{"format":"pt","format":"np"},', 1).replace(
            ',"__metadata__":{"format":"pt"}', ""
        )
    (folder / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header.encode() + content[8 + length :]
    )
    assert re.search(r"is no safetensors file, or cut off \(names the field '.+' twice\)", refused(folder))


def test_an_archive_names_an_array_once_and_keeps_its_order(tmp_path):
    twice = tmp_path / "twice.npz"
    content = entry("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", bytes(8))
    with zipfile.ZipFile(twice, "w") as file:
        file.writestr("x.npy", content)
        file.writestr("x", content)
    with pytest.raises(UserError, match="holds x twice"):
        open_weights_file(str(twice))
    arrays = {
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalar": np.float32(3),
        "none": np.ones((0, 2)),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = open_weights_file(str(tmp_path / "a.npz")).tensors
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


# --------------------------------------------------------------------------------------------------------- t5x


def test_t5x_arrays_with_a_lost_chunk_or_a_size_without_end_are_refused(tmp_path):
    tensors = open_weights_file(str(GOLDENS / "t5")).tensors
    folder = write(tmp_path / "lost", as_t5x(tensors))
    (folder / "target.encoder.encoder_norm.scale" / "1").unlink()
    assert "can't be read within target.encoder.encoder_norm.scale" in refused(folder)
    folder = write(tmp_path / "large", as_t5x(tensors))
    about = folder / "target.encoder.encoder_norm.scale" / ".zarray"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"shape": [2**45]}))
    grown = r"would grow from [\d,]+ to 140,737,488,[\d,]+ bytes, most of them target.encoder.encoder_norm.scale"
    assert re.search(grown, refused(folder))
    about.write_text(json.dumps(json.loads(about.read_text()) | {"shape": [8], "chunks": [2**40]}))
    assert "can't be read within target.encoder.encoder_norm.scale" in refused(folder)


def test_t5x_kernels_of_a_wrong_number_of_heads_are_refused(tmp_path):
    arrays = scanned(as_t5x(open_weights_file(str(GOLDENS / "t5")).tensors))
    name = "decoder/decoder/self_attention/key/kernel"
    for change in (lambda a: a.reshape(*a.shape[:2], 4, 3), lambda a: a[..., None], lambda a: a[0, 0]):
        folder = write(tmp_path / str(len(list(tmp_path.iterdir()))), {**arrays, name: change(arrays[name])})
        assert f"has {name} of shape" in refused(folder)


# -------------------------------------------------------------------------------------------------- recognising


@pytest.mark.parametrize("shape", [(), (36,), (1, 36, 12)])
def test_a_format_that_cannot_look_at_a_file_does_not_know_it(shape, opened):
    located, arrays, _ = opened("gpt2")
    odd = {f"transformer.{key}": array for key, array in arrays.items()}
    odd["transformer.h.0.attn.c_attn.weight"] = np.ones(shape, np.float32)
    source = dataclasses.replace(located.source, tensors=Tensors.of(odd))
    assert recognise(source).name == "gpt2"


def test_a_format_is_known_without_an_archives_numbers_and_their_damage_is_told(tmp_path):
    file = tmp_path / "ckpt.pt"
    with zipfile.ZipFile(GOLDENS / "nanogpt" / "ckpt.pt") as golden, zipfile.ZipFile(file, "w") as changed:
        for one in golden.infolist():  # without `model_args` the shape of the first kernel tells
            changed.writestr(one.filename, golden.read(one).replace(b"model_args", b"other_args"))
    assert (
        recognise(open_weights_file(str(file))).name == "nanogpt"
    )  # by the archive's description, without its numbers
    kernel = (
        open_weights_file(str(GOLDENS / "nanogpt" / "ckpt.pt")).tensors["transformer.h.0.attn.c_attn.weight"].tobytes()
    )
    content = bytearray(file.read_bytes())
    content[content.index(kernel)] ^= 255
    file.write_bytes(content)
    source = open_weights_file(str(file))
    reading = recognise(source).read(source, {"num_heads": 3})
    with pytest.raises(UserError, match=r"is damaged within data/\d+ \(its checksum is another\)"):
        read_mapping(reading.mapping, source.tensors, reading.ignored, source.name)
