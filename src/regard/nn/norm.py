"""LayerNorm and RMSNorm. Statistics are at least float32, float64 in float64 models."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import spec


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimension (arXiv:1607.06450)."""

    def __init__(self, part: spec.LayerNorm, size: int) -> None:
        super().__init__()
        self.size, self.eps = (size,), part.eps
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if part.bias else None

    def forward(self, x: Tensor) -> Tensor:
        # torch's kernel keeps its statistics in float32 for half-precision inputs
        return F.layer_norm(x, self.size, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * (offset + weight) over the last dimension (arXiv:1910.07467)."""

    def __init__(self, part: spec.RMSNorm, size: int) -> None:
        super().__init__()
        self.size, self.eps, self.offset = (size,), part.eps, part.offset
        self.weight = nn.Parameter(torch.full((size,), 1.0 - part.offset))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight + self.offset if self.offset else self.weight
        return F.rms_norm(x, self.size, weight, self.eps)
