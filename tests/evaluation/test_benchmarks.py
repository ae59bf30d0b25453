"""Every benchmark of images gives the score that its dataset was made to have."""

import dataclasses
import io
import json

import jax
import numpy as np
import pytest
from made_benchmarks import IMAGE, WORDNET, F, images, kinds, labelled, png, prepare, vtab_features, vtab_record
from made_checkpoint import TINY, make_run

from vitzoo.cli.entry import main
from vitzoo.data.datasets import vtab
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation.benchmarks import table
from vitzoo.evaluation.benchmarks.evaluate import evaluate_benchmarks
from vitzoo.evaluation.benchmarks.suite import IMAGES
from vitzoo.evaluation.benchmarks.table import BENCHMARKS, asked_for
from vitzoo.models.vit import ViT
from vitzoo.nn import state

PIXELS, TASKS = images(20), dict(vtab.TASKS)
SETS = {"cifar10": 0, "cifar100": 4, "oxford_iiit_pet": 8, "oxford_flowers102": 12}
"""Datasets of four classes each, and where these begin among a model's sixteen."""
NAMES = tuple(f"{name} {number}" for name in SETS for number in range(4))
BIG = dataclasses.replace(TINY, num_classes=1000, depth=1)
SMALL = dataclasses.replace(BIG, num_classes=16)
WRONG = 3  # of the 20 images


@pytest.fixture(scope="module", autouse=True)
def one_device():
    """Programs for one device compile much faster than for eight; `test_run` and `test_frozen` compare the two."""
    patch = pytest.MonkeyPatch()
    patch.setattr("vitzoo.evaluation.checkpoint.devices", lambda platform: jax.devices()[:1])
    yield
    patch.undo()


def logits(config, params):
    graph, _ = state.abstract(lambda rngs: ViT(config, rngs=rngs))
    pixels = (PIXELS[..., None].astype(np.float32) - 127.5) / 127.5
    return np.asarray(jax.jit(lambda params, x: state.merge(graph, params)(x))(params, pixels))


