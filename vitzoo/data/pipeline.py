"""Batches as a function of (seed, step): the same for any number of processes, workers and restarts.

Each global position p = step * batch_size + row of an endless stream stands for one example (shuffled anew in each
epoch; an epoch's end falls anywhere in a batch, nothing is dropped) and for its draws of augmentation. A process reads
only the positions of its rows, so that resuming needs the step and nothing else.
"""

import functools
import multiprocessing.spawn
import os
import signal
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import grain
import numpy as np
from absl import flags

from vitzoo.data import left_out
from vitzoo.data.draws import Order, example_order
from vitzoo.data.image_files import BadImage
from vitzoo.data.rows import Batch, FallibleRows, HeldRows, Row, Rows, held
from vitzoo.data.settings import Data
from vitzoo.errors import RunError

WHOLE = slice(None)
ENDLESS = 2**62
SHARE_LARGE_ARRAYS = grain.experimental.DatasetOptions(min_shm_size=2**20)


class TrainStream:
    """The endless stream of training batches.

    `iterate(step)` gives dicts of numpy arrays, the rows' with a first axis for the rows of each global batch of
    `data.batch_size` that this process loads. Batch k is a function of (seed, k) alone.

    Args:
        rows: of the training split.
        data: batch size, balance, workers.
        seed: of order and draws.
        part: which rows of each global batch are this process's.

    Raises:
        UserError: `balance=classes` with several labels to an example.
    """

    def __init__(self, rows: Rows, data: Data, *, seed: int, part: slice = WHOLE):
        self.rows, self.data, self.seed = rows, data, seed
        self.part = np.arange(data.batch_size)[part]
        self.order = example_order(rows, seed, data.balance, data.repeats)
        self.in_memory = held(rows) is not None
        self.steps_per_epoch = len(rows) / data.batch_size
        self._open: weakref.WeakSet[Generator] = weakref.WeakSet()

    def iterate(self, start_step: int = 0) -> Iterator[Batch]:
        """The batches `start_step`, `start_step + 1`, ... without end; their making runs ahead in the background.

        Raises:
            RunError: under `bad_files=stop`, a file can no longer be read; it is named.
        """
        dataset = self._in_memory(start_step) if self.in_memory else self._streamed(start_step)
        batches = _bad_named(_named_failures(dataset, self.data.workers > 0), self.rows)
        self._open.add(batches)
        return batches

    def close(self) -> None:
        """Ends threads and workers of all iterators."""
        for batches in list(self._open):
            batches.close()

    def positions(self, step: int) -> np.ndarray:
        """The global positions that this process loads for a step."""
        return step * self.data.batch_size + self.part

    def _in_memory(self, start_step: int) -> grain.IterDataset:
        batches = grain.MapDataset.range(start_step, ENDLESS).map(self._held_batch)
        return batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=self.data.prefetch))

    def _held_batch(self, step: int) -> Batch:
        rows, positions = held(self.rows), self.positions(step)
        assert rows is not None
        return rows.train_batch(self.order(positions), self.seed, positions)

    def _streamed(self, start_step: int) -> grain.IterDataset:
        read = functools.partial(_read_position, self.rows, self.order, self.seed, self.data.batch_size, self.part)
        numbers = grain.MapDataset.range(start_step * len(self.part), ENDLESS)
        return batched(numbers.map(read), len(self.part), self.data)


def eval_batches(rows: Rows, data: Data, *, batch_size: int, part: slice = WHOLE) -> Iterator[Batch]:
    """One pass in order, each row once, in batches of one shape: rows of weight 0 and id -1 fill up the last.

    Args:
        rows: of the split.
        data: workers.
        batch_size: of a global batch.
        part: which rows of each are this process's.
    """
    own = np.arange(batch_size)[part]
    steps = -(-len(rows) // batch_size)
    if (in_memory := held(rows)) is not None:
        batches = grain.MapDataset.range(steps).map(functools.partial(_held_padded, in_memory, batch_size, own))
        dataset = batches.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=data.prefetch))
    else:
        read = functools.partial(_read_padded, rows, batch_size, own)
        dataset = batched(grain.MapDataset.range(steps * len(own)).map(read), len(own), data)
    return _bad_named(_named_failures(dataset, data.workers > 0), rows)


