"""Vision Transformers in JAX: from a config file to a trained, evaluated, self-describing checkpoint.

Names resolve on first use: `import vitzoo` imports nothing heavy, not even JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitzoo import config as config
    from vitzoo.api import create_model as create_model
    from vitzoo.api import list_models as list_models
    from vitzoo.api import train as train
    from vitzoo.errors import RunError as RunError
    from vitzoo.errors import UserError as UserError
    from vitzoo.evaluation.evaluate import evaluate as evaluate
    from vitzoo.inference.generate import generate as generate
    from vitzoo.inference.predict import predict as predict
    from vitzoo.weights.load import load as load

    __version__: str

_WHERE = {
    "RunError": "vitzoo.errors",
    "UserError": "vitzoo.errors",
    "create_model": "vitzoo.api",
    "evaluate": "vitzoo.evaluation.evaluate",
    "generate": "vitzoo.inference.generate",
    "list_models": "vitzoo.api",
    "load": "vitzoo.weights.load",
    "predict": "vitzoo.inference.predict",
    "train": "vitzoo.api",
}
__all__ = [
    *("RunError", "UserError", "__version__", "config", "create_model", "evaluate", "generate", "list_models", "load"),
    *("predict", "train"),
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name == "config":
        return importlib.import_module("vitzoo.config")
    if name == "__version__":
        return importlib.import_module("vitzoo.version").version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
