"""Training and evaluation mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model is in eval mode while the block runs; then every module is as it was (each has a flag of its own).

    A model that is in eval mode already is not touched, so threads may share it.
    """
    training = [module for module in model.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True
