"""Batches depend on the seed and the step, on nothing else."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from made_pictures import numbered, picture

from vitzoo.data import left_out
from vitzoo.data.arrays import image_table
from vitzoo.data.examples import ExampleRows
from vitzoo.data.open import open_source
from vitzoo.data.pipeline import TrainStream, eval_batches
from vitzoo.data.processors.image import ImageArrays, ImageProcessor
from vitzoo.data.settings import Augment, Data, Preprocessing
from vitzoo.data.sources.base import Source
from vitzoo.errors import RunError, UserError

PLAIN = Augment()
VARIED = Augment(crop="shift", shift=1, flip=True)
EVERY_DRAW = Augment(crop="inception", flip=True, randaugment_layers=1, color_jitter=0.3)


def numbers(count: int, labels=None) -> Source:
    labels = np.arange(count) % 2 if labels is None else np.asarray(labels)
    classes = [str(label) for label in range(int(labels.max()) + 1)]
    table = image_table("numbers", classes, numbered(count), labels.astype(np.int32), {"train": np.arange(count)})
    return table.open("train")


def stream(source: Source, batch_size: int, augment: Augment = PLAIN, rows: slice = slice(None), **settings):
    seed = settings.pop("seed", 0)
    data = Data(name="numbers", batch_size=batch_size, **settings)
    images = ExampleRows(source, data, (ImageArrays(Preprocessing(), (4, 4), 1, augment),))
    return TrainStream(images, data, seed=seed, part=rows)


def batches(stream, start: int, count: int) -> list[dict]:
    iterator = stream.iterate(start)
    taken = [next(iterator) for _ in range(count)]
    stream.close()
    return taken


def ids(batches: list[dict]) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


def equal(one: list[dict], other: list[dict]) -> bool:
    return all(
        (first[key] == second[key]).all()
        for first, second in zip(one, other, strict=True)
        for key in first.keys() | second
    )


def test_a_batch_has_its_keys_types_and_shapes():
    batch = batches(stream(numbers(10), 4), 0, 1)[0]
    described = {key: (values.dtype.name, values.shape) for key, values in batch.items()}
    assert described == {
        "image": ("uint8", (4, 4, 4, 1)),
        "label": ("int32", (4,)),
        "example_weight": ("float32", (4,)),
        "id": ("int64", (4,)),
    }
    assert (batch["image"][:, 0, 1, 0] == batch["id"]).all()
    assert (batch["label"] == batch["id"] % 2).all()


def test_a_batch_may_span_epochs_and_no_example_is_dropped():
    taken = ids(batches(stream(numbers(10), 4), 0, 5))
    assert [len(batch) for batch in taken] == [4, 4, 4, 4, 4]
    flat = [number for batch in taken for number in batch]
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10))
    assert flat[:10] != flat[10:]


def test_a_batch_larger_than_the_data_repeats_it():
    assert np.bincount(batches(stream(numbers(3), 7), 0, 1)[0]["id"]).min() == 2


def test_seeds_give_other_orders():
    one, two = (ids(batches(stream(numbers(100), 10, seed=seed), 0, 20)) for seed in (0, 1))
    assert one != two
    assert one[10:] != two[:10]


RESUME = """
import sys
sys.path.insert(0, {tests!r})
import test_pipeline as t
for start in (0, 1, 5):
    print(t.ids(t.batches(t.stream(t.numbers(100), 7, t.VARIED), start, 29 - start)))
