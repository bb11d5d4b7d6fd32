"""Adam and AdamW over parameter groups that are complete and disjoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.ranges import at_least, check_numbers, positive
from regard.values import FieldError


@dataclass(frozen=True)
class OptimizerConfig:
    """The [optimizer] table.

    "adam" (arXiv:1412.6980) adds weight decay to the gradient, "adamw" (arXiv:1711.05101) to the weight; it acts on
    matrices only, never on norms and biases. The defaults of betas and eps are those of the 2017 Transformer.
    """

    kind: Literal["adam", "adamw"] = "adam"
    lr: float = 7e-4
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self)
        positive(self, "lr", "eps")
        at_least(self, 0, "weight_decay")
        for i, beta in enumerate(self.betas):
            if not 0 <= beta < 1:
                raise FieldError(f"got {beta}, must lie in [0, 1)", f"betas[{i}]")


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: tensors with two or more dimensions decay; norms, biases and scalars do not.

    Every trainable parameter is in exactly one group, once, also where weights are tied.

    Returns:
        [{"params": [...], "names": [...], "weight_decay": ...}, {..., "weight_decay": 0.0}]
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]  # tied tensors come once
    groups = []
    for decays in (True, False):
        members = [(name, p) for name, p in named if (p.ndim >= 2) == decays]
        groups.append(
            {
                "params": [p for _, p in members],
                "names": [name for name, _ in members],
                "weight_decay": weight_decay if decays else 0.0,
            }
        )
    check_groups(model, groups)
    return groups


def check_groups(model: nn.Module, groups: list[dict[str, Any]]) -> None:
    """Raises ValueError, naming the parameters, when the groups are not complete and disjoint."""
    seen: dict[int, int] = {}
    for group in groups:
        for p in group["params"]:
            seen[id(p)] = seen.get(id(p), 0) + 1
    trainable = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    missing = [name for key, name in trainable.items() if key not in seen]
    twice = [trainable.get(key, "?") for key, count in seen.items() if count > 1]
    foreign = [key for key in seen if key not in trainable]
    if missing or twice or foreign:
        problem = f"in no group: {missing}; in more than one: {twice}; not of this model: {len(foreign)}"
        raise ValueError(f"parameter groups are not complete and disjoint: {problem}")


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer of the recipe; the loop sets its learning rate before every update."""
    groups = parameter_groups(model, config.weight_decay)
    cls = torch.optim.Adam if config.kind == "adam" else torch.optim.AdamW
    return cls(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as {"parameter name/key": tensor}."""
    out: dict[str, Tensor] = {}
    for group in optimizer.param_groups:
        for name, p in zip(group["names"], group["params"], strict=True):
            for key, value in optimizer.state.get(p, {}).items():
                out[f"{name}/{key}"] = value
    return out


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Puts back what `optimizer_tensors` gave; ValueError when the names are not those of this optimizer."""
    places = {
        name: p for group in optimizer.param_groups for name, p in zip(group["names"], group["params"], strict=True)
    }
    optimizer.state.clear()
    for full, value in tensors.items():
        name, _, key = full.rpartition("/")
        if name not in places:
            raise ValueError(f"the optimizer has no parameter {name!r}")
        # fresh memory of the parameter's own layout, as the optimizer itself would allocate it
        optimizer.state[places[name]][key] = value.to(value.device, copy=True)
