"""`vitzoo convert`: settings that are stated, formats by name, and nothing left where it fails."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors
from made_checkpoint import make_run

import vitzoo
from vitzoo.cli import main
from vitzoo.errors import RunError, UserError
from vitzoo.staging import PREFIX
from vitzoo.weights import convert as conversion
from vitzoo.weights.convert import convert
from vitzoo.weights.formats.registry import FORMATS, WRITERS

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
GPT2, VIT, SENTENCES = GOLDENS / "gpt2", GOLDENS / "hf-vit" / "vit", GOLDENS / "sentences"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a tiny ViT of 8 × 8 pixels with 2 heads."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    make_run(folder)
    return folder


def refused(capsys, *arguments):
    """The one line by which a command line is refused."""
    assert main(["convert", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--config.model.num_heads=12"], "num_heads"),  # config.json says 3
        (["--config.model.dropout=0.5"], "model.dropout = 0.5: .*gpt2 has 0.1, and converting changes no model"),
        (["--config.model.context_length=7"], "model.context_length = 7: .*gpt2 has"),
        (["--config.model.name=bert"], "model.name = bert: .*gpt2 holds gpt; leave it out"),
        (["--config.model.variant=gpt2-124M"], "model.variant = gpt2-124M: .*gpt2 has none"),
        (["--config.model.num_head=3"], "model.num_head = 3: no such field; did you mean num_heads?"),
        (["--config.data.name=digits"], "--config.data: `vitzoo convert` takes settings of the model: --config.model"),
        (["--config.seed=1"], "--config.seed: `vitzoo convert` takes settings of the model"),
        (["--config.model=gpt"], "--config.model: `vitzoo convert` takes settings of the model"),
    ],
)
def test_a_setting_that_is_not_what_the_file_says_is_refused(flags, line, tmp_path, capsys):
    assert re.search(line, refused(capsys, GPT2, tmp_path / "out", *flags))
    assert not (tmp_path / "out").exists()


def test_a_setting_that_is_what_the_weights_have_is_fine_of_published_ones_and_of_a_run(run, tmp_path, capsys):
    size = json.loads((VIT / "config.json").read_text())["image_size"]
    flags = ["--config.model.name=vit", "--config.model.positions=learned1d"]
    same = f"{size[0]},{size[1]}" if isinstance(size, list) else f"{size}"
    assert main(["convert", str(VIT), str(tmp_path / "a"), *flags, f"--config.model.image_size={same}"]) == 0
    assert main(["convert", str(run), str(tmp_path / "b"), *flags, "--config.model.image_size=8"]) == 0
    line = refused(capsys, run, tmp_path / "c", "--config.model.num_heads=4")
    assert "model.num_heads = 4: " in line
    assert "run/checkpoints/7 has 2, and converting changes no model; leave it out" in line


def test_loading_can_change_a_model_but_not_what_its_arrays_are(tmp_path):
    with pytest.raises(UserError, match="num_heads"):
        vitzoo.load(str(GPT2), num_heads=4)
    assert vitzoo.load(str(GPT2), dropout=0.5)[0].config.dropout == 0.5


def test_formats_are_named_by_what_can_be_done_with_them(run, tmp_path, capsys):
    written = refused(capsys, GPT2, tmp_path / "a", "--format", "gpt3")
    assert all(name in written for name in ("vitzoo", *WRITERS))
    assert "nanogpt" not in written
    assert "nanogpt: is read and not written; there are vitzoo, gpt2" in refused(
        capsys, GPT2, tmp_path / "a", "--format", "nanogpt"
    )
    read = refused(capsys, GPT2, tmp_path / "a", "--source-format", "vitzoo")
    assert all(name in read for name in FORMATS)
    assert "--source-format = gpt2: " in (line := refused(capsys, run, tmp_path / "a", "--source-format", "gpt2"))
    assert "is a run of vitzoo's, which is of no such format" in line
    assert "timm-vit" in (refusal := main_help(capsys))
    assert "--format timm\n" not in refusal


def main_help(capsys):
    assert main(["convert", "--help"]) == 0
    return capsys.readouterr().out


def test_where_a_format_has_no_place_for_a_setting_those_that_have_are_named(tmp_path, capsys):
    line = refused(capsys, VIT, tmp_path / "a", "--format", "timm-vit")  # its epsilon is 0.01
    assert "model.norm_epsilon = 0.01: has no place in timm's VisionTransformer" in line
    assert "; --format hf-vit or vitzoo keeps it, and so does FILE.stablehlo" in line
    line = refused(capsys, GOLDENS / "vision_transformer" / "in21k.npz", tmp_path / "a", "--format", "timm-vit")
    assert "model.pre_logits = True: has no place in timm's VisionTransformer, which has given up this layer" in line
    assert "; --format vision_transformer or vitzoo keeps it, and so does FILE.stablehlo" in line


FAULTS = {
    "a full disk": (OSError(28, "No space left on device"), RunError, "No space left on device"),
    "safetensors": (safetensors.SafetensorError("I/O error: No space left"), RunError, "I/O error: No space left"),
    "half a character": ("\ud800".encode, RunError, "no valid Unicode"),
    "Ctrl-C": (KeyboardInterrupt(), KeyboardInterrupt, None),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_a_conversion_that_fails_leaves_nothing_and_can_be_tried_again(fault, there, tmp_path, monkeypatch):
    error, raised, message = FAULTS[fault]
    place = tmp_path / "out" if there else tmp_path / "deep" / "out"
    if there:
        place.mkdir()

    def fail(tensors, file, metadata):
        Path(file).write_bytes(b"half")
        if callable(error):
            error()
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(conversion.safetensors.numpy, "save_file", fail)
        with pytest.raises(raised, match=message) as caught:
            convert(GPT2, place, form="gpt2")
    assert str(place) in str(caught.value) or raised is KeyboardInterrupt
    assert PREFIX not in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["out"] * there
    assert convert(GPT2, place, form="gpt2").format == "gpt2"
    assert sorted(path.name for path in place.iterdir())[:2] == ["config.json", "model.safetensors"]
    assert not list(place.parent.glob(f"{PREFIX}*"))


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def fail(store, *given):
        (store.folder / "5").mkdir(parents=True)
        raise RunError(f"checkpoint 0 could not be saved in {store.folder}: No space left on device")

    monkeypatch.setattr(conversion.Store, "save", fail)
    with pytest.raises(RunError, match=f"saved in {tmp_path}/out/checkpoints: No space"):
        convert(GPT2, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_function_that_cannot_be_written_leaves_nothing_and_writes_over_nothing(run, tmp_path, monkeypatch):
    def fail(path, write):
        raise RunError("the disk is full")

    (tmp_path / "b.stablehlo.json").write_text("mine")
    with pytest.raises(UserError, match=r"b\.stablehlo\.json: is there already"):
        conversion.write_stablehlo(str(run), tmp_path / "b.stablehlo")
    whole = conversion.write_whole
    monkeypatch.setattr(conversion.export, "export", lambda *given, **how: lambda *takes: Made())
    monkeypatch.setattr(
        conversion,
        "write_whole",
        lambda path, write: fail(path, write) if path.suffix == ".stablehlo" else whole(path, write),
    )
    with pytest.raises(RunError, match="the disk is full"):
        conversion.write_stablehlo(str(run), tmp_path / "a.stablehlo")
    assert [path.name for path in tmp_path.iterdir()] == ["b.stablehlo.json"]
    with pytest.raises(UserError, match="head/bias, head/kernel are new; train them first"):
        conversion.write_stablehlo(str(run), tmp_path / "a.stablehlo", num_classes=3)


class Made:
    in_avals = out_avals = ()

    def serialize(self):
        return b"function"


def test_weights_that_do_not_fit_name_their_file(tmp_path):
    tensors = dict(safetensors.numpy.load_file(GPT2 / "model.safetensors"))
    name = next(name for name in tensors if name.endswith("ln_1.bias"))
    tensors[name] = np.zeros(3, np.float32)
    folder = tmp_path / "gpt2"
    folder.mkdir()
    for file in GPT2.iterdir():
        if file.suffix != ".npz":
            (folder / file.name).write_bytes(file.read_bytes())
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    for use in (lambda: convert(folder, tmp_path / "out"), lambda: vitzoo.load(str(folder))):
        with pytest.raises(UserError, match=f"checkpoint = {folder}: "):
            use()


def test_a_head_on_a_sentence_encoder_reads_its_embedding_and_what_becomes_of_the_pooler_is_said():
    model, info = vitzoo.load(str(SENTENCES), head="classes", num_classes=3)
    assert (model.config.head_reads, model.config.head_input, model.pooler) == ("embedding", "mean", None)
    notes = {path: (kind, text) for kind, path, text in info.report.notes}
    assert notes["head/kernel"] == ("new", "for classes in place of none, new, zero-initialised")
    assert notes["pooler/kernel"] == ("dropped", "not in this model")
    kept, _ = vitzoo.load(str(SENTENCES), head="classes", num_classes=3, head_reads="pooler")
    assert kept.config.head_input == "pooler"


def test_a_head_that_reads_something_else_than_before_is_new_and_has_no_place_in_transformers(tmp_path):
    classes = GOLDENS / "bert_classes"
    _, info = vitzoo.load(str(classes), pooler=False)
    text = "the same 3 classes, new, since it reads mean in place of pooler"
    assert ("new", "head/kernel", text) in info.report.notes
    writer = conversion.find_writer("bert")
    config = vitzoo.load(str(SENTENCES), head="classes", num_classes=3)[0].config
    with pytest.raises(UserError, match=r"model\.head_reads = embedding: has no place in transformers' BERT"):
        writer.write(config, {}, {}, None)


def test_a_checkpoint_is_not_written_where_it_could_not_be_read_and_published_weights_are(tmp_path):
    # Orbax finds what it has written by a glob pattern
    with pytest.raises(UserError, match=r"DST = .*: no checkpoint can be written below a folder named exp\[1\]"):
        convert(GPT2, tmp_path / "exp[1]" / "run")
    assert not list(tmp_path.iterdir())
    assert convert(GPT2, tmp_path / "exp[1]" / "published", form="gpt2").format == "gpt2"
    assert convert(tmp_path / "exp[1]" / "published", tmp_path / "run").format == "vitzoo"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_what_is_written_may_be_read_by_those_who_may_read_any_new_file(mask, tmp_path):
    before = os.umask(mask)
    try:
        assert main(["convert", str(GPT2), str(tmp_path / "out"), "--format", "gpt2"]) == 0
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "out").iterdir()}
    assert "model.safetensors" in modes
    assert set(modes.values()) == {0o666 & ~mask}
