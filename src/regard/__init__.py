"""regard: the Transformer family, to train, load, run, measure and look inside."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "build": "regard.nn.build",
    "record": "regard.nn.hook",
    "load": "regard.hub",
    "save": "regard.hub",
    "generate": "regard.generate",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in ("nn", "spec", "mask"):
        return importlib.import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
