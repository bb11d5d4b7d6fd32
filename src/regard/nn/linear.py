"""The one Linear. How its weight is stored, and what is adapted, stays behind this name."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Role = Literal["query", "key", "value", "out", "gate", "up", "down", "head"]


class Linear(nn.Module):
    """y = x W^T + b, with W [out_features, in_features].

    `role` says what the projection is for; initialisation schemes and tensor parallelism read it.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool, role: Role) -> None:
        super().__init__()
        self.in_features, self.out_features, self.role = in_features, out_features, role
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, role={self.role}"
