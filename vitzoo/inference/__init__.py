"""Using a model: `Predictor` and `Generator` hold a checkpoint ready to be called."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitzoo.inference.generator import Generator as Generator
    from vitzoo.inference.predict import Predictor as Predictor

_WHERE = {"Generator": "generator", "Predictor": "predict"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
