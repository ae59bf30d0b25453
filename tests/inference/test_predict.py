"""Predictions of files, folders and images in memory."""

import csv
import io
import json
import os
import re

import jax
import numpy as np
import PIL.Image
import pytest
from made_checkpoint import TINY, make_run

import vitzoo
from vitzoo.data.images import BadImage, decode
from vitzoo.data.sources.index import examine
from vitzoo.data.user_inputs import gather
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation import tables
from vitzoo.inference.predict import Predictor
from vitzoo.inference.writers import exit_code, say_rows, say_written, write_rows
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.weights.load import Opened


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    folder.mkdir()
    return str(folder), make_run(folder)


@pytest.fixture(scope="module")
def predictor(run):
    return Predictor(run[0], batch_size=4)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of images of every kind, of other files, and of files that only look like images."""
    folder = tmp_path_factory.mktemp("photos")
    picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 20, 3), np.uint8))
    (folder / "b" / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    picture.save(folder / "rgb.png")
    picture.convert("L").save(folder / "b" / "grey.PNG")
    picture.convert("RGBA").save(folder / "b" / "deep" / "alpha.png")
    picture.convert("CMYK").save(folder / "cmyk.jpg")
    picture.convert("P").save(folder / "palette.gif")
    PIL.Image.fromarray(np.arange(600, dtype=np.uint16).reshape(30, 20)).save(folder / "sixteen.png")
    (folder / "rgb.png").rename(folder / "png, named jpg.jpg")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "half.jpg").write_bytes((folder / "cmyk.jpg").read_bytes()[:500])
    (folder / "readme.txt").write_text("not an image")
    (folder / ".hidden" / "x.png").write_bytes(b"")
    (folder / ".DS_Store").write_bytes(b"")
    return folder


NAMES = "b/deep/alpha.png b/grey.PNG cmyk.jpg empty.jpg half.jpg palette.gif|png, named jpg.jpg|sixteen.png"


def test_a_file_that_a_program_would_have_to_read_is_a_row_with_an_error(predictor, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    (tmp_path / "white.jpg").write_bytes(b"P5 1 1 255\n\xff")
    rows = predictor(tmp_path)
    assert rows[0]["error"].startswith("not an image of a kind that is read")
    assert rows[1]["error"] is None


def test_a_folder_is_searched_to_any_depth_in_sorted_order_and_bad_files_do_not_stop_it(predictor, photos):
    rows = predictor(photos)
    names = [str(photos / name) for part in NAMES.split("|") for name in (part.split() if "," not in part else [part])]
    assert [row["file"] for row in rows] == names
    errors = {row["file"].rpartition("/")[2]: row["error"] for row in rows if row["error"]}
    assert list(errors) == ["empty.jpg", "half.jpg"]
    assert "0 bytes" in errors["empty.jpg"]
    assert all(len(row["top"]) == (0 if row["error"] else 5) for row in rows)
    json.dumps(rows, allow_nan=False)


def test_a_row_lists_names_and_softmax_probabilities_by_falling_probability(predictor, run):
    image = np.random.default_rng(1).integers(0, 256, (8, 8), np.uint8)
    (row,) = predictor(image, top=10)
    graph, _ = state.abstract(lambda rngs: ViT(TINY, rngs=rngs))
    pixels = (image[None, ..., None].astype(np.float32) - 127.5) / 127.5
    expected = np.asarray(jax.nn.softmax(jax.jit(lambda p: state.merge(graph, p)(pixels))(run[1])))[0]
    assert row["file"] == "image 0"
    assert [one["index"] for one in row["top"]] == np.argsort(-expected).tolist()
    assert [one["label"] for one in row["top"]] == [str(index) for index in np.argsort(-expected)]
    np.testing.assert_allclose([one["probability"] for one in row["top"]], np.sort(expected)[::-1], atol=1e-6)


def test_the_batch_an_image_is_in_does_not_change_its_result(predictor):
    images = np.random.default_rng(2).integers(0, 256, (9, 8, 8, 1), np.uint8)
    together = predictor(images, top=10)
    alone = [predictor(image, top=10)[0] for image in images]
    for one, other in zip(together, alone, strict=True):
        left, right = ({c["index"]: c["probability"] for c in row["top"]} for row in (one, other))
        assert all(left[index] == pytest.approx(right[index], abs=1e-6) for index in range(10))


def test_images_in_memory_of_every_kind_are_taken(predictor, photos):
    picture = PIL.Image.new("RGB", (5, 9), (255, 0, 0))
    content = (photos / "cmyk.jpg").read_bytes()
    inputs = [picture, np.zeros((4, 4), np.uint8), content, photos / "cmyk.jpg", np.zeros((2, 6, 6, 3), np.uint8)]
    rows = predictor(inputs)
    assert [row["file"] for row in rows] == [
        "image 0",
        "image 1",
        "image 2",
        str(photos / "cmyk.jpg"),
        "image 4",
        "image 5",
    ]
    assert not any(row["error"] for row in rows)
    assert rows[2]["top"] == rows[3]["top"]
    assert predictor(jax.numpy.zeros((2, 6, 6, 3), np.uint8))[1]["error"] is None


def test_one_call_compiles_once_and_a_second_not_at_all(run, caplog):
    fresh = Predictor(run[0], batch_size=4)
    images = np.zeros((10, 8, 8, 1), np.uint8)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        fresh(images)
        fresh(images)
    compiled = [r for r in caplog.records if r.getMessage().startswith("Compiling jit(_answered)")]
    assert len(compiled) == 1


def test_an_image_may_have_several_labels_and_then_all_are_listed(tmp_path):
    make_run(tmp_path, loss="sigmoid")
    image = np.full((8, 8), 99, np.uint8)
    row, _ = vitzoo.predict(tmp_path, [image, b""], output=tmp_path / "rows.csv")
    probabilities = [one["probability"] for one in row["top"]]
    assert len(probabilities) == 10
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) != pytest.approx(1)
    first, second = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert list(first) == ["file", "prediction", *(f"probability:{digit}" for digit in range(10)), "error"]
    assert first["prediction"] == "|".join(sorted(one["label"] for one in row["top"] if one["probability"] > 0.5))
    assert float(first["probability:3"]) == next(one["probability"] for one in row["top"] if one["label"] == "3")
    assert (second["probability:3"], second["error"]) == ("", "empty: 0 bytes")


@pytest.mark.parametrize(
    ("image", "remedy"),
    [
        (np.full((4, 4), 0.5), "for values 0 to 1 give (image * 255).round().astype(np.uint8)"),
        (np.full((1, 4, 4, 3), 254.5, np.float32), "for values 0 to 255 give image.round().astype(np.uint8)"),
        (np.array([[-1.0, 1.0]]), "give uint8, 0 to 255 (these are -1 to 1)"),
        (np.full((4, 4), 1j), "give uint8, 0 to 255"),
    ],
)
def test_pixels_that_are_no_whole_numbers_are_told_how_to_become_such(predictor, image, remedy):
    error = predictor(image)[0]["error"]
    assert error.startswith(f"pixels of type {image.dtype}, ")
    assert error.endswith(remedy)
    with pytest.raises(UserError, match=re.escape(remedy)):
        predictor.info.preprocess(image)


def test_a_path_that_is_not_there_is_named_and_the_others_go_on(predictor, photos, tmp_path):
    rows = predictor([tmp_path / "no.jpg", photos / "cmyk.jpg", tmp_path])
    assert [row["file"] for row in rows] == [str(tmp_path / "no.jpg"), str(photos / "cmyk.jpg"), str(tmp_path)]
    errors = ["no such file or folder", None, "no images in this folder (.jpg, .png, .webp ...)"]
    assert [row["error"] for row in rows] == errors
    with pytest.raises(UserError, match=r"no\.jpg: no such file"):
        predictor([tmp_path / "no.jpg", tmp_path])


def test_rows_and_features_are_written_as_files(run, photos, tmp_path):
    out = io.StringIO()
    files = {"output": tmp_path / "rows.csv", "features": tmp_path / "f.npz"}
    rows = vitzoo.predict(run[0], photos, top=2, out=out, **files)
    back = list(csv.DictReader(files["output"].read_text().splitlines()))
    assert list(back[0]) == ["file", "prediction", "probability", "prediction_2", "probability_2", "error"]
    assert [row["file"] for row in back] == [row["file"] for row in rows]
    assert [row["prediction"] for row in back] == [row["top"][0]["label"] if row["top"] else "" for row in rows]
    assert "0 bytes" in back[3]["error"]
    with np.load(files["features"]) as saved:
        assert saved["features"].shape == (6, 16)
        assert saved["files"].tolist() == [row["file"] for row in rows if not row["error"]]
    assert "8 × 8 × 1, squash" in out.getvalue()
    assert "weights ema" in out.getvalue()
    assert not list(tmp_path.glob(".*"))


def test_json_lines_hold_the_same_rows(run, photos, tmp_path):
    rows = vitzoo.predict(run[0], [photos / "cmyk.jpg", photos / "half.jpg"], output=tmp_path / "rows.jsonl")
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    assert exit_code(rows) == 1
    assert exit_code([row for row in rows if not row["error"]]) == 0
    out = io.StringIO()
    say_rows(rows, out)
    say_written(rows, "rows.jsonl", "f.npz", out)
    said = out.getvalue()
    assert "half.jpg  error: can't be read" in said
    assert said.endswith("wrote    rows.jsonl: 2 rows\nwrote    f.npz: features of 1 image\n")


def test_features_are_what_the_head_sees(predictor, run):
    image = np.random.default_rng(3).integers(0, 256, (1, 8, 8, 1), np.uint8)
    features = predictor.embeddings(image)
    head = run[1]["head"]
    logits = features @ head["kernel"] + head["bias"]
    (row,) = predictor(image)
    assert row["top"][0]["index"] == int(logits[0].argmax())
    with pytest.raises(RunError, match="image 0: empty"):
        predictor.embeddings(b"")
    other = np.random.default_rng(4).integers(0, 256, (8, 8), np.uint8)
    values = predictor.similarity([image[0], other])
    vectors = [features[0], predictor.embeddings(other)[0]]
    cosine = np.dot(*vectors) / np.prod([np.linalg.norm(one) for one in vectors])
    np.testing.assert_allclose(values, [[1, cosine], [cosine, 1]], atol=1e-6)
    with pytest.raises(UserError, match="takes image, not text"):
        _ = predictor.info.tokenizer


def test_what_can_not_be_done_is_refused_before_any_work(run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(Opened, "load", None)  # no weights are read yet
    for inputs, said in (
        (tmp_path / "no.jpg", "no such file or folder"),
        (tmp_path, "no images in this folder"),
        ([], "name an image"),
    ):
        with pytest.raises(UserError, match=said):
            vitzoo.predict(run[0], inputs)
    with pytest.raises(UserError, match=r"output = .*rows.txt: must end in .csv or .jsonl"):
        vitzoo.predict(run[0], photos, output=tmp_path / "rows.txt")
    with pytest.raises(UserError, match=r"the folder .* doesn't exist"):
        vitzoo.predict(run[0], photos, features=tmp_path / "no" / "f.npz")
    with pytest.raises(UserError, match="missing-run does not exist"):
        vitzoo.predict("missing-run", photos)
    with pytest.raises(UserError, match="top = 0"):
        vitzoo.predict(run[0], photos, top=0)
    with pytest.raises(UserError, match="holds a model of images, which takes files and folders, not text"):
        vitzoo.predict(run[0], ["a text"], given="texts")


def test_a_link_to_a_folder_that_holds_it_ends(tmp_path):
    PIL.Image.new("L", (3, 3)).save(tmp_path / "a.png")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(gather(tmp_path)) == 1


@pytest.mark.parametrize("write", [write_rows, tables.write_rows])
def test_a_file_name_that_is_no_unicode_is_written_as_its_own_bytes(write, tmp_path):
    rows = [{"file": "a\udcff.png", "top": [], "error": None}]
    write(tmp_path / "p.csv", rows)
    assert b"\na\xff.png," in (tmp_path / "p.csv").read_bytes()
    write(tmp_path / "p.jsonl", rows)
    assert json.loads((tmp_path / "p.jsonl").read_text()) == rows[0]


def test_a_pipe_is_no_image_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(UserError, match=r"inputs = .*pipe\.png: is a pipe, not a file or a folder"):
        gather(tmp_path / "pipe.png")
    with pytest.raises(BadImage, match="is a pipe, not a file"):
        decode(tmp_path / "pipe.png")
    assert examine(str(tmp_path / "pipe.png")).error == "is a pipe, not a file"
