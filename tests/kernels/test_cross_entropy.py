"""The fused projection and loss equals the plain one, gradients included."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.kernels.cross_entropy import label_smoothed_nll, linear_cross_entropy
from tests.laws.strategies import close


def problem(bias=True, dtype=torch.float64, tokens=37, classes=11):
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, 8, generator=g, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(classes, 8, generator=g, dtype=torch.float64).to(dtype).requires_grad_()
    offset = torch.randn(classes, generator=g, dtype=torch.float64).to(dtype).requires_grad_() if bias else None
    labels = torch.randint(0, classes, (tokens,), generator=g)
    labels[::5] = -100
    return hidden, weight, offset, labels


@pytest.mark.parametrize("convention", ["uniform", "others"])
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk", [1, 10, 37, 64])
def test_fused_equals_plain_with_gradients(convention, eps, bias, chunk):
    hidden, weight, offset, labels = problem(bias)
    inputs = [t for t in (hidden, weight, offset) if t is not None]
    plain = label_smoothed_nll(F.linear(hidden, weight, offset), labels, eps, convention)
    fused = linear_cross_entropy(hidden, weight, offset, labels, eps, convention, chunk)
    for a, b in zip(fused, plain, strict=True):
        close(a, b)
    for a, b in zip(torch.autograd.grad(2 * fused[0], inputs), torch.autograd.grad(2 * plain[0], inputs), strict=True):
        close(a, b)
    with torch.no_grad():
        for a, b in zip(
            linear_cross_entropy(hidden, weight, offset, labels, eps, convention, chunk), plain, strict=True
        ):
            close(a, b)


def test_uniform_smoothing_is_torchs():
    hidden, weight, offset, labels = problem()
    logits = F.linear(hidden, weight, offset)
    close(
        label_smoothed_nll(logits, labels, 0.1)[0],
        F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum"),
    )


def test_gradcheck():
    hidden, weight, offset, labels = problem(tokens=5, classes=4)
    assert torch.autograd.gradcheck(
        lambda *a: linear_cross_entropy(*a, labels, 0.1, chunk=2)[0], (hidden, weight, offset), atol=1e-8
    )


def test_autocast_to_bfloat16_stays_near_float32():
    hidden, weight, offset, labels = problem(dtype=torch.float32)
    exact = linear_cross_entropy(hidden, weight, offset, labels, 0.1)
    exact_grad = torch.autograd.grad(exact[0], (hidden, weight, offset))
    with torch.autocast("cpu", torch.bfloat16):
        low = linear_cross_entropy(hidden, weight, offset, labels, 0.1)
    assert low[0].dtype == torch.float32
    close(low[0], exact[0], 0.01)  # bfloat16 keeps 8 bits
    for a, b in zip(torch.autograd.grad(low[0], (hidden, weight, offset)), exact_grad, strict=True):
        assert a.dtype == torch.float32
        close(a, b, 0.03)


def test_large_logits_stay_finite():
    hidden, weight, _, labels = problem(bias=False)
    loss, _ = linear_cross_entropy(hidden * 1e4, weight, None, labels, 0.1)
    assert loss.isfinite()
    close(loss, label_smoothed_nll(F.linear(hidden * 1e4, weight), labels, 0.1)[0])
