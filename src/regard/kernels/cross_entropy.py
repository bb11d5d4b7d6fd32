"""Cross-entropy with label smoothing, plain and fused with the projection to the vocabulary.

Two conventions of smoothing by eps over K classes are in use: "uniform" gives every class eps/K, the right one among
them (the paper's reference code, and torch); "others" gives the K - 1 wrong classes eps/(K-1) each. "uniform" is the
default, because published figures of the Transformer were made with it. The loss is the cross-entropy with the
smoothed target; it is larger than the Kullback-Leibler divergence by the target's entropy, which is constant.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

Convention = Literal["uniform", "others"]
IGNORED = -100  # the label of positions that do not count


def smoothing_weights(eps: float, classes: int, convention: Convention) -> tuple[float, float]:
    """(weight of the right class beyond the spread, weight of every class): target = a * one-hot + b * ones."""
    if convention == "uniform":
        return 1 - eps, eps / classes
    return 1 - eps - eps / (classes - 1), eps / (classes - 1)


def label_smoothed_nll(
    logits: Tensor, labels: Tensor, eps: float = 0.0, convention: Convention = "uniform"
) -> tuple[Tensor, Tensor]:
    """The plain version: (sum of smoothed losses, sum of -log p(label)) over the positions that count.

    Args:
        logits: [N, K]. labels: [N] int64, IGNORED where a position does not count.
    """
    counted = labels != IGNORED
    logp = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
    right, spread = smoothing_weights(eps, logits.shape[-1], convention)
    nll = -logp.gather(-1, labels.clamp(min=0)[:, None])[:, 0]
    loss = right * nll - spread * logp.sum(-1)
    return torch.where(counted, loss, 0).sum(), torch.where(counted, nll, 0).sum()


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    eps: float = 0.0,
    convention: Convention = "uniform",
    chunk: int = 1024,
) -> tuple[Tensor, Tensor]:
    """`label_smoothed_nll(hidden @ weight.T + bias, labels)` without ever holding all logits.

    Tokens are taken `chunk` at a time: logits, losses and the gradient of the logits are made while the chunk is in
    fast memory, and turned at once into the gradients of hidden, weight and bias. So the backward pass only scales
    what is there, the work is the same three products, and memory is chunk x K instead of several times N x K.
    Under autocast the products run in its dtype; log-sum-exp is float32 (float64 for float64 inputs).

    Args:
        hidden: [N, E]. weight: [K, E]. bias: [K] or None. labels: [N] int64, IGNORED where a position does not count.

    Returns:
        The sums as above; only the first one carries gradients.
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    right, spread = smoothing_weights(eps, weight.shape[0], convention)
    return _LinearCrossEntropy.apply(hidden, weight, bias, labels, right, spread, chunk, dtype)  # type: ignore[no-any-return]


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        right: float,
        spread: float,
        chunk: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            wide = torch.promote_types(dtype, torch.float32)
            low = weight.to(dtype)
            h_low = hidden.to(dtype)
            needed = any(ctx.needs_input_grad[:3])
            loss, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
            d_hidden = torch.empty_like(h_low) if needed else None
            d_weight = torch.zeros_like(low, dtype=wide) if needed else None
            d_bias = torch.zeros_like(bias, dtype=wide) if needed and bias is not None else None
            for start in range(0, hidden.shape[0], chunk):
                h, target = h_low[start : start + chunk], labels[start : start + chunk]
                counted = (target != IGNORED)[:, None]
                logits = torch.nn.functional.linear(h, low)
                logits = logits.to(wide) if logits.dtype != wide else logits
                if bias is not None:
                    logits += bias
                top = logits.amax(-1, keepdim=True)
                index = target.clamp(min=0)[:, None]
                picked, total = logits.gather(-1, index), logits.sum(-1, keepdim=True)
                logits = logits.sub_(top).exp_()
                normaliser = logits.sum(-1, keepdim=True)
                lse = normaliser.log() + top
                token_nll = (lse - picked).masked_fill_(~counted, 0)
                classes = logits.shape[-1]
                smooth = right * token_nll + spread * (classes * lse - total).masked_fill_(~counted, 0)
                loss, nll = loss + smooth.sum(), nll + token_nll.sum()
                if d_hidden is None or d_weight is None:
                    continue
                # d loss / d logits = (a + K b) softmax - b - a * one-hot, zero where nothing counts
                factor = (right + spread * classes) / normaliser
                logits.mul_(factor.masked_fill_(~counted, 0))
                if spread:
                    logits.sub_(counted.to(wide).mul_(spread))
                logits.scatter_add_(-1, index, counted.to(wide).mul_(-right))
                grad = logits.to(dtype)
                torch.mm(grad, low, out=d_hidden[start : start + chunk])
                d_weight += grad.mT @ h
                if d_bias is not None:
                    d_bias += logits.sum(0)
            if needed:
                ctx.save_for_backward(d_hidden, d_weight, d_bias)
                ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
            ctx.mark_non_differentiable(nll)
            return loss, nll

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, _d_nll: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        grads = [
            None if g is None or t is None else (g * d_loss).to(t)
            for g, t in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return *grads, None, None, None, None, None