def batched(rows: grain.MapDataset, batch_size: int, data: Data) -> grain.IterDataset:
    """Rows read in threads, or in `data.workers` processes, which make whole batches; both give the same batches."""
    if data.workers:
        prepare_workers()
        batches = rows.batch(batch_size).to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1))
        options = grain.MultiprocessingOptions(num_workers=data.workers, per_worker_buffer_size=data.prefetch)
        # Small arrays travel through pipes: shared memory only pays for images in numbers.
        batches = grain.experimental.WithOptionsIterDataset(batches, SHARE_LARGE_ARRAYS)
        return batches.mp_prefetch(options, worker_init_fn=functools.partial(start_worker, os.getpid()))
    threads = max(2, min(16, os.cpu_count() or 2))
    read = rows.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=data.prefetch * batch_size))
    return grain.experimental.ThreadPrefetchIterDataset(read.batch(batch_size), prefetch_buffer_size=1)


def _read_position(rows: Rows, order: Order, seed: int, batch_size: int, part: np.ndarray, number: int) -> Row:
    """The `number`-th row that this process reads, counted from step 0."""
    step, row = divmod(number, len(part))
    position = step * batch_size + int(part[row])
    return rows.train_row(int(order(np.array([position]))[0]), seed, position)


def _read_padded(rows: Rows, batch_size: int, part: np.ndarray, number: int) -> Row:
    step, row = divmod(number, len(part))
    index = step * batch_size + int(part[row])
    return rows.eval_row(index) if index < len(rows) else rows.padding()


def _held_padded(rows: HeldRows, batch_size: int, part: np.ndarray, step: int) -> Batch:
    indices = step * batch_size + part
    real = indices < len(rows)
    batch = rows.eval_batch(np.where(real, indices, 0))
    padding = rows.padding()
    for key, values in batch.items():
        values[~real] = padding[key]
    return batch


def _named_failures(dataset: grain.IterDataset, workers: bool) -> Iterator[Batch]:
    """Iterates; an unreadable file ends it with one line. Threads and workers end with the iteration."""
    iterator = iter(dataset)
    try:
        for batch in iterator:
            # Workers send arrays in shared memory; a copy lets go of it at once.
            yield {key: np.array(values, subok=False) for key, values in batch.items()} if workers else batch
    except BadImage as error:
        raise RunError(f"{error} (data.bad_files=skip leaves such files out and counts them)") from error
    except RuntimeError as error:
        if not (workers and "process was terminated" in str(error)):
            raise
        said = "a process that reads data (data.workers) ended, killed or out of memory"
        raise RunError(f"{said}; the same command goes on from the last checkpoint") from error
    finally:
        iterator.close()


def _bad_named(batches: Iterator[Batch], rows: Rows) -> Generator[Batch, None, None]:
    """The batches; each example that couldn't be read is named the first time. Padding, id -1, isn't one."""
    if not isinstance(rows, FallibleRows):
        yield from batches
        return
    lost: set[int] = set()
    for batch in batches:
        new = {int(id) for id in batch["id"][batch["example_weight"] == 0]} - lost - {-1}
        for id in sorted(new):
            left_out.name(rows.where(id))
        lost |= new
        yield batch


NAMED = "grain-process-prefetch"
"""How the names of Grain's workers begin."""
MAIN = ("init_main_from_name", "init_main_from_path")
"""What tells a new process to run the parent's script once more."""


def prepare_workers() -> None:
    """Makes this program one that Grain's workers can be started from; a second call does nothing."""
    if not flags.FLAGS.is_parsed():  # Grain reads absl's flags when it starts workers
        flags.FLAGS.mark_as_parsed()
    spawn: Any = multiprocessing.spawn
    if spawn.get_preparation_data.__module__ != __name__:
        spawn.get_preparation_data = _without_script(spawn.get_preparation_data)


def _without_script(get_preparation_data: Any) -> Any:
    """Python runs the parent's script in each new process: one that isn't guarded by its `__name__` would train there
    once more. Workers don't need it, since what Grain sends them holds the script's own functions and classes.
    """

    def prepared(name: str) -> dict[str, Any]:
        data = get_preparation_data(name)
        return {key: value for key, value in data.items() if key not in MAIN or not name.startswith(NAMED)}

    return prepared


def start_worker(parent: int, index: int, count: int) -> None:
    """A worker leaves Ctrl-C and preemption to its parent, and ends when the parent does, however that ended."""
    for sent_to_all in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent_to_all, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
