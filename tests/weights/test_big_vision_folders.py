"""Checkpoints of big_vision as folders, written here with TensorStore as jax's array serialization writes them."""

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from published import leaves, refused

from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.weights.files.open import is_published, open_weights_file

TOWERS = Path(__file__).parents[1] / "goldens" / "weights" / "big_vision" / "towers.npz"
HEAD = "params~img~MAPHead_0~probe"
FOLDER = "checkpoint.bv-000000007"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The golden of two towers, in bfloat16 and scanned, with an optimizer's state beside it; the folder above."""
    above = tmp_path_factory.mktemp("run")
    with np.load(TOWERS) as file:
        arrays = {name: file[name] for name in file}
    arrays = {name: x.view(ml_dtypes.bfloat16) if x.dtype.kind == "V" else x for name, x in arrays.items()}
    write(above / FOLDER, arrays | {"opt/0/count": np.int32(7), "chrono": np.float64(1)})
    (above / "checkpoint.bv-LAST").write_text("000000007")
    return above


def write(folder, arrays):
    """An array for each name in a folder of its own, in one chunk, and zeros are written too."""
    for name, array in arrays.items():
        store = {"driver": "file", "path": f"{folder / name.replace('/', '~')}/"}
        metadata = {"compressor": {"id": "zstd", "level": 1}, "chunks": array.shape}
        spec = {"driver": "zarr", "kvstore": store, "metadata": metadata}
        opened = tensorstore.open(spec, create=True, dtype=array.dtype.name, shape=array.shape).result()
        opened.write(array).result()


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run" / FOLDER


@pytest.mark.parametrize("name", [f"{FOLDER}:img", f"{FOLDER}:params/img", "checkpoint.bv:img"])
def test_the_tower_of_images_is_that_of_the_same_file_of_numpy(name, made):
    assert is_published(f"{made}/{name}")
    reading, found = leaves(f"{made}/{name}")
    right, expected = leaves(f"{TOWERS}:img")
    assert reading == right
    assert found.keys() == expected.keys()
    for path, leaf in expected.items():
        np.testing.assert_array_equal(found[path], leaf, err_msg=path)
    assert open_weights_file(f"{made}/{name}").notes == ("2 arrays beside params/ left out",)


def test_it_is_converted_and_refused_by_the_command(made, tmp_path, capsys):
    assert main(["convert", f"{made}/checkpoint.bv:img", str(tmp_path / "out"), "--format", "big_vision"]) == 0
    assert (tmp_path / "out" / "model.npz").is_file()
    capsys.readouterr()
    assert main(["convert", f"{made}/checkpoint.bv", str(tmp_path / "all")]) == 2
    line = capsys.readouterr().err
    assert "holds several models (b, img, t, txt); write FILE:img for that of images" in line
    assert line.count("\n") == 1


def test_a_part_that_is_not_there_or_no_tower_of_images_is_refused(made):
    assert "has nothing below video; there are b, img, t, txt" in refused_at_once(f"{made}/{FOLDER}:video")
    assert "is of no format known here" in refused(f"{made}/{FOLDER}:txt")


def refused_at_once(name):
    with pytest.raises(UserError) as caught:
        open_weights_file(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_header_a_missing_array_and_one_too_many_are_refused_by_name(copy):
    (copy / HEAD / ".zarray").rename(copy / "aside")
    assert f"lacks {HEAD}/.zarray: it isn't the whole checkpoint" in refused_at_once(f"{copy}:img")
    shutil.rmtree(copy / HEAD)
    assert "also has MAPHead_0/LayerNorm_0/bias" in refused(f"{copy}:img")
    write(copy, {"params/img/MAPHead_0/probe": np.ones((1, 1, 12), np.float32), "params/img/cls2": np.ones(3)})
    assert "also has cls2" in refused(f"{copy}:img")


@pytest.mark.parametrize("damage", [lambda chunk: chunk.unlink(), lambda chunk: chunk.write_bytes(b"x")])
def test_a_chunk_that_is_missing_or_cut_is_refused_by_its_array(damage, copy):
    damage(copy / HEAD / "0.0.0")
    assert f"can't be read within {HEAD} (" in refused(f"{copy}:img")


def test_a_header_that_is_no_header_or_claims_too_much_is_refused(copy):
    header = copy / HEAD / ".zarray"
    text = header.read_text()
    header.write_text(text.replace('"shape":[1,1,12]', '"shape":[1000000000,1000,12]'))
    assert f"bytes, most of them {HEAD}: no weights do" in refused(f"{copy}:img")
    header.write_text(text[:40])
    assert f"can't be read within {HEAD} (" in refused(f"{copy}:img")


@pytest.mark.parametrize("step", ["000000009", "../elsewhere", ""])
def test_a_pointer_to_nothing_is_refused(step, copy):
    pointer = copy.parent / "checkpoint.bv-LAST"
    pointer.write_text(step)
    line = refused_at_once(f"{copy.parent}/checkpoint.bv:img")
    assert f"{pointer} names the step '{step}', which isn't there" in line


def test_folders_of_other_programs_are_not_taken_for_one(tmp_path):
    (tmp_path / "model~").mkdir()
    (tmp_path / "model~" / "notes.txt").write_text("mine")
    assert not is_published(str(tmp_path))
