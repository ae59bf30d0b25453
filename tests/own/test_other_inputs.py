"""Programs of a user's own whose inputs are other than images alone or text alone: pictures with captions, volumes."""

import csv
import dataclasses
import json
import re
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest
from PIL import Image
from test_own_programs import devices, first_step, here, run_of, state_of, trained  # noqa: F401

import vitzoo
from vitzoo.cli import main
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.base import ArrayInput
from vitzoo.inference import Predictor
from vitzoo.objectives.inputs import logits_of

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """104 pictures of a bar, with captions that say which way it lies and where: 16 different ones."""
    folder, draws = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    rows = [("file", "text")]
    for number in range(104):
        place, turned = int(draws.integers(8)), number % 2
        picture = np.zeros((8, 8))
        picture[place] = 200
        picture = np.clip((picture.T if turned else picture) + draws.normal(0, 20, (8, 8)), 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(folder / f"{number:03}.png")
        rows.append((f"{number:03}.png", f"a bar {('across', 'down')[turned]}, {NUMBERS[place]}"))
    with open(folder / "pairs.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return {"data.name": f"csv:{folder}/pairs.csv"}


@pytest.fixture(scope="module")
def towers(pairs, tmp_path_factory):
    return run_of("towers", tmp_path_factory, **pairs)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory):
    return run_of("volumes", tmp_path_factory)


@pytest.mark.gate
def test_two_towers_learn_from_a_csv_of_files_and_texts_which_caption_belongs_to_which_picture(towers):
    _, summary, said = towers
    assert "images 8 × 8 × 1; rows of 24 tokens, vocabulary 259 (bytes)" in said
    assert summary["metrics"]["found"]["n"] == 10  # a tenth of 104
    assert summary["metrics"]["found"]["recall"] >= 0.4  # of 16 captions, a guess finds 0.06 to 0.1
    assert "vitzoo predict" not in said


def test_volumes_of_an_own_dataset_are_classified(volumes, capsys):
    workdir, summary, said = volumes
    assert "volume 8 × 8 × 8" in said
    assert said.endswith(f"next    vitzoo predict --checkpoint {workdir} FILE.npy ...\n")
    trained("volumes", workdir)
    again = capsys.readouterr().out
    assert "is finished (step 48); nothing to do" in again
    assert again.splitlines()[-1] == said.splitlines()[-1]
    assert summary["metrics"]["test"]["n"] == 24
    assert summary["metrics"]["test"]["accuracy"] >= 0.6  # of three classes


@pytest.mark.gate
@pytest.mark.parametrize("name", ["towers", pytest.param("volumes", marks=pytest.mark.slow)])
def test_a_killed_one_ends_bitwise_as_if_undisturbed(name, pairs, request, tmp_path, monkeypatch):
    whole, changes = request.getfixturevalue(name), pairs if name == "towers" else {}
    devices(monkeypatch, 1)
    trained(
        name,
        tmp_path / "killed",
        stop=36,  # behind the first checkpoint
        monkeypatch=monkeypatch,
        **changes,
    )
    for item in ("params", "optimizer"):
        left, right = state_of(whole[0], item), state_of(tmp_path / "killed", item)
        assert {path: leaf.tobytes() for path, leaf in left.items()} == {p: leaf.tobytes() for p, leaf in right.items()}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param("towers", {"accumulate": 4}, marks=pytest.mark.slow),
        ("towers", {"accumulate": 2, "devices": 8}),
        pytest.param("volumes", {"accumulate": 2, "devices": 8}, marks=pytest.mark.slow),
        pytest.param("volumes", {"accumulate": 4}, marks=pytest.mark.slow),
    ],
)
def test_the_first_step_is_the_same_for_any_accumulation_and_mesh(name, how, pairs, monkeypatch):
    changes = {"optimizer.name": "sgd", "optimizer.learning_rate": 0.1, **(pairs if name == "towers" else {})}
    loss, right = first_step(name, monkeypatch, 1, **changes)
    accumulate = how.get("accumulate", 1)
    other_loss, found = first_step(name, monkeypatch, how.get("devices", 1), **changes, accumulate=accumulate)
    assert loss == pytest.approx(other_loss, rel=1e-5)
    assert right.keys() == found.keys()
    for path in right:
        np.testing.assert_allclose(right[path], found[path], rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.gate
def test_what_was_trained_is_loaded_and_called_with_its_inputs(towers, volumes):
    model, info = vitzoo.load(str(towers[0]))
    tokens = np.array([[5, 6, 1]])
    image, text = model(np.zeros((1, 8, 8, 1), np.float32), tokens, np.ones_like(tokens))
    assert (image.shape, text.shape) == ((1, 16), (1, 16))
    assert {name: own["kind"] for name, own in info.description["inputs"].items()} == {
        "image": "image",
        "tokens": "text",
    }
    model, info = vitzoo.load(str(volumes[0]))
    assert model(np.zeros((2, 8, 8, 8), np.float32)).shape == (2, 3)
    assert info.description["inputs"] == {"volume": {"kind": "volumes:Volume", "size": 8}}
    assert info.classes == ("down", "across", "through")


@pytest.mark.gate
def test_a_tower_is_a_model_of_its_own(towers):
    model, info = vitzoo.load(f"{towers[0]}:image")
    assert (type(model).__name__, info.size, info.channels) == ("ViT", (8, 8), 1)
    model, info = vitzoo.load(f"{towers[0]}:text")
    assert (type(model).__name__, info.tokenizer.kind, info.text.length) == ("BERT", "bytes", 24)


@pytest.mark.gate
@pytest.mark.parametrize("name", [pytest.param("towers", marks=pytest.mark.slow), "volumes"])
def test_they_are_evaluated_again(name, request, capsys):
    workdir, summary, _ = request.getfixturevalue(name)
    assert main(["eval", "--workdir", str(workdir), "--json"]) == 0
    said, shown = capsys.readouterr().out, {"towers": "pixels   8 × 8 × 1", "volumes": "inputs   volume 8 × 8 × 8"}
    assert str(next(iter(summary["metrics"][{"towers": "found", "volumes": "test"}[name]]))) in said
    assert shown[name] in said


@pytest.mark.gate
def test_a_model_of_volumes_is_converted_to_a_function_of_arrays(volumes, tmp_path, capsys):
    file = tmp_path / "volumes.stablehlo"
    assert main(["convert", str(volumes[0]), str(file)]) == 0
    about = json.loads((tmp_path / "volumes.stablehlo.json").read_text())
    assert (about["takes"], about["gives"]) == ({"volume": "float32 [batch, 8, 8, 8]"}, ["float32 [batch, 3]"])
    values = np.random.default_rng(0).normal(size=(2, 8, 8, 8)).astype(np.float32)
    function = jax.export.deserialize(bytearray(file.read_bytes()))
    right = vitzoo.load(str(volumes[0]))[0](values)
    np.testing.assert_allclose(function.call(values), right, atol=1e-5)


@pytest.mark.gate
def test_a_model_of_several_inputs_is_no_function_of_one(towers, tmp_path, capsys):
    assert main(["convert", str(towers[0]), str(tmp_path / "towers.stablehlo")]) == 2
    said = capsys.readouterr().err
    assert "takes image and tokens; only models of one input are asked here" in said
    assert said.count("\n") == 1


@pytest.mark.gate
def test_settings_of_an_own_input_that_depart_from_the_training_are_told(volumes, capsys, monkeypatch):
    import volumes as program

    monkeypatch.setattr(program.Volume, "shape", lambda self: jax.ShapeDtypeStruct((8, 8, 8), np.float32))
    monkeypatch.setattr(program.Volume, "array", lambda self, value, random: value[1:9, 1:9, 1:9])
    assert main(["eval", "--workdir", str(volumes[0]), "--config.inputs.volume.size=6"]) == 0
    assert "warning: inputs.volume.size = 6, but the weights were trained with 8" in capsys.readouterr().out


@pytest.mark.gate
def test_nothing_is_predicted_with_a_model_of_several_inputs(towers, capsys):
    for flags in (["predict", "towers.py"], ["predict", "--text", "a"], ["generate", "--prompt", "a"]):
        assert main([flags[0], "--checkpoint", str(towers[0]), *flags[1:]]) == 2
        said = capsys.readouterr().err
        assert "takes image and tokens; only models of one input are asked here: vitzoo.load(...) gives the" in said
        assert said.count("\n") == 1
    with pytest.raises(vitzoo.UserError, match="only models of one input are asked here"):
        vitzoo.load(str(towers[0]))[1].preprocess("a")


def test_volumes_are_predicted_as_images_are(volumes, tmp_path, capsys):
    import volumes as program

    examples = program.sheets(None)
    tests, run = examples.splits["test"], str(volumes[0])
    values = np.stack([examples.read(index)["volume"] for index in tests])
    model, info = vitzoo.load(run)
    np.testing.assert_array_equal(info.preprocess(values), values[:, 1:9, 1:9, 1:9])  # the middle of 10
    logits = np.asarray(model(info.preprocess(values)), np.float64)
    right = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    predictor = Predictor(run, batch_size=5)
    rows = predictor(values)
    assert [row["file"] for row in rows] == [f"volume {number}" for number in range(24)]
    assert [row["top"][0]["label"] for row in rows] == [info.classes[best] for best in right.argmax(1)]
    np.testing.assert_allclose([row["top"][0]["probability"] for row in rows], right.max(1), atol=1e-5)
    (tmp_path / "scans").mkdir()
    for number in range(2):
        np.save(tmp_path / "scans" / f"{number}.npy", values[number])
    np.save(tmp_path / "scans" / "small.npy", values[0, ..., :4])
    (tmp_path / "scans" / "text.npy").write_text("no array")
    np.save(tmp_path / "scans" / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "scans" / "readme.txt").touch()
    capsys.readouterr()
    table = tmp_path / "rows.csv"
    assert main(["predict", "--checkpoint", run, str(tmp_path / "scans"), "--top", "1", "--output", str(table)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[1:3] == ["inputs   volume 8 × 8 × 8", "volumes  5"]
    with open(table, newline="") as file:
        found = {row["file"].rpartition("/")[2]: row for row in csv.DictReader(file)}
    assert list(found) == ["0.npy", "1.npy", "objects.npy", "small.npy", "text.npy"]
    assert [found[f"{number}.npy"]["prediction"] for number in range(2)] == [row["top"][0]["label"] for row in rows[:2]]
    assert found["small.npy"]["error"] == "gives float32[8, 8, 3]; its shape is float32[8, 8, 8]"
    assert all(found[name]["error"].startswith("is no .npy file of an array: ") for name in ("objects.npy", "text.npy"))


@dataclasses.dataclass(frozen=True)
class Sized(ArrayInput):
    """An input without a usual size."""

    size: int

    def shape(self):
        return jax.ShapeDtypeStruct((self.size,), np.float32)

    def array(self, value, random):
        return value[: self.size]


def test_a_checkpoint_knows_the_settings_of_an_input_that_has_no_usual_ones(tmp_path):
    own = {"kind": f"{__name__}:Sized", "size": 3}
    processor = Inputs.of_checkpoint({"inputs": {"series": own}}, tmp_path).only
    (given,) = processor.gather(np.arange(5, dtype=np.float32))
    assert processor.example(given, None)["series"].tolist() == [0, 1, 2]
    with pytest.raises(vitzoo.UserError, match=r"inputs\.series\.size: must be set"):
        Inputs.of_checkpoint({"inputs": {"series": {"kind": own["kind"]}}}, tmp_path)


@pytest.mark.parametrize(
    ("inputs", "more", "said"),
    [
        ("towers.txt", {}, "inputs = towers.txt: no such file or folder"),
        (".", {}, r"inputs = \.: no volumes in this folder \(\.npy\)"),
        ([], {}, "inputs: name a volume file or a folder"),
        ({"text": "a"}, {}, "is of the type dict; must be a file, a folder, an array"),
        ("a", {"given": "texts"}, "holds a model of volumes, which takes files and folders, not text"),
        (np.zeros((10, 10, 10)), {"features": "f.npz"}, "its model has no method `features`"),
    ],
)
def test_what_is_no_volume_is_refused_in_one_line(volumes, inputs, more, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(vitzoo.UserError, match=said) as refusal:
        vitzoo.predict(str(volumes[0]), inputs, **more)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("program", "changes", "said"),
    [
        ("volumes", {"inputs.volume.size": 1}, "inputs.volume.size = 1: must be at least 2"),
        ("volumes", {"inputs.volum.size": 8}, "inputs.volum: is no input here: .* did you mean volume"),
        ("volumes", {"inputs.image.crop_fraction": 0.5}, "inputs.image.crop_fraction = 0.5: has no effect: .* volume"),
        (
            "volumes",
            {"data.name": "cnn:bars"},
            "data.name = cnn:bars: has no field volume for the input volume",
        ),
        (
            "towers",
            {"data.name": "cnn:bars"},
            "data.name = cnn:bars: has no field text for the input tokens",
        ),
        ("towers", {"inputs.tokens.packing": True}, "inputs.tokens.packing = True: has no effect on rows of examples"),
        (
            "towers",
            {"evaluate.found.inputs.tokens.tokenizer.kind": "characters"},
            "evaluate.found.inputs.tokens.tokenizer = .*: is what the model is trained with; an evaluator can",
        ),
        ("towers", {"objective.name": "classification"}, "gives no logits of classes, which objective needs"),
    ],
)
def test_settings_and_data_that_do_not_fit_the_inputs_are_refused_before_any_work(program, changes, said, tmp_path):
    given = {"data.name": "csv:pairs.csv", **changes} if program == "towers" else changes
    with pytest.raises(vitzoo.UserError, match=said):
        vitzoo.train(f"{program}.py", tmp_path / "run", given)
    assert not list(tmp_path.iterdir())


def test_what_an_input_brings_with_it_is_given_to_a_model_that_lists_it():
    class Model:
        INPUTS = {"image": "image", "tokens": "text", "tokens_segments": "segments", "example_weight": "weight"}

        def __call__(self, image, **others):
            return image, others

    batch = {"image": 1, "tokens": 2, "tokens_segments": 3, "example_weight": 4, "label": 5}
    given = {"tokens": 2, "tokens_segments": 3, "example_weight": 4, "train": False}
    assert logits_of(Model(), batch, train=False) == (1, given)
    Model.INPUTS = {"image": "image"}
    assert logits_of(Model(), batch, train=False) == (1, {"train": False})


@pytest.mark.parametrize(
    ("made", "gives"),
    [
        (lambda value: value[:4], "float32[4, 10, 10]"),
        (lambda value: value[:8, :8, :8] > 0, "bool[8, 8, 8]"),
        (lambda value: 5, "int64[]"),
    ],
)
def test_an_input_that_makes_another_array_than_it_says_is_refused_before_any_work(made, gives, tmp_path, monkeypatch):
    import volumes

    monkeypatch.setattr(volumes.Volume, "array", lambda self, value, random: made(value))
    with pytest.raises(
        vitzoo.UserError, match=rf"inputs.volume = Volume: gives {re.escape(gives)}; its shape is float32\[8"
    ):
        vitzoo.train("volumes.py", tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("data check volumes:sheets", 0, "train        72        3         -  10×10×10  10×10×10"),
        ("data check volumes:sheets", 0, "every example can be read"),
        ("data show volumes:sheets --split test --count 2", 0, "volume: float32 [10, 10, 10]"),
        ("data show volumes:sheets --count 1 --json", 0, '"volume": "float32 [10, 10, 10]"'),
        ("data prepare volumes:sheets --dir prepared", 2, "holds volume, label, where images are needed"),
    ],
)
def test_data_of_a_kind_of_ones_own_are_checked_shown_or_refused(command, code, said, monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    assert main(command.split()) == code
    found = capsys.readouterr()
    assert said in (found.err if code else found.out)
