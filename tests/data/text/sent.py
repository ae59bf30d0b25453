"""What a worker process gets of an object that is handed to it."""

from multiprocessing.reduction import ForkingPickler
from typing import Any


def sent(value: Any) -> Any:
    """The object as it arrives there."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))