"""


@pytest.mark.gate
def test_a_new_process_goes_on_with_the_same_examples():
    whole = ids(batches(stream(numbers(100), 7, EVERY_DRAW), 0, 29))  # two epochs
    code = RESUME.format(tests=str(pathlib.Path(__file__).parent))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert ran.stdout.splitlines() == [str(whole[start:]) for start in (0, 1, 5)]


def test_images_and_all_after_a_resume_are_those_of_an_uninterrupted_run():
    for augment in (VARIED, EVERY_DRAW):
        whole = batches(stream(numbers(30), 7, augment), 0, 9)
        assert equal(batches(stream(numbers(30), 7, augment), 6, 3), whole[6:])


def test_images_kept_in_memory_give_the_same_batches():
    for augment in (Augment(), VARIED):
        kept, read = (
            stream(numbers(30), 7, augment, in_memory="always"),
            stream(numbers(30), 7, augment, in_memory="never"),
        )
        assert kept.in_memory
        assert not read.in_memory
        assert equal(batches(kept, 2, 8), batches(read, 2, 8))


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_worker_processes_give_the_same_batches(workers):
    alone = batches(stream(numbers(30), 8, EVERY_DRAW), 3, 6)
    assert equal(batches(stream(numbers(30), 8, EVERY_DRAW, workers=workers), 3, 6), alone)


@pytest.mark.parametrize("memory", ["always", "never"])
def test_the_rows_of_two_processes_make_the_whole_batch(memory):
    whole = batches(stream(numbers(30), 8, VARIED, in_memory=memory), 2, 4)
    parts = [
        batches(stream(numbers(30), 8, VARIED, rows=rows, in_memory=memory), 2, 4)
        for rows in (slice(0, 5), slice(5, 8))
    ]
    joined = [{key: np.concatenate([one[key], two[key]]) for key in one} for one, two in zip(*parts, strict=True)]
    assert equal(joined, whole)


def test_balanced_classes_come_equally_often_and_none_of_their_examples_is_left_out():
    source = numbers(100, labels=[0] * 90 + [1] * 8 + [2] * 2)
    taken = batches(stream(source, 30, balance="classes"), 0, 9)
    assert all(np.bincount(batch["label"]).tolist() == [10, 10, 10] for batch in taken)
    times = np.bincount(np.concatenate([batch["id"] for batch in taken]), minlength=100)
    assert (times[:90] == 1).all()
    assert times[90:98].sum() == 90
    assert times[90:98].min() == 11
    assert (times[98:] == 45).all()
    assert equal(batches(stream(source, 30, balance="classes"), 4, 2), taken[4:6])


@pytest.mark.parametrize(("augment", "batch_size"), [(VARIED, 6), (EVERY_DRAW, 5)])
def test_repeats_show_each_example_so_often_in_a_row_with_draws_of_its_own(augment, batch_size):
    source = numbers(10)
    repeated = batches(stream(source, batch_size, augment, repeats=3), 0, 30 // batch_size)
    ids = np.concatenate([batch["id"] for batch in repeated]).reshape(-1, 3)
    assert (ids == ids[:, :1]).all()  # 30 rows, three epochs: each example three times, one after the other
    assert sorted(ids[:, 0].tolist()) == list(range(10))
    once = batches(stream(source, 10), 0, 1)[0]
    assert ids[:, 0].tolist() == once["id"].tolist()
    images = np.concatenate([batch["image"] for batch in repeated]).reshape(10, 3, -1)
    assert any((group != group[0]).any() for group in images)


def test_repeats_resume_within_a_group_and_count_rows_as_examples():
    source = numbers(10)
    whole = batches(stream(source, 4, VARIED, repeats=3), 0, 6)
    resumed = batches(stream(source, 4, VARIED, repeats=3), 4, 2)
    for one, other in zip(whole[4:], resumed, strict=True):
        assert all((one[key] == other[key]).all() for key in one)
    assert stream(source, 4, repeats=3).steps_per_epoch == 2.5


def test_balance_and_training_need_more_than_one_class():
    config = SimpleNamespace(image_size=4, channels=1)
    with pytest.raises(UserError, match="only one class"):
        ImageProcessor(Preprocessing()).rows(numbers(4, labels=[0, 0, 0, 0]), Data(name="numbers"), config, train=True)


def test_examples_per_epoch_are_told():
    assert stream(numbers(10), 4).steps_per_epoch == 2.5


@pytest.mark.parametrize("memory", ["always", "never"])
@pytest.mark.parametrize(("count", "batch_size"), [(10, 4), (8, 4), (5, 64), (1, 1)])
def test_evaluation_sees_each_example_once_in_batches_of_one_shape(count, batch_size, memory):
    data = Data(name="numbers", in_memory=memory)
    source = numbers(count, np.zeros(count))
    images = ExampleRows(source, data, (ImageArrays(Preprocessing(), (4, 4), 1),))
    taken = list(eval_batches(images, data, batch_size=batch_size))
    assert {batch["image"].shape for batch in taken} == {(batch_size, 4, 4, 1)}
    seen, weights = (np.concatenate([batch[key] for batch in taken]) for key in ("id", "example_weight"))
    assert seen[weights == 1].tolist() == list(range(count))
    assert (seen[weights == 0] == -1).all()


@pytest.mark.slow
def test_evaluation_with_workers_and_rows_counts_10_003_once():
    source, data = numbers(10_003), Data(name="numbers", in_memory="never", workers=2)
    kept = Data(name="numbers")
    images, streamed = (ExampleRows(source, how, (ImageArrays(Preprocessing(), (4, 4), 1),)) for how in (kept, data))
    alone = list(eval_batches(images, kept, batch_size=500))
    workers = list(eval_batches(streamed, data, batch_size=500))
    assert sum(batch["example_weight"].sum() for batch in alone) == 10_003
    assert equal(alone, workers)
    half = [list(eval_batches(images, kept, batch_size=500, part=part)) for part in (slice(0, 250), slice(250, 500))]
    assert equal([{key: np.concatenate([a[key], b[key]]) for key in a} for a, b in zip(*half, strict=True)], alone)


@pytest.mark.parametrize("memory", ["always", "never"])
def test_a_file_that_vanishes_is_a_row_of_weight_0_counted_and_named_once_a_run(photos, memory, capsys):
    left_out.begin()
    data = Data(name=f"folder:{photos}", bad_files="skip", batch_size=27, in_memory=memory)
    source = open_source(data)
    lost = pathlib.Path(source.info.files[3])
    lost.unlink()
    images = ExampleRows(source, data, (ImageArrays(Preprocessing(), (8, 8), 3, Augment()),))
    made = TrainStream(images, data, seed=0)
    batch = batches(made, 0, 1)[0]
    assert batch["example_weight"].sum() == 26
    assert batch["id"][batch["example_weight"] == 0] == source.ids[3]
    counted = list(eval_batches(images, data, batch_size=10))
    assert sum(batch["example_weight"].sum() for batch in counted) == 26
    assert left_out.named() == [str(lost)]
    assert capsys.readouterr().err == f"warning: left out, can't be read: {lost}\n"


@pytest.mark.gate
@pytest.mark.parametrize(("memory", "workers"), [("always", 0), ("never", 0), ("never", 1)])
def test_a_file_that_vanishes_stops_the_run_under_stop(photos, memory, workers):
    data = Data(name=f"folder:{photos}", batch_size=27, in_memory=memory, workers=workers)
    source = open_source(data)
    pathlib.Path(source.info.files[3]).unlink()
    images = ExampleRows(source, data, (ImageArrays(Preprocessing(), (8, 8), 3, Augment()),))
    made = TrainStream(images, data, seed=0)
    with pytest.raises(RunError, match=rf"{pathlib.Path(source.info.files[3]).name}.*data.bad_files=skip"):
        batches(made, 0, 2)
    made.close()


def test_a_label_outside_the_classes_is_never_trained_on():
    table = image_table("numbers", ["a", "b"], numbered(4), np.array([0, 1, 2, 0], np.int32), {"train": np.arange(4)})
    with pytest.raises(UserError, match="numbers example 2 has the label 2; there are 2 classes"):
        table.open("train")


def test_several_labels_are_rows_of_floats():
    labels = np.array([[1, 0, 1], [0, 0, 0]], np.float32)
    table = image_table("tags", ["a", "b", "c"], numbered(2), labels, {"train": np.arange(2)})
    batch = batches(stream(table.open("train"), 4), 0, 1)[0]
    assert batch["label"].dtype == np.float32
    assert (batch["label"] == labels[batch["id"]]).all()
    with pytest.raises(UserError, match="needs one label for each image"):
        stream(table.open("train"), 4, balance="classes")


def test_memory_goes_with_its_source():
    source = numbers(10)
    batches(stream(source, 4, in_memory="always"), 0, 3)
    gone = weakref.ref(source)
    del source
    deadline = time.monotonic() + 10  # a thread that was reading ahead lets go of it soon
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    assert gone() is None


def test_closing_ends_threads():
    before = {thread.name for thread in threading.enumerate()}
    made = stream(numbers(30), 4, EVERY_DRAW)
    iterator = made.iterate(0)
    next(iterator)
    made.close()
    deadline = time.monotonic() + 10
    while (left := {t.name for t in threading.enumerate()} - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not {name for name in left if name.startswith("grain")}


ORPHANS = """
import sys
sys.path.insert(0, {tests!r})
import multiprocessing, time
import test_pipeline as t
iterator = t.stream(t.numbers(30), 4, t.EVERY_DRAW, workers=1).iterate(0)
next(iterator)
print(*[child.pid for child in multiprocessing.active_children()], flush=True)
time.sleep(60)
"""


@pytest.mark.gate
def test_workers_of_a_script_without_a_guard_start_once_and_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(ORPHANS.format(tests=str(pathlib.Path(__file__).parent)))
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ}
    )
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert workers
    for pid in workers:  # as when a scheduler signals every process of a job
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.3)
    assert all(is_running(pid) for pid in workers)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in workers if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_picture_read_from_disk_reaches_the_batch(tmp_path):
    for name, color in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        picture(tmp_path / "set" / name / "1.png", (9, 5), color)
    data = Data(name=f"folder:{tmp_path}/set", batch_size=2)
    images = ExampleRows(open_source(data), data, (ImageArrays(Preprocessing(), (4, 6), 3, EVERY_DRAW),))
    made = TrainStream(images, data, seed=0)
    assert batches(made, 0, 1)[0]["image"].shape == (2, 4, 6, 3)
