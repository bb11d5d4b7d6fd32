"""The residual, written once, and the layer that holds its bodies by role.

x  ->  post_norm( scale * x  +  branch_scale * branch_norm( body( pre_norm(x) ) ) )
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard import spec
from regard.nn.body import Body
from regard.nn.build import build_part
from regard.nn.dropout import Dropout
from regard.nn.layout import Context

ROLES = {spec.Attention: "attention", spec.CrossAttention: "cross_attention", spec.MLP: "mlp", spec.GatedMLP: "mlp"}


class Residual(nn.Module):
    """The norms, dropout and scales of one sublayer. The body belongs to the layer, which names it by its role."""

    def __init__(self, part: spec.Residual, size: int) -> None:
        super().__init__()
        self.pre_norm = build_part(part.pre_norm, size)
        self.branch_norm = build_part(part.branch_norm, size)
        self.post_norm = build_part(part.post_norm, size)
        self.scale, self.branch_scale, self.normed_skip = part.scale, part.branch_scale, part.skip == "normed"
        self.dropout = Dropout(part.dropout)

    def branch(self, body: nn.Module, normed: Tensor, context: Context, state: Any) -> Tensor:
        """branch_scale * branch_norm(body(.)), with dropout."""
        y = self.dropout(self.branch_norm(body(normed, context, state)))
        return y if self.branch_scale == 1.0 else self.branch_scale * y

    def forward(self, x: Tensor, body: nn.Module, context: Context, state: Any) -> Tensor:
        normed = self.pre_norm(x)
        skip = normed if self.normed_skip else x
        skip = skip if self.scale == 1.0 else self.scale * skip
        return self.post_norm(skip + self.branch(body, normed, context, state))


class Parallel(nn.Module):
    """x + the sum of several branches that all read pre_norm(x)."""

    def __init__(self, part: spec.Parallel, size: int) -> None:
        super().__init__()
        self.pre_norm = build_part(part.pre_norm, size)
        self.branches = nn.ModuleList(Residual(b, size) for b in part.branches)

    def forward(self, x: Tensor, bodies: list[nn.Module], context: Context, states: list[Any]) -> Tensor:
        shared = self.pre_norm(x)
        for residual, body, state in zip(self.branches, bodies, states, strict=True):
            x = x + residual.branch(body, residual.pre_norm(shared), context, state)  # type: ignore[operator]
        return x


class Layer(nn.Module):
    """The sublayers of one layer, in order: the unit of sharding, recomputation and regional compilation.

    Bodies are named by role (`attention`, `cross_attention`, `mlp`; a second of the same role `_2`), the wiring of
    each by `<role>_residual` or, for branches in parallel, `parallel`.
    """

    def __init__(self, parts: spec.Layer, size: int, memory_size: int | None) -> None:
        super().__init__()
        self.plan: list[tuple[str, tuple[str, ...]]] = []  # (name of the wiring, names of its bodies)
        for part in parts:
            branches = part.branches if isinstance(part, spec.Parallel) else (part,)
            roles = tuple(self._add(ROLES[type(b.body)], build_part(b.body, size, memory_size)) for b in branches)
            if isinstance(part, spec.Parallel):
                name = self._add("parallel", Parallel(part, size))
            else:
                name = self._add(f"{roles[0]}_residual", Residual(part, size))
            self.plan.append((name, roles))

    def _add(self, name: str, module: nn.Module) -> str:
        count = 1
        taken = dict(self.named_children())
        while (numbered := name if count == 1 else f"{name}_{count}") in taken:
            count += 1
        name = numbered
        self.add_module(name, module)
        return name

    def new_states(self, batch: int, capacity: int) -> list[Any]:
        """One state a body, None for those without memory; a list for parallel branches."""

        bodies = self.bodies()

        def state(role: str) -> Any:
            return bodies[role].new_state(batch, capacity)

        return [
            [state(r) for r in roles] if name.startswith("parallel") else state(roles[0]) for name, roles in self.plan
        ]

    def bodies(self) -> dict[str, Body]:
        """The mixers and feed-forward parts by role, in order."""
        return {role: getattr(self, role) for _, roles in self.plan for role in roles}

    def forward(self, x: Tensor, context: Context, states: list[Any] | None = None) -> Tensor:
        for i, (name, roles) in enumerate(self.plan):
            wiring = getattr(self, name)
            state = None if states is None else states[i]
            if isinstance(wiring, Parallel):
                bodies = [getattr(self, role) for role in roles]
                x = wiring(x, bodies, context, [None] * len(roles) if state is None else state)
            else:
                x = wiring(x, getattr(self, roles[0]), context, state)
        return x
