"""`config.profile=START:STOP`: a trace of those steps, for TensorBoard's profiler or Perfetto."""

from pathlib import Path

import jax


class Profiler:
    """Traces the steps START to STOP − 1 into `WORKDIR/profile`; does nothing for an empty span."""

    def __init__(self, span: str, workdir: Path):
        self._start, self._stop = map(int, span.split(":")) if span else (-1, -1)
        self._folder, self._running = workdir / "profile", False

    def before(self, step: int) -> None:
        """To be called before each step."""
        if step == self._start:
            jax.profiler.start_trace(self._folder)
            self._running = True
        elif step == self._stop:
            self.close()

    def close(self) -> None:
        if self._running:
            self._running = False
            jax.profiler.stop_trace()
