"""Weights by name: on the hub, through a cache made here and no network, and in the catalogue of published weights."""

import dataclasses
import errno
import hashlib
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants, errors

import vitzoo
from vitzoo.cli import main
from vitzoo.config.assembly import Assembly
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.planning import models
from vitzoo.registry import find
from vitzoo.weights import catalogue, hub
from vitzoo.weights.formats.registry import FORMATS
from vitzoo.weights.open import open_weights, read_weights

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
GPT2 = ("config.json", "merges.txt", "model.safetensors", "tokenizer_config.json", "vocab.json")
FIRST, SECOND = "a" * 40, "b" * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's cache with `acme/tiny`: two revisions, `main` and `older`; the network is off."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    place = tmp_path / "hub" / "models--acme--tiny"
    (place / "refs").mkdir(parents=True)
    for name, commit in (("main", FIRST), ("older", SECOND)):
        (place / "refs" / name).write_text(commit)
        (place / "snapshots" / commit).mkdir(parents=True)
        for file in GPT2:
            shutil.copy(GOLDENS / "gpt2" / file, place / "snapshots" / commit / file)
    (place / "snapshots" / SECOND / "model.safetensors").unlink()
    return place


def test_a_name_on_the_hub_is_a_checkpoint_wherever_one_is_taken(cache, capsys, tmp_path):
    there = read_weights(open_weights(GOLDENS / "gpt2"))[0]
    located = open_weights("acme/tiny")
    for path, leaf in flatten(read_weights(located)[0]).items():
        np.testing.assert_array_equal(leaf, flatten(there)[path])
    assert located.description["data"]["name"] == "acme/tiny"
    assert open_weights(f"acme/tiny@{FIRST}").source.name == f"acme/tiny@{FIRST}"
    assert main(["convert", "acme/tiny@main", str(tmp_path / "run")]) == 0
    assert "gpt" in (tmp_path / "run" / "checkpoints" / "0" / "model.json").read_text()
    assert capsys.readouterr().err == ""
    assert hub.is_cached("acme/tiny")
    assert not hub.is_cached("acme/other")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("acme/other", ["models--acme--other", "HF_HUB_OFFLINE", "a folder acme/other"]),
        ("acme/tiny@older", ["only a part of it", "it holds config.json, merges.txt"]),
        ("acme/tiny@newer", ["models--acme--tiny", "HF_HUB_OFFLINE"]),
        ("openai-community/gpt2-smal", ["HF_HUB_OFFLINE", "did you mean openai-community/gpt2"]),
    ],
)
def test_without_network_what_the_cache_lacks_is_refused_in_one_line(cache, capsys, tmp_path, name, parts):
    assert main(["convert", name, str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"vitzoo: checkpoint = {name}: ")
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize(
    "path",
    ["runs/a", "there/a", "a", "a/b/c", "./a", "../a/b", "~/a/b", "/a/b", "a/b@best", "a/b@12", "a/b@", "a/b.npz"],
)
def test_what_may_be_a_path_with_a_slip_is_never_asked_of_the_hub(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(hub, "_library", lambda text: pytest.fail(f"the hub was asked for {text}"))
    assert not hub.is_hub_name(path)
    with pytest.raises(UserError, match=r"does not exist|names no checkpoint"):
        open_weights(path)


def test_a_name_that_the_catalogue_has_is_the_hubs_even_beside_a_folder_of_its_owners_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google").mkdir()
    monkeypatch.setattr(hub, "fetch", lambda name: GOLDENS / "hf-vit" / "vit")
    assert open_weights("google/vit-base-patch16-224").source.name == "google/vit-base-patch16-224"
    with pytest.raises(UserError, match=r"did you mean openai-community/gpt2\?"):
        open_weights("gpt2")


def test_only_the_files_that_are_read_are_fetched():
    beside = ["config.json", "tokenizer.json", "spiece.model", "vocab.txt", "modules.json", "1_Pooling/config.json"]
    others = ["tf_model.h5", "flax_model.msgpack", "modeling_own.py", "onnx/model.onnx", "README.md", "rust_model.ot"]
    whole, torch = "model.safetensors", "pytorch_model.bin"
    parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    old = ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"]
    everything = [*beside, *others, whole, torch, *parts, *old, "model.fp16.safetensors", "training_args.bin"]
    assert hub.needed(everything) == sorted([*beside, whole])
    assert hub.needed([*beside, *others, torch, *parts, *old]) == sorted([*beside, *parts])
    assert hub.needed([*beside, *others, torch, *old]) == sorted([*beside, torch])
    assert hub.needed([*others, *old]) == sorted(old)
    assert hub.needed([*beside, *others, parts[0]]) == []


def library(monkeypatch, listing, download=None):
    """The hub's library, which answers what it is told to; what is asked of it is kept."""
    asked = []

    def answer(given):
        if isinstance(given, Exception):
            raise given
        return given

    def snapshot_download(repository, *, local_files_only=False, **more):
        asked.append({"repository": repository, **more})
        return answer(errors.LocalEntryNotFoundError("not there") if local_files_only else download)

    api = SimpleNamespace(
        model_info=lambda name, **more: SimpleNamespace(
            siblings=[SimpleNamespace(rfilename=f) for f in answer(listing)]
        )
    )
    made = SimpleNamespace(errors=errors, constants=constants, HfApi=lambda: api, snapshot_download=snapshot_download)
    monkeypatch.setattr(hub, "_library", lambda text: made)
    return asked


def test_from_the_network_one_kind_of_weights_comes_of_the_revision_asked_for(monkeypatch):
    asked = library(monkeypatch, [*GPT2, "tf_model.h5", "pytorch_model.bin"], GOLDENS / "gpt2")
    assert open_weights("acme/tiny@v2").form == "gpt2"
    assert asked == [{"repository": "acme/tiny", "revision": "v2", "allow_patterns": sorted(GPT2)}]


def http_error(kind):
    """As the library raises it, without the answer of a server that it wants."""
    error = kind.__new__(kind)
    Exception.__init__(error, "403 of somewhere")
    return error


@pytest.mark.parametrize(
    ("listing", "download", "message"),
    [
        (http_error(errors.RepositoryNotFoundError), None, "the hub has no such model"),
        (http_error(errors.RevisionNotFoundError), None, "no revision v2 of it"),
        (
            RuntimeError("no route"),
            None,
            r"can't be reached \(RuntimeError: no route\); a folder acme.tiny with config.json",
        ),
        (GPT2, http_error(errors.GatedRepoError), "agreed to its terms"),
        (GPT2, OSError(errno.ENOSPC, "full"), "no room for it .*HF_HOME"),
        (GPT2, PermissionError(errno.EACCES, "denied"), "can't be written"),
        (GPT2, RuntimeError("broken off"), "broken off"),
        (["tf_model.h5"], None, "no weights of a known kind .*it holds tf_model.h5"),
    ],
)
def test_what_the_hub_refuses_is_told_with_what_helps(tmp_path, monkeypatch, listing, download, message):
    monkeypatch.chdir(tmp_path)
    library(monkeypatch, listing, download)
    with pytest.raises(UserError, match=message) as caught:
        open_weights("acme/tiny@v2")
    assert "\n" not in str(caught.value)


def test_where_the_network_fails_the_cache_does_and_it_is_said(cache, monkeypatch, capsys):
    def fails(*_, **__):
        raise RuntimeError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fails)
    assert open_weights("acme/tiny").form == "gpt2"
    assert capsys.readouterr().err == "warning: acme/tiny is taken as the hub's cache has it: RuntimeError: no route\n"


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"install the extra `hub`: pip install -e '\.\[hub\]'"):
        open_weights("acme/tiny")
    assert not hub.is_cached("acme/tiny")


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """Makes an entry of the catalogue, the only one, whose file is a golden in the folder of weights."""
    monkeypatch.setenv("VITZOO_WEIGHTS", str(tmp_path))
    like = catalogue.find("torchvision/vit_b_16")

    def make(golden, **changes):
        shutil.copy(GOLDENS / golden, tmp_path / Path(golden).name)
        made = dataclasses.replace(like, name="made/one", file=Path(golden).name, **{"digest": None, **changes})
        monkeypatch.setattr(catalogue, "entries", lambda: (made,))
        return made

    return make


