"""Number formats of training: float32, bfloat16 autocast, float16 with a loss scaler."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import torch
from torch import Tensor

Format = Literal["float32", "bfloat16", "float16"]


class Precision:
    """How the forward, the backward and the update run in a number format.

    Parameters and optimizer states stay float32 in all of them. With float16 the loss is multiplied by a scale that
    keeps small gradients alive (arXiv:1710.03740); an update whose gradients overflow is skipped, and the scale halved.
    """

    def __init__(self, kind: Format, device: str = "cpu", first_scale: float = 65536.0) -> None:
        self.kind, self.device = kind, torch.device(device).type
        self.dtype = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}[kind]
        self.scaler = torch.amp.GradScaler(self.device, init_scale=first_scale) if kind == "float16" else None

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The context of a forward pass."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=self.dtype)

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of `loss` (scaled, with float16) to the parameters."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def clip(self, optimizer: torch.optim.Optimizer, parameters: list[Tensor], limit: float) -> Tensor:
        """Scales the whole accumulated gradient to a norm of at most `limit` (0: leaves it), and returns its norm."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)  # the limit is meant for true gradients
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if limit > 0:
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
        return norm

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Does the update; False when the scaler skipped it because a gradient was not finite."""
        if self.scaler is None:
            optimizer.step()
            return True
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        return bool(self.scaler.get_scale() >= before)

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state; empty without one."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` gave."""
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)
