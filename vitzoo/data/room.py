"""How many pixels this process decodes at once: a large image waits until others are done with."""

import contextlib
import threading
from collections.abc import Iterator

MOST_PIXELS = 2**27
"""Of all images that are being decoded and resized. One that has more itself is read alone."""

_taken = 0
_changed = threading.Condition()


@contextlib.contextmanager
def room_for(pixels: int) -> Iterator[None]:
    """Waits until an image of so many pixels fits beside those that other threads are at work on."""
    global _taken
    with _changed:
        _changed.wait_for(lambda: _taken == 0 or _taken + pixels <= MOST_PIXELS)
        _taken += pixels
    try:
        yield
    finally:
        with _changed:
            _taken -= pixels
            _changed.notify_all()