def mislabelled(labels, classes):
    """Labels of which the first three are others of the classes."""
    classes = list(classes)
    return [
        classes[(classes.index(label) + 1) % len(classes)] if row < WRONG else label for row, label in enumerate(labels)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of a model of ImageNet's classes without names, and of one of sixteen with names; data that fit them."""
    root = tmp_path_factory.mktemp("benchmarks")
    for name in ("imagenet", "small", "data"):
        (root / name).mkdir()
    make_run(root / "small", SMALL, NAMES, data="cifar10")
    seen = logits(BIG, make_run(root / "imagenet", BIG, None, data="imagenet2012"))
    wordnet = {"image": IMAGE, "label": F.ClassLabel(names=WORDNET)}
    every = mislabelled(seen.argmax(1).tolist(), range(1000))
    for name, split in (("imagenet2012", "validation"), ("imagenet_v2", "test"), ("imagenet_sketch", "test")):
        prepare(root / "data", name, wordnet, {split: labelled(PIXELS, every)})
    some = np.sort(np.random.default_rng(5).choice(1000, 2, replace=False))
    few = mislabelled(some[seen[:, some].argmax(1)].tolist(), some.tolist())
    assert len(set(few)) == 2
    for name in ("imagenet_a", "imagenet_r"):
        prepare(root / "data", name, wordnet, {"test": labelled(PIXELS, few)})
    # of the images with labels 16 - 3 have the prediction among two of them; four have none
    sets = [[said, (said + 1) % 1000] for said in seen.argmax(1).tolist()]
    sets = [[(said[0] + 2) % 1000] if row < WRONG else said if row < 16 else [] for row, said in enumerate(sets)]
    real = {"image": IMAGE, "original_label": F.ClassLabel(names=WORDNET)}
    real["real_label"] = F.Sequence(F.ClassLabel(names=WORDNET))
    records = [{"image": png(p), "original_label": 0, "real_label": s} for p, s in zip(PIXELS, sets, strict=True)]
    prepare(root / "data", "imagenet2012_real", real, {"validation": records})
    return root


@pytest.fixture(scope="module")
def transfer(made):
    """Datasets whose classes the second model names."""
    from made_checkpoint import random_params

    seen = logits(SMALL, random_params(SMALL, seed=1))
    for name, start in SETS.items():
        said = seen[:, start : start + 4].argmax(1).tolist()
        features = {"image": IMAGE, "label": F.ClassLabel(names=list(NAMES[start : start + 4]))}
        rows = labelled(PIXELS, mislabelled(said, range(4)))
        prepare(made / "data", name, features, {"test": rows, "train": labelled(PIXELS, said)})
    return made


def measured(made, run, names, **options):
    out = io.StringIO()
    overrides = {"data.dir": str(made / "data"), "data.batch_size": 16}
    found = evaluate_benchmarks(made / run, names, overrides, out=out, **options)
    json.dumps(found, allow_nan=False)
    return found["results"], out.getvalue()


EVERY = [row.name for row in IMAGES if row.imagenet]


@pytest.mark.gate
@pytest.mark.parametrize(
    "names",
    [["imagenet", "imagenet-real", "imagenet-a"], pytest.param(EVERY, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_images_of_imagenet_are_scored_by_wordnet_id_and_all_at_once(made, names):
    results, text = measured(made, "imagenet", names)
    assert list(results) == names
    for name, result in results.items():
        n, right = (16, 13) if name == "imagenet-real" else (20, 17)
        assert (result["n"], result["metrics"]["accuracy"], result["skipped"]) == (n, right / n, None), name
    assert "n=16 (4 without a label or unreadable, left out)" in text
    assert "have no names and are taken as ImageNet's" in text
    file = made / "imagenet" / "eval" / "7-ema" / "benchmarks" / "imagenet-a" / "metrics.json"
    assert json.loads(file.read_text()) == results["imagenet-a"]
    for model in table.PUBLISHED:
        assert f"│ {model.scores['imagenet']}" in text
        assert f"│ {model.scores['imagenet-real']}" in text
    assert "85.00" in text  # 17 of 20, in the first table and above the published rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [["pets"], pytest.param(["cifar10", "cifar100", "flowers"], marks=pytest.mark.slow)],
    ids=["some", "others"],
)
def test_heads_are_scored_by_the_names_of_their_classes(transfer, names):
    results, _ = measured(transfer, "small", names)
    assert list(results) == names
    assert {name: result["metrics"]["accuracy"] for name, result in results.items()} == dict.fromkeys(results, 17 / 20)


def test_what_a_head_can_not_say_is_skipped_with_its_reason_and_features_can_be_scored(transfer):
    results, text = measured(transfer, "imagenet", ["cifar10", "pets", "cifar10:knn", "cifar10:few_shot"])
    assert "has 4 classes and the model 1000" in results["cifar10"]["skipped"]
    assert "pets: skipped: " in text
    assert results["cifar10:knn"]["n"] == 20  # the images are those it learns from
    assert results["cifar10:knn"]["metrics"].keys() == {f"accuracy_k{k}" for k in (10, 20, 100, 200)}
    assert results["cifar10:few_shot"]["skipped"] is None


def test_probabilities_are_scored(transfer):
    results, _ = measured(transfer, "small", ["cifar10:calibration"])
    metrics = results["cifar10:calibration"]["metrics"]
    assert metrics["accuracy"] == 17 / 20
    assert set(metrics) == {"accuracy", "expected_calibration_error", "negative_log_likelihood", "brier"}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """The 19 tasks' datasets, of 30 examples to learn from, and of 10 to measure two of which are mislabelled."""
    root, patch = tmp_path_factory.mktemp("vtab"), pytest.MonkeyPatch()
    (root / "data").mkdir()
    small, fields, rows = {}, {}, {}
    for name, task in vtab.TASKS.items():
        held, test = (task.held[0], 24 if task.held[0] == "train" else 0), task.test
        test = "train[30:]" if test.startswith("train") else "test[6:]" if "[" in test else test
        small[name] = dataclasses.replace(task, held=held, test=test)
        fields.setdefault(task.dataset, {}).update(vtab_features(name, task.label))
        rows.setdefault(task.dataset, []).append((name, small[name]))
    for dataset, several in rows.items():
        prepare(root / "data", dataset, {"image": IMAGE, **fields[dataset]}, splits_of(several))
    patch.setattr(vtab, "TASKS", small)
    patch.setattr(vtab, "TRAIN", 24)
    patch.setattr(vtab, "HELD", 6)
    (root / "run").mkdir()
    make_run(root / "run", BIG, None, data="imagenet2012")
    yield root
    patch.undo()


def splits_of(several):
    """Train 24, then 6 to choose by, then 10 to measure, in the splits of a dataset's tasks."""
    pixels, kind, _ = kinds(40, 0)
    said = kind.copy()
    said[[31, 38]] = (said[[31, 38]] + 1) % 3
    scale = 1 if several[0][1].scale != 1 else 200
    records = []
    for row in range(40):
        record = {"image": png(pixels[row] * scale)}
        for name, task in several:
            record |= vtab_record(name, task.label, int(said[row]))
            if name == "clevr-distance":  # shares its objects with the counting task
                record["objects"] += [record["objects"][0]] * (int(said[row]) + 1)
        records.append(record)
    _, task = several[0]
    if task.test.startswith("train"):
        return {"train": records}
    if task.held[0] == "train":
        return {"train": records[:30], task.test: records[30:]}
    if task.held[0] == "test":
        return {"train": records[:24], "test": records[24:]}
    return {"train": records[:24], "validation": records[24:30], "test": records[30:]}


@pytest.mark.parametrize("name", TASKS)
def test_each_task_of_vtab_makes_the_class_of_its_records(tasks, name):
    _, kind, _ = kinds(40, 0)
    data = Data(name=f"vtab/{name}", dir=str(tasks / "data"))
    learned, test = open_source(data, "train800val200"), open_source(data, "test")
    assert learned.info.labels().tolist() == kind[:30].tolist()
    wrong = (test.info.labels() != kind[30:]).tolist()
    assert wrong == [row in (1, 8) for row in range(10)]
    assert test[3]["label"] == kind[33]


SOME = ["vtab/clevr-distance"]


@pytest.mark.parametrize(
    "names",
    [pytest.param(SOME, marks=pytest.mark.slow), pytest.param(["vtab"], marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_tasks_of_vtab_have_the_scores_that_they_were_made_to_have(tasks, names):
    results, text = measured(tasks, "run", names)
    rows = {name: result for name, result in results.items() if name != "vtab"}
    assert len(rows) == len(names) if names == SOME else len(rows) == 19
    for name, result in rows.items():
        assert (result["n"], result["metrics"].get("accuracy"), result["skipped"]) == (10, 0.8, None), name
    if names == ["vtab"]:
        parts = dict.fromkeys(("natural", "specialized", "structured", "mean"), pytest.approx(0.8))
        assert results["vtab"]["metrics"] == parts
        assert "80.00" in text


def test_the_splits_of_vtab_are_those_of_its_authors():
    """val200 follows the part of the training examples that VTAB trains on, test is what it holds out."""
    shares = {  # examples of TFDS's train; share to train on, end of the share to choose by
        "caltech101": (3060, 0.9, None),
        "cifar100": (50_000, 0.9, None),
        "svhn": (73_257, 0.9, None),
        "pets": (3680, 0.8, None),
        "eurosat": (27_000, 0.6, 0.8),
        "resisc45": (31_500, 0.6, 0.8),
        "clevr-count": (70_000, 0.9, None),
        "clevr-distance": (70_000, 0.9, None),
        "dsprites-location": (737_280, 0.8, 0.9),
        "dsprites-orientation": (737_280, 0.8, 0.9),
    }
    for name, (count, trained, held) in shares.items():
        task = TASKS[name]
        assert task.held == ("train", int(count * trained)), name
        assert held is None or task.test == f"train[{round(count * held)}:]", name
    assert sum(task.held[1] == 0 for task in TASKS.values()) == len(TASKS) - len(shares)
    groups = [task.group for task in TASKS.values()]
    assert [groups.count(group) for group in ("natural", "specialized", "structured")] == [7, 4, 8]


def test_a_task_of_vtab_opens_as_a_dataset_of_a_thousand_examples(tasks):
    data = Data(name="vtab/dsprites-location", dir=str(tasks / "data"))
    both, test = open_source(data, "train800val200"), open_source(data, "test")
    assert len(both) == 30
    assert len(both.info.classes) == 16
    assert np.asarray(both[0]["image"]).max() == 255  # stored as 0 and 1
    assert both.ids.tolist() == list(range(30))
    assert test.ids.tolist() == list(range(30, 40))
    assert open_source(data, "val200").info.labels().tolist() == both.info.labels()[24:].tolist()
    with pytest.raises(UserError, match="did you mean clevr-count"):
        open_source(Data(name="vtab/clevr-counts"), "test")


def test_a_group_without_all_its_scores_has_no_mean():
    from vitzoo.evaluation.benchmarks.table import means

    rows = asked_for(["vtab"])
    results = {row.name: {"n": 10, "metrics": {"accuracy": 0.5}, "skipped": None} for row in rows}
    assert means(rows, results)["vtab"]["metrics"]["mean"] == 0.5
    results["vtab/dtd"] = {"n": 0, "metrics": {}, "skipped": "not prepared"}
    found = means(rows, results)["vtab"]
    assert (found["metrics"]["natural"], found["metrics"]["structured"], found["metrics"]["mean"]) == (None, 0.5, None)
    assert found["skipped"] == "no score of vtab/dtd"
    assert means(rows[:5], results) == {}


def test_the_command_skips_what_is_not_there_and_fails_where_nothing_is(made, capsys):
    where = ["--checkpoint", str(made / "imagenet"), f"--config.data.dir={made / 'data'}"]
    assert main(["eval", *where, "--benchmark", "imagenet-v2", "--benchmark", "vtab/dmlab", "--json"]) == 0
    results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert results["imagenet-v2"]["metrics"]["accuracy"] == 17 / 20
    assert "data.name = dmlab: not prepared" in results["vtab/dmlab"]["skipped"]
    assert results["vtab/dmlab"]["metrics"] == {}
    assert main(["eval", *where, "--benchmark", "vtab/dmlab", "--benchmark", "lambada"]) == 1
    said = capsys.readouterr().err
    assert "no benchmark could run" in said
    assert "is of text, and this checkpoint reads images" in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--benchmark", "imagenett"], "--benchmark = imagenett: no such benchmark; did you mean imagenet"),
        (["--benchmark", "imagenet-a:knn"], "imagenet_a has no training examples"),
        (["--benchmark", "imagenet:sketch"], "behind a benchmark of images may stand knn"),
        (["--benchmark", "imagenet", "--config.data.split=train"], "data.split = train: a benchmark has its own"),
        (["--benchmark", ""], "--benchmark = '': no such benchmark"),
        (["--benchmark", ":knn"], "--benchmark = :knn: no such benchmark"),
        (["--benchmark", "imagenet:knn", "--config.evaluate.val.k=5"], "evaluate.val: has no effect with --benchmark"),
        (["--benchmark", "imagenet", "--shots", "3"], "--shots = 3: none of these benchmarks asks questions"),
        (["--benchmark", "perplexity"], "data.name: must name your text"),
        (["--benchmark", "imagenet", "--all-classes"], "--all-classes: doesn't go with --benchmark"),
    ],
)
def test_what_means_nothing_is_refused(made, capsys, given, message):
    assert main(["eval", "--checkpoint", str(made / "imagenet"), *given]) == 2
    assert message in capsys.readouterr().err


def test_the_benchmarks_are_listed_with_what_is_known_of_them(capsys):
    assert main(["eval", "--list-benchmarks", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["benchmarks"]}
    assert rows.keys() == BENCHMARKS.keys()
    assert rows["imagenet"]["expected"]["score"] == 86.0
    assert rows["vtab/clevr-count"]["dataset"] == "clevr"
    assert main(["eval", "--list-benchmarks", "--benchmark", "wikitext103"]) == 0
    said = capsys.readouterr().out
    assert "by hand   wikitext103: wikitext-103-raw-v1" in said
    assert "37.50" in said
    assert "imagenet" not in said


def test_names_of_other_classes_are_not_taken_for_imagenets():
    from vitzoo.evaluation.benchmarks.binding import IMAGENET_NAMES, as_wordnet

    names = [IMAGENET_NAMES.get(number, f"thing {number}") for number in range(1000)]
    assert as_wordnet(names, 1000, WORDNET)[0] == WORDNET
    assert as_wordnet(WORDNET[::-1], 1000, WORDNET)[0] == WORDNET[::-1]
    with pytest.raises(UserError, match="in ImageNet's order class 0 is tench"):
        as_wordnet(names[::-1], 1000, WORDNET)
    assert as_wordnet(None, 21_843, WORDNET)[0] is None


def test_no_benchmark_at_all_is_a_failure(made):
    with pytest.raises(RunError, match="no benchmark could run"):
        measured(made, "imagenet", ["vtab/dmlab"])
