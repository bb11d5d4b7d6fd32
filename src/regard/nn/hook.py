"""Looking inside: named places, and `record`, which keeps what passes through them.

Every module of a model has a name by role (`stack.layers.3.attention.q`), and its output can be recorded. Two places
that are no module of their own have a `HookPoint`: the attention `scores` and `probs`.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.errors import InputError


class HookPoint(nn.Module):
    """An identity with a name: forward hooks on it see, and may replace, the value that passes."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Watchable(nn.Module):
    """A module with a fast path that has no hook points; while `watched` it takes its plain path, which has them."""

    watched = False


Records = dict[str, Tensor | list[Tensor]]


@contextlib.contextmanager
def record(model: nn.Module, *patterns: str, gradients: bool = False) -> Iterator[Records]:
    """Keeps the outputs of the modules whose names match one of the shell-style `patterns` while the block runs.

    Layers that are watched take the plain path, so that scores and weights exist; the outputs stay equal.

        with record(model, "*.attend.probs") as acts: model(ids)
        acts["stack.layers.0.attention.attend.probs"]       # [B, H, T, S]

    Args:
        gradients: keep the autograd graph (otherwise the tensors are detached).

    Yields:
        A dictionary from name to the tensor, or to a list of tensors where the module ran several times.

    Raises:
        InputError: no name matches, or the model was compiled (hooks added after compiling never run).
    """
    if isinstance(model, torch._dynamo.OptimizedModule) or model._compiled_call_impl is not None:
        raise InputError("record: the model is compiled, hooks would not run; record the model it was made from")
    matched = {n: m for n, m in model.named_modules() if n and any(fnmatch.fnmatchcase(n, p) for p in patterns)}
    if not matched:
        some = ", ".join([n for n, m in model.named_modules() if isinstance(m, HookPoint)][:3])
        raise InputError(f"record: nothing is named like {' or '.join(patterns)}; names look like {some}")
    acts: Records = {}
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            inside = any(m == name or m.startswith(f"{name}.") for m in matched)
            if isinstance(module, Watchable) and inside and not module.watched:
                module.watched = True
                stack.callback(setattr, module, "watched", False)
        for name, module in matched.items():
            stack.callback(module.register_forward_hook(_keeper(acts, name, gradients)).remove)
        yield acts


def _keeper(acts: Records, name: str, gradients: bool):  # type: ignore[no-untyped-def]
    def keep(_module: nn.Module, _args: object, output: object) -> None:
        if not isinstance(output, Tensor):
            return
        value = output if gradients else output.detach()
        seen = acts.get(name)
        if seen is None:
            acts[name] = value
        elif isinstance(seen, list):
            seen.append(value)
        else:
            acts[name] = [seen, value]

    return keep
