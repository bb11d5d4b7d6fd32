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
    chunk: int = 256,
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
    if not torch.is_grad_enabled():
        return _forward_only(hidden, weight, bias, labels, eps, convention, chunk)
    right, spread = smoothing_weights(eps, weight.shape[0], convention)
    return _LinearCrossEntropy.apply(hidden, weight, bias, labels, right, spread, chunk, dtype)


def _forward_only(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, eps: float, convention: Convention, chunk: int
) -> tuple[Tensor, Tensor]:
    parts = [
        label_smoothed_nll(torch.nn.functional.linear(h, weight, bias), y, eps, convention)
        for h, y in zip(hidden.split(chunk), labels.split(chunk), strict=True)
    ]
    loss, nll = (torch.stack(sums).sum() for sums in zip(*parts, strict=True))
    return loss, nll


class _LinearCrossEntropy(torch.autograd.Function):
    """Per token, with p = softmax(logits) and the target a * one-hot + b * ones (a + K b = 1):

        loss   = log-sum-exp - a * logit[label] - b * sum(logits)
        d loss / d logits = p - a * one-hot - b

    The terms in b are products with a constant, so they are added as such (sum(logits) = h . sum of W's rows) without
    passing over all logits again; rows that do not count are zeroed in `hidden`, not in the logits.
    """

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
            counted = labels != IGNORED
            h_low, low = hidden.to(dtype).masked_fill(~counted[:, None], 0), weight.to(dtype)
            row_sum = weight.sum(0, dtype=wide)
            bias_sum = 0.0 if bias is None else bias.sum(dtype=wide)
            d_hidden, d_weight = torch.empty_like(h_low), torch.zeros_like(weight, dtype=wide)
            d_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)
            keep, index = counted.to(wide), labels.clamp(min=0)[:, None]
            loss, nll = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
            # The same memory for every chunk: fresh pages cost more than the arithmetic that fills them.
            rows = min(chunk, len(hidden))
            narrow_CV = torch.empty(rows, len(weight), dtype=dtype, device=hidden.device)
            wide_CV = narrow_CV if dtype == wide else torch.empty_like(narrow_CV, dtype=wide)
            logp_CV, product = torch.empty_like(wide_CV), torch.empty_like(low)
            for start in range(0, len(hidden), chunk):
                here = slice(start, start + chunk)
                h = h_low[here]
                logits = torch.mm(h, low.mT, out=narrow_CV[: len(h)])
                if dtype != wide:
                    logits = wide_CV[: len(h)].copy_(logits)
                if bias is not None:
                    logits += bias
                picked = logits.gather(-1, index[here])[:, 0]
                logp = torch.log_softmax(logits, -1, out=logp_CV[: len(h)])
                token_nll = -logp.gather(-1, index[here])[:, 0]
                total = h.to(wide) @ row_sum + bias_sum
                each = token_nll + picked - right * picked - spread * total
                loss, nll = loss + keep[here] @ each, nll + keep[here] @ token_nll
                grad = logp.exp_()
                grad.scatter_add_(-1, index[here], grad.new_full((len(h), 1), -right))
                if d_bias is not None:
                    d_bias += keep[here] @ grad
                if dtype == wide:
                    d_weight.addmm_(grad.mT, h)
                else:
                    grad = narrow_CV[: len(h)].copy_(grad)
                    d_weight += torch.mm(grad.mT, h, out=product)
                torch.mm(grad, low, out=d_hidden[here])
            d_hidden = (d_hidden - spread * row_sum).masked_fill_(~counted[:, None], 0)
            d_weight -= spread * h_low.sum(0, dtype=wide)
            if d_bias is not None:
                d_bias -= spread * keep.sum()
            ctx.save_for_backward(d_hidden, d_weight, d_bias)
            ctx.dtypes = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
            ctx.mark_non_differentiable(nll)
            return loss, nll

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, _d_nll: Tensor) -> tuple[Tensor | None, ...]:
        grads = [
            None if g is None or t is None else (g * d_loss).to(t)
            for g, t in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return *grads, None, None, None, None, None
