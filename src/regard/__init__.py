"""regard: the Transformer family, to train, load, run, measure and look inside.

The public names are below; each is imported, and torch with it, when it is first used. Every part of a spec
(`regard.Attention`, `regard.EncoderDecoder`, ...) is here too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.hub import load as load
    from regard.hub import save as save
    from regard.nn.build import build as build
    from regard.nn.hook import record as record
    from regard.spec import *  # noqa: F403

__version__ = "0.1.0"

_PLACES = {
    "build": "regard.nn.build",
    "record": "regard.nn.hook",
    "load": "regard.hub",
    "save": "regard.hub",
}
_MODULES = ("generate", "mask", "nn", "shapes", "spec")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"regard.{name}")
    if name[:1].isupper():
        parts = importlib.import_module("regard.spec")
        if name in parts.__all__:
            return getattr(parts, name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    parts = [name for name in importlib.import_module("regard.spec").__all__ if name[0].isupper()]
    return sorted([*globals(), *_PLACES, *_MODULES, *parts])
