"""Feed-forward parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard import spec
from regard.nn.body import PerToken
from regard.nn.dropout import Dropout
from regard.nn.linear import Linear


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its tanh approximation (arXiv:1606.08415, section 2)."""
    return F.gelu(x, approximate="tanh")


def relu2(x: Tensor) -> Tensor:
    """max(x, 0)^2 (arXiv:2109.08668)."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu, "relu2": relu2,
}  # fmt: skip


class MLP(PerToken):
    """down(activation(up(x)))."""

    def __init__(self, part: spec.MLP, size: int) -> None:
        super().__init__()
        self.up = Linear(size, part.intermediate_size, part.bias, "up")
        self.down = Linear(part.intermediate_size, size, part.bias, "down")
        self.activation = ACTIVATIONS[part.activation]
        self.dropout = Dropout(part.dropout)

    def forward(self, x: Tensor, context: Any = None, state: Any = None) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))


class GatedMLP(PerToken):
    """down(activation(gate(x)) * up(x)) (arXiv:2002.05202)."""

    def __init__(self, part: spec.GatedMLP, size: int) -> None:
        super().__init__()
        self.gate = Linear(size, part.intermediate_size, part.bias, "gate")
        self.up = Linear(size, part.intermediate_size, part.bias, "up")
        self.down = Linear(part.intermediate_size, size, part.bias, "down")
        self.activation = ACTIVATIONS[part.activation]
        self.dropout = Dropout(part.dropout)

    def forward(self, x: Tensor, context: Any = None, state: Any = None) -> Tensor:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))