def test_a_name_of_the_catalogue_is_the_file_in_the_folder_of_weights(entry, tmp_path, monkeypatch, capsys):
    golden = next((GOLDENS / "torchvision-vit").rglob("*.pth")).relative_to(GOLDENS)
    digest = hashlib.sha256((GOLDENS / golden).read_bytes()).hexdigest()
    made = entry(golden, digest=digest[:8])
    assert made.fetched
    located = open_weights("made/one", {"num_heads": 2})
    assert (located.form, located.source.name) == ("torchvision-vit", "made/one")
    entry(golden, digest="0" * 8)
    with pytest.raises(UserError, match=f"begins with {digest[:8]}, not 00000000"):
        open_weights("made/one")
    with pytest.raises(UserError, match="does not exist"):
        open_weights("made/one@best")
    (tmp_path / made.file).unlink()
    assert main(["convert", "made/one", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert f"put {made.file} into {tmp_path} ($VITZOO_WEIGHTS" in said
    assert "published by torchvision ViT_B_16_Weights.IMAGENET1K_V1\n" in said
    monkeypatch.delenv("VITZOO_WEIGHTS")
    monkeypatch.setenv("VITZOO_CACHE", "/caches")
    assert catalogue.weights_folder() == Path("/caches/weights")


def test_an_entry_may_name_a_part_of_its_file(entry):
    entry("big_vision/towers.npz", part="img")
    assert open_weights("made/one").description["model"]["name"] == "vit"


def test_the_catalogue_is_by_family_and_size_and_whole():
    entries = catalogue.entries()
    assert [(e.family.casefold(), e.parameters) for e in entries] == sorted(
        (e.family.casefold(), e.parameters) for e in entries
    )
    assert len({e.name for e in entries}) == len(entries)
    for e in entries:
        assert (e.hub is None) != (e.file is None)
        assert e.hub in (None, e.name)
        assert e.file is None or e.published
        assert e.format in FORMATS
        assert (e.score is None) == (e.metric is None) == (e.score_source is None)
        assert e.licence in ("apache-2.0", "mit", "cc-by-nc-4.0", None)
        assert e.digest is None or f"-{e.digest}." in e.file
    assert {e.name for e in entries} >= {"google-t5/t5-small", "torchvision/vit_h_14-swag_e2e", "facebook/dinov2-giant"}


def test_parameters_are_those_of_the_table_of_models():
    kept = {(row.name, row.variant): row.parameters for row in models.kept()}
    same = [
        e
        for e in catalogue.entries()
        if (e.model, e.variant) in kept
        and e.settings in ({}, {"head": "none"}, {"num_classes": 1000})
        and e.image_size in (None, 224)
    ]
    assert len({(e.model, e.variant) for e in same}) > 35
    assert [e.name for e in same if e.parameters != kept[e.model, e.variant]] == []


def counted(entry):
    model = find("model", entry.model)
    sizes = {"image_size": entry.image_size} if entry.image_size else {}
    make = model.Config if not entry.variant else lambda **more: model.Config.from_variant(entry.variant, **more)
    _, shapes = Assembly(entry.model, make(**sizes | dict(entry.settings))).abstract
    return sum(leaf.size for leaf in flatten(shapes).values())


@pytest.mark.parametrize("name", ["facebook/dinov2-with-registers-small", "siglip/webli_en_so400m_384"])
def test_parameters_are_counted_from_our_own_shapes(name):
    assert counted(catalogue.find(name)) == catalogue.find(name).parameters


@pytest.mark.slow
def test_parameters_of_every_entry_are_counted_from_our_own_shapes():
    assert [e.name for e in catalogue.entries() if counted(e) != e.parameters] == []


def test_published_weights_are_listed_with_all_that_is_known(cache, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("VITZOO_WEIGHTS", str(tmp_path))
    assert main(["models", "--pretrained", "torchvision/*"]) == 0
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if line.startswith("torchvision/vit_b_16-swag_e2e"))
    assert row.split() == [
        *("torchvision/vit_b_16-swag_e2e", "86,859,496", "384²", "85.304", "ImageNet", "top-1", "cc-by-nc-4.0"),
        "torchvision",
    ]
    assert "fetched: 0 of 10 are on this machine" in said
    (tmp_path / "vit_b_16-c867db91.pth").touch()
    assert main(["models", "--pretrained", "torchvision", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["models"]
    assert rows == vitzoo.list_models("torchvision/*", pretrained=True)
    assert [row["name"] for row in rows if row["fetched"]] == ["torchvision/vit_b_16"]
    assert rows[0]["score_source"] == "torchvision, the weights' metadata (0.28)"
    assert {row["variant"] for row in vitzoo.list_models("L/16", pretrained=True)} == {"L/16"}
    for pattern in ("TORCHVISION", "minilm", "*MiniLM*", "gpt-2"):
        assert main(["models", "--pretrained", pattern, "--json"]) == 0
        found = [row["name"].lower() for row in json.loads(capsys.readouterr().out)["models"]]
        key = pattern.lower().strip("*").replace("gpt-2", "gpt2")
        assert found
        assert all(key in name for name in found), found
    assert main(["models", "--pretrained", "resnet*"]) == 2
    assert "no such published weights; there are AugReg, BERT" in capsys.readouterr().err
