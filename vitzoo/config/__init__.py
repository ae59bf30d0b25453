"""One schema for every experiment: `default` starts a config file, `resolve` makes a checked experiment of it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitzoo.config.defaults import choice as choice
    from vitzoo.config.defaults import default as default
    from vitzoo.config.defaults import required as required
    from vitzoo.config.experiment import Experiment as Experiment
    from vitzoo.config.fields import compare as compare
    from vitzoo.config.files import list_configs as list_configs
    from vitzoo.config.files import load as load
    from vitzoo.config.resolution import Resolved as Resolved
    from vitzoo.config.resolution import resolve as resolve

_WHERE = {
    "Experiment": "experiment",
    "Resolved": "resolution",
    "choice": "defaults",
    "compare": "fields",
    "default": "defaults",
    "list_configs": "files",
    "load": "files",
    "required": "defaults",
    "resolve": "resolution",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
