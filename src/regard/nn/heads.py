"""What stands on top of a stack: hidden states to scores."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import spec
from regard.kernels.cross_entropy import Convention, label_smoothed_nll, linear_cross_entropy
from regard.nn.build import build_part
from regard.nn.dropout import Dropout
from regard.nn.ffn import ACTIVATIONS
from regard.nn.linear import Linear


class LMHead(nn.Module):
    """softcap(scale * (transform(h) W^T + bias)). A tied head owns no matrix: it is given the embedding's."""

    def __init__(self, part: spec.LMHead, size: int, vocab_size: int) -> None:
        super().__init__()
        self.tied, self.scale, self.softcap = part.tied, part.scale, part.softcap
        self.weight = None if part.tied else nn.Parameter(torch.empty(vocab_size, size))
        self.bias = nn.Parameter(torch.empty(vocab_size)) if part.bias else None
        self.transform = Linear(size, size, True, "head") if part.transform else None
        self.activation = ACTIVATIONS[part.transform] if part.transform else None
        self.transform_norm = build_part(part.transform_norm, size)

    def prepare(self, hidden: Tensor) -> Tensor:
        """What is multiplied with the matrix: the transformed hidden states."""
        if self.transform is not None and self.activation is not None:
            hidden = self.activation(self.transform(hidden))
        return self.transform_norm(hidden)

    def matrix(self, embedding: Tensor) -> Tensor:
        """W [V, E]; `embedding` is the token table."""
        return embedding if self.weight is None else self.weight

    @property
    def linear(self) -> bool:
        """Whether the scores are a plain product, so that a fused loss may take hidden states and matrix apart."""
        return self.scale == 1.0 and self.softcap is None

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        logits = F.linear(self.prepare(hidden), self.matrix(embedding), self.bias)
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


class Pooler(nn.Module):
    """tanh(W h_first + b): [B, T, E] -> [B, E]."""

    def __init__(self, part: spec.Pooler, size: int) -> None:
        super().__init__()
        self.dense = Linear(size, size, True, "head")

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self.dense(hidden[:, 0]))


class SequenceClassifier(nn.Module):
    """Scores a row: [B, labels]."""

    def __init__(self, part: spec.SequenceClassifier, size: int) -> None:
        super().__init__()
        self.pool, self.dropout = part.pool, Dropout(part.dropout)
        self.out = Linear(size, part.labels, True, "head")

    def forward(self, hidden: Tensor, pooled: Tensor | None, valid: Tensor | None) -> Tensor:
        if self.pool == "pooler":
            assert pooled is not None
            row = pooled
        elif self.pool == "first" or valid is None:
            row = hidden[:, 0] if self.pool == "first" else hidden.mean(1)
        else:
            kept = valid[..., None].to(hidden.dtype)
            row = (hidden * kept).sum(1) / kept.sum(1)
        return self.out(self.dropout(row))


class TokenClassifier(nn.Module):
    """Scores a token: [B, T, labels]."""

    def __init__(self, part: spec.TokenClassifier, size: int) -> None:
        super().__init__()
        self.dropout = Dropout(part.dropout)
        self.out = Linear(size, part.labels, True, "head")

    def forward(self, hidden: Tensor) -> Tensor:
        return self.out(self.dropout(hidden))


def head_loss(
    model: nn.Module, hidden: Tensor, labels: Tensor, eps: float = 0.0, convention: Convention = "uniform"
) -> tuple[Tensor, Tensor]:
    """(sum of smoothed losses, sum of -log p) of a language model's hidden states [B, T, E] for labels [B, T].

    Labels of -100 do not count. Goes through the fused projection and loss where the head is a plain product.
    """
    tower: Any = getattr(model, "decoder", model)
    head: LMHead = tower.lm_head
    flat = labels.reshape(-1)
    if head.linear:
        prepared = head.prepare(hidden).flatten(0, -2)
        return linear_cross_entropy(prepared, head.matrix(tower.embedding.weight), head.bias, flat, eps, convention)
    return label_smoothed_nll(tower.head(hidden).flatten(0, -2), flat, eps, convention)
