"""TensorBoard's event file, written at once and in this thread: a full disk is an error here and now."""

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path


class Events:
    """Scalars for TensorBoard.

    Args:
        workdir: where the file goes.
        step: the step that the run starts or resumes from; TensorBoard then drops what earlier files say of later ones.
    """

    def __init__(self, workdir: Path, step: int):
        from tensorboardX.proto import event_pb2, summary_pb2

        self._event, self._summary = event_pb2, summary_pb2
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = workdir / name
        self._file = self.path.open("ab", buffering=0)
        self._write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))
        if step:
            restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._write(event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=restart))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add numbers by name."""
        scalars = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        summary = self._summary.Summary(value=scalars)
        self._write(self._event.Event(wall_time=time.time(), step=step, summary=summary))

    def fileno(self) -> int:
        """The open file's descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def _write(self, event) -> None:
        from tensorboardX.record_writer import masked_crc32c

        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        checksums = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
        self._file.write(length + checksums[0] + data + checksums[1])  # a TFRecord
