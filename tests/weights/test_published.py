"""Published weights as checkpoints: files of every kind, bad files, and out again."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from made_checkpoint import make_run
from made_text_run import made_model

import vitzoo
from vitzoo.checkpoints import arrays as saved
from vitzoo.cli import main
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.weights import convert as conversion
from vitzoo.weights.files.open import open_weights_file
from vitzoo.weights.formats.gpt import GPT2
from vitzoo.weights.open import open_weights, read_weights

WORDS = ["a cat sat on the mat", "the mat lay under a cat"]


@pytest.fixture(scope="module")
def made():
    """A tiny GPT-2: its Config, its parameters by path, and what its format writes."""
    tokenizer = open_tokenizer(Tokenizer(kind="bpe", vocabulary_size=270), WORDS)
    config, _, params = made_model("gpt", vocabulary_size=270)
    writing = GPT2().write(config, flatten(params), {}, tokenizer)
    return config, flatten(params), dict(writing.tensors), writing


@pytest.fixture
def folder(made, tmp_path):
    _, _, tensors, writing = made
    return write(tmp_path / "gpt2", tensors, writing)


def write(folder, tensors, writing):
    folder.mkdir()
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(x) for name, x in tensors.items()}, folder / "model.safetensors"
    )
    beside(folder, writing)
    return folder


def beside(folder, writing):
    for name, content in {"config.json": writing.config, **writing.files}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


@pytest.mark.gate
def test_a_folder_is_a_checkpoint_wherever_one_is_taken(made, folder, capsys):
    model, info = vitzoo.load(str(folder))
    for path, leaf in flatten(read_weights(open_weights(folder))[0]).items():
        np.testing.assert_array_equal(leaf, made[1][path])
    assert (info.weights, info.step, info.report.told[0]) == ("published", 0, "format  gpt2")
    assert (model.config.depth, model.config.num_heads) == (1, 2)
    assert info.tokenizer.decode(info.tokenizer.encode(WORDS[0])) == WORDS[0]
    assert (
        main(["generate", "--checkpoint", str(folder), "--prompt", "a cat", "--max-new-tokens", "3", "--seed", "0"])
        == 0
    )
    assert capsys.readouterr().out.strip()


def test_out_and_in_and_out_again_is_bitwise_the_same(made, folder, tmp_path):
    assert main(["convert", str(folder), str(tmp_path / "ours")]) == 0
    assert main(["convert", str(tmp_path / "ours"), str(tmp_path / "theirs")]) == 0
    back = safetensors.numpy.load_file(tmp_path / "theirs" / "model.safetensors")
    assert back.keys() == made[2].keys()
    for name, array in made[2].items():
        np.testing.assert_array_equal(back[name], array)
    assert json.loads((tmp_path / "theirs" / "config.json").read_text()) == dict(made[3].config)
    again = vitzoo.load(str(tmp_path / "theirs"))[1].tokenizer
    assert again.sha256 == vitzoo.load(str(folder))[1].tokenizer.sha256


def test_a_sharded_index_gives_the_same_and_may_name_only_files_beside_it(made, tmp_path):
    (tmp_path / "many").mkdir()
    conversion.write_safetensors(tmp_path / "many", iter(made[2].items()), largest=3000)
    beside(tmp_path / "many", made[3])
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    for path, leaf in flatten(read_weights(open_weights(tmp_path / "many"))[0]).items():
        np.testing.assert_array_equal(leaf, made[1][path])
    index = tmp_path / "many" / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    name = next(iter(content["weight_map"]))
    for bad, why in [("../model.safetensors", "isn't a file beside it"), ("gone.safetensors", "isn't there")]:
        content["weight_map"][name] = bad
        index.write_text(json.dumps(content))
        with pytest.raises(UserError, match=why):
            open_weights(tmp_path / "many")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.pop("transformer.wpe.weight"), "its arrays don't have the names of one"),
        (lambda x: x.pop("transformer.ln_f.weight"), "misses transformer.ln_f.weight"),
        (lambda x: x.update(extra=np.zeros(3, np.float32)), "also has extra"),
        (
            lambda x: x.update({"transformer.h.0.ln_1.bias": np.zeros(3, np.float32)}),
            r"transformer.h.0.ln_1.bias of shape \(3,\), which makes .*norm1/bias \(1, 3\); the model has \(1, 16\)",
        ),
        (lambda x: x.update({"transformer.h.0.attn.c_attn.weight": np.zeros((16, 47), np.float32)}), "doesn't fit"),
        (
            lambda x: x.update({"transformer.h.2.ln_1.bias": x.pop("transformer.h.0.ln_1.bias")}),
            "has transformer.h.2. and lacks transformer.h.1.",
        ),
    ],
)
def test_a_file_that_is_not_what_its_names_say_is_refused_by_name(made, tmp_path, change, message, capsys):
    tensors = dict(made[2])
    change(tensors)
    folder = write(tmp_path / "bad", tensors, made[3])
    assert main(["convert", str(folder), str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_known_is_asked_for_by_name(folder, tmp_path, capsys):
    (folder / "config.json").unlink()
    assert main(["convert", str(folder), str(tmp_path / "out")]) == 2
    assert "num_heads" in capsys.readouterr().err
    assert main(["convert", str(folder), str(tmp_path / "out"), "--config.model.num_heads=2"]) == 0
    assert vitzoo.load(str(folder), num_heads=2)[0].config.num_heads == 2
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="without its tokenizer"):
        open_weights(folder, {"num_heads": 2})


def test_npz_files_are_read_by_subtree_and_bfloat16_and_never_as_objects(tmp_path):
    file = tmp_path / "a.npz"
    half = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.savez(file, **{"img/x": np.ones(2, np.float32), "txt/y": half.view("V2")})
    np.testing.assert_array_equal(open_weights_file(f"{file}:txt").tensors["y"].astype(np.float32), [1.5, -2])
    assert list(open_weights_file(f"{file}:img").tensors) == ["x"]
    with pytest.raises(UserError, match="nothing below aud; there are img, txt"):
        open_weights_file(f"{file}:aud")
    np.savez(file, x=np.array([object()], dtype=object))
    with pytest.raises(UserError, match="objects"):
        open_weights_file(str(file)).tensors["x"]


def test_files_that_are_cut_off_or_would_grow_without_measure_are_refused(folder, tmp_path, monkeypatch):
    file = folder / "model.safetensors"
    content = file.read_bytes()
    for size in (0, 5, 40, len(content) - 100):
        file.write_bytes(content[:size])
        with pytest.raises(UserError, match="no safetensors file, or cut off"):
            open_weights(folder)
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, x=np.zeros(3_000_000, np.float32))  # 12 MB of zeros in 12 kB
    monkeypatch.setattr(saved, "ALWAYS_FINE", 2**20)
    monkeypatch.setattr(saved, "LARGEST_RATIO", 100)
    with pytest.raises(UserError, match="would grow"):
        open_weights_file(str(bomb))


def test_a_folder_that_is_there_is_not_written_over_and_unknown_names_are_told(folder, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    assert main(["convert", str(folder), str(tmp_path / "full")]) == 2
    assert main(["convert", str(folder), str(tmp_path / "new"), "--format", "gpt3"]) == 2
    assert main(["convert", str(tmp_path / "nothing"), str(tmp_path / "new")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for line, part in zip(lines, ("not empty", "gpt2", "does not exist"), strict=True):
        assert part in line
    assert (tmp_path / "full" / "mine").read_text() == "mine"


@pytest.mark.gate
def test_an_exported_function_needs_only_jax_and_gives_the_same(tmp_path):
    make_run(tmp_path / "run")
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "model.stablehlo")]) == 0
    about = json.loads((tmp_path / "model.stablehlo.json").read_text())
    assert [about[key] for key in ("takes", "gives", "weights")] == [
        {"images": "uint8 [batch, 8, 8, 1]"},
        ["float32 [batch, 10]"],
        "ema",
    ]
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    np.save(tmp_path / "images.npy", images)
    program = (
        "import sys; sys.modules['vitzoo'] = None; sys.modules['flax'] = None\n"
        "import numpy as np; from jax import export\n"
        f"function = export.deserialize(bytearray(open({str(tmp_path / 'model.stablehlo')!r}, 'rb').read()))\n"
        f"images = np.load({str(tmp_path / 'images.npy')!r})\n"
        f"np.savez({str(tmp_path / 'out.npz')!r}, five=function.call(images), two=function.call(images[:2]))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    model, info = vitzoo.load(str(tmp_path / "run"))
    right = model(info.preprocess(list(images)))
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["five"], right, atol=1e-5)
        np.testing.assert_allclose(out["two"], right[:2], atol=1e-5)
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "model.stablehlo")]) == 2


def test_a_name_that_ends_as_a_file_is_no_folder_to_write(tmp_path, capsys):
    make_run(tmp_path / "run")
    for ending in (".onnx", ".safetensors", ".PTH"):
        assert main(["convert", str(tmp_path / "run"), str(tmp_path / f"model{ending}")]) == 2
        assert f"no {ending.lower()} file is written: give a new folder, or" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_git_leaves_of_a_large_file_is_not_taken_for_weights(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "cloned")
    for file in ("model.safetensors", "pytorch_model.bin"):
        for name in ("model.safetensors", "pytorch_model.bin"):
            (tmp_path / "cloned" / name).unlink(missing_ok=True)
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
        (tmp_path / "cloned" / file).write_text(pointer)
        assert main(["convert", str(tmp_path / "cloned"), str(tmp_path / "new")]) == 2
        assert f"{file} only points to the weights, which `git lfs pull` fetches" in capsys.readouterr().err


def test_a_folder_above_the_weights_says_where_they_are(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "package" / "model")
    assert main(["convert", str(tmp_path / "package"), str(tmp_path / "new")]) == 2
    assert f"did you mean {tmp_path}/package/model?" in capsys.readouterr().err


@pytest.mark.slow
def test_fine_tuning_starts_from_published_weights_and_keeps_their_tokenizer(folder, tmp_path, capsys):
    (tmp_path / "book.txt").write_text("\n".join(WORDS * 30))
    flags = [
        f"--config.init_from={folder}",
        f"--config.data.name=text:{tmp_path / 'book.txt'}",
        "--config.total_steps=2",
    ]
    flags += ["--config.data.batch_size=8", "--config.inputs.tokens.length=16"]
    assert main(["train", "--config", "gpt/finetune", "--workdir", str(tmp_path / "run"), *flags]) == 0
    said = capsys.readouterr().out
    assert f"from    {folder}, step 0, published weights" in said
    assert "format  gpt2" in said
    _, info = vitzoo.load(str(tmp_path / "run"))
    assert info.tokenizer.sha256 == vitzoo.load(str(folder))[1].tokenizer.sha256
    assert info.step == 2


def test_a_file_that_lost_its_last_layer_is_refused(made, tmp_path):
    _, _, tensors, writing = made
    folder = write(tmp_path / "cut", tensors, writing)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": 2}))
    with pytest.raises(UserError, match="n_layer = 2, and its arrays are of 1"):
        open_weights(folder)


@pytest.mark.parametrize("file", ["vision_transformer/in21k.npz", "facebook-vit/dino/dino.pth"])
def test_whatever_byte_is_damaged_the_file_is_read_or_refused(tmp_path, file):
    source = pathlib.Path(__file__).parents[1] / "goldens" / "weights" / file
    whole, draw = source.read_bytes(), np.random.default_rng(0)
    copy = tmp_path / source.name
    for number in range(60):
        damaged = bytearray(whole)
        for place in draw.integers(len(whole) - (2000 if number % 2 else 0), size=3):
            damaged[-1 - place if number % 2 else place] = draw.integers(256)
        copy.write_bytes(damaged)
        with contextlib.suppress(UserError):
            tensors = open_weights_file(str(copy)).tensors
            assert all(tensors[name].shape is not None for name in tensors)
