"""Initial values, by the name of the scheme. Every scheme sets every parameter; a test holds that."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard import spec
from regard.errors import InputError
from regard.nn.linear import Linear
from regard.nn.norm import LayerNorm, RMSNorm
from regard.nn.position import Learned, RelativeBias
from regard.shapes import deepnorm_constants

Scheme = Callable[[nn.Module, torch.Generator | None], None]
RESIDUAL_ROLES = ("out", "down")  # projections that write to the residual stream


def scheme(name: str) -> Scheme:
    """The scheme of that name.

    Raises:
        InputError: an unknown name, with the known ones.
    """
    if name not in SCHEMES:
        raise InputError(f"init: no scheme {name!r}; there are {', '.join(SCHEMES)}")
    return SCHEMES[name]


@torch.no_grad()
def xavier(model: nn.Module, generator: torch.Generator | None) -> None:
    """Xavier uniform for projections, N(0, 1/sqrt(E)) for embeddings: the 2017 Transformer as its authors ran it."""
    for module, weight in _weights(model):
        if isinstance(module, Linear) and module.role != "head":
            _uniform(weight, math.sqrt(6 / (module.in_features + module.out_features)), generator)
        else:
            weight.normal_(0, weight.shape[-1] ** -0.5, generator=generator)


@torch.no_grad()
def gpt2(model: nn.Module, generator: torch.Generator | None) -> None:
    """N(0, 0.02), and 0.02 / sqrt(2 L) for projections that write to the residual stream of L layers (GPT-2)."""
    depth = _depth(model)
    for module, weight in _weights(model):
        residual = isinstance(module, Linear) and module.role in RESIDUAL_ROLES
        weight.normal_(0, 0.02 / math.sqrt(2 * depth) if residual else 0.02, generator=generator)


@torch.no_grad()
def truncated_normal(model: nn.Module, generator: torch.Generator | None) -> None:
    """N(0, 0.02) cut at two standard deviations (BERT)."""
    for _, weight in _weights(model):
        nn.init.trunc_normal_(weight, 0, 0.02, -0.04, 0.04, generator=generator)


@torch.no_grad()
def deepnorm(model: nn.Module, generator: torch.Generator | None) -> None:
    """Xavier normal, with the gain beta of DeepNorm for value, output and feed-forward projections (arXiv:2203.00555).

    beta follows from the numbers of layers (the paper's figure 2); alpha is the residual's `scale` in the spec, see
    `deepnorm_constants`.
    """
    encoder, decoder = _depths(model.spec)  # type: ignore[arg-type]
    betas = deepnorm_constants(encoder, decoder)
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, Linear) and module.role != "head":
            _, beta = betas["encoder" if encoder and (not decoder or name.startswith("encoder.")) else "decoder"]
            gain = beta if module.role in ("value", "out", "gate", "up", "down") else 1.0
            std = gain * math.sqrt(2 / (module.in_features + module.out_features))
            module.weight.normal_(0, std, generator=generator)
        elif isinstance(weight, Tensor) and weight.ndim > 1:
            weight.normal_(0, weight.shape[-1] ** -0.5, generator=generator)
    _plain_values(model)


SCHEMES: dict[str, Scheme] = {
    "xavier": xavier, "gpt2": gpt2, "truncated_normal": truncated_normal, "deepnorm": deepnorm,
}  # fmt: skip


def _weights(model: nn.Module):  # type: ignore[no-untyped-def]
    """(module, matrix) of every parameter with two dimensions; the others get their plain values first."""
    _plain_values(model)
    for module in model.modules():
        if not isinstance(module, LayerNorm | RMSNorm):
            for weight in module.parameters(recurse=False):
                if weight.ndim > 1:
                    yield module, weight


def _plain_values(model: nn.Module) -> None:
    """Norms start as the identity, biases at 0."""
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.weight.fill_(1.0)
        elif isinstance(module, RMSNorm):
            module.weight.fill_(1.0 - module.offset)
        elif isinstance(module, RelativeBias | Learned):
            continue
        bias = getattr(module, "bias", None)
        if isinstance(bias, nn.Parameter):
            bias.zero_()


def _uniform(weight: Tensor, bound: float, generator: torch.Generator | None) -> None:
    weight.uniform_(-bound, bound, generator=generator)


def _depth(model: nn.Module) -> int:
    return max(1, *_depths(model.spec))  # type: ignore[arg-type]


def _depths(model: spec.Model) -> tuple[int, int]:
    """Numbers of layers of the encoder and of the decoder."""

    def count(stack: spec.Stack) -> int:
        return len(stack.layers if stack.order is None else stack.order)

    match model:
        case spec.EncoderDecoder():
            return count(model.encoder.stack), count(model.decoder.stack)
        case spec.Encoder():
            return count(model.stack), 0
        case spec.LanguageModel():
            return 0, count(model.stack)
