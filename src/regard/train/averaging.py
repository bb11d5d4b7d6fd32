"""Averages of weights: a running one during training, and one of several checkpoints at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.hub import read_tensors


class EMA:
    """An exponential moving average of the parameters, kept in float32 whatever the model's dtype.

    After update n the shadow moves by 1 - min(decay, (1 + n) / (10 + n)) towards the parameters, so that the first
    updates, which are far from the end, are forgotten quickly.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.parameters = dict(model.named_parameters())
        self.shadow = {name: p.detach().to(torch.float32, copy=True) for name, p in self.parameters.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Moves the shadow after an update of the model."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        now = [p.detach().float() for p in self.parameters.values()]
        torch._foreach_lerp_(list(self.shadow.values()), now, share)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model has the averaged parameters; afterwards exactly its own again."""
        own = {name: p.detach().clone() for name, p in self.parameters.items()}
        self._write(self.shadow)
        try:
            yield
        finally:
            self._write(own)

    @torch.no_grad()
    def _write(self, values: dict[str, Tensor]) -> None:
        for name, p in self.parameters.items():
            p.copy_(values[name])


def average(files: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the tensors of several safetensors files with the same names, summed in float64, in their dtype.

    Raises:
        ValueError: no file, or files with different names.
    """
    if not files:
        raise ValueError("nothing to average")
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for file in files:
        tensors = read_tensors(file)
        if sums and tensors.keys() != sums.keys():
            raise ValueError(f"{file}: other tensor names than {files[0]}")
        for name, tensor in tensors.items():
            dtypes[name] = tensor.dtype
            wide = tensor.to(torch.float64, copy=True)
            sums[name] = sums[name].add_(wide) if name in sums else wide
    return {name: (total / len(files)).to(dtypes[name]) for name, total in sums.items()}
