"""What is minimised: objectives give sums and counts, never means.

An objective is called with a model and a batch and returns {name: (sum, count, weight)}. The loop adds sums and counts
over micro-batches and minimises the sum over names of weight * sum / count. So accumulation and evaluation are exact
per token, also when losses have different denominators. A weight of 0 marks a figure that is only watched.
`counts(batch)` tells the denominators before anything is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.kernels.cross_entropy import IGNORED, Convention, label_smoothed_nll
from regard.nn.heads import head_loss

Losses = dict[str, tuple[Tensor, int, float]]

__all__ = [
    "IGNORED", "CausalLM", "Losses", "Objective", "Seq2Seq", "TokenBatch", "label_smoothed_nll", "seq2seq_inputs",
]  # fmt: skip


class Objective(Protocol):
    """(model, batch) -> {name: (sum, count, weight)}."""

    def counts(self, batch: Any) -> dict[str, int]:
        """The denominators of a batch, known on the host."""
        ...

    def __call__(self, model: nn.Module, batch: Any) -> Losses:
        """The sums (float32 or wider, with gradients where the weight is not 0), counts and weights."""
        ...


@dataclass(frozen=True)
class Seq2Seq:
    """Teacher forcing for an encoder-decoder: cross-entropy of every target token given the true ones before it.

    smoothing: eps of label smoothing (arXiv:1512.00567, section 7). convention: who gets it, see
    `regard.kernels.cross_entropy`; "uniform", with eps/K for all K classes, is the default because it is what the
    paper's figures were made with. Which labels count is said by labels of -100 alone, never by a token's id: a pad
    token that is also the end token, or that is a real target, costs nothing.

    "loss" is the smoothed cross-entropy that is minimised, "nll" the plain -log p, whose exp is the perplexity.
    """

    smoothing: float = 0.0
    convention: Convention = "uniform"

    def counts(self, batch: Any) -> dict[str, int]:
        return {"loss": batch.tokens, "nll": batch.tokens}

    def __call__(self, model: nn.Module, batch: Any) -> Losses:
        hidden = model(
            batch.inputs,
            source=batch.source,
            source_lengths=batch.source_lengths,
            lengths=batch.lengths,
            hidden=True,
        )
        loss, nll = head_loss(model, hidden, batch.labels, self.smoothing, self.convention)
        return {"loss": (loss, batch.tokens, 1.0), "nll": (nll.detach(), batch.tokens, 0.0)}


def seq2seq_inputs(target: list[int], start_id: int, end_id: int) -> tuple[list[int], list[int]]:
    """(decoder input, labels) of one target: the labels are the input shifted once, and the end token is learnt."""
    return [start_id, *target], [*target, end_id]


@dataclass(frozen=True)
class TokenBatch:
    """Rows for a causal language model.

    ids: [B, T] int64, padded on the right. lengths: [B] true lengths on the host. labels: [B, T] or None; where it
    holds -100 the token is not trained on (a prompt); None: all tokens are.
    """

    ids: Tensor
    lengths: tuple[int, ...]
    labels: Tensor | None = None
    numbers: tuple[int, ...] = ()

    @property
    def targets(self) -> Tensor:
        """[B, T-1]: what each position is to predict, -100 where nothing; row by row, so no row sees the next one's."""
        given = self.ids if self.labels is None else self.labels
        places = torch.arange(self.ids.shape[1], device=self.ids.device)
        valid = places[None] < torch.tensor(self.lengths, device=self.ids.device)[:, None]
        return torch.where(valid, given, IGNORED)[:, 1:]

    @property
    def tokens(self) -> int:
        """How many labels count."""
        if self.labels is None:
            return sum(max(0, n - 1) for n in self.lengths)
        return int((self.targets != IGNORED).sum())


@dataclass(frozen=True)
class CausalLM:
    """Next-token prediction: logits of ids[:, :-1] against ids[:, 1:], shifted once, inside each row."""

    smoothing: float = 0.0
    convention: Convention = "uniform"

    def counts(self, batch: TokenBatch) -> dict[str, int]:
        return {"loss": batch.tokens, "nll": batch.tokens}

    def __call__(self, model: nn.Module, batch: TokenBatch) -> Losses:
        inputs = batch.ids[:, :-1]
        lengths = torch.tensor([min(n, inputs.shape[1]) for n in batch.lengths], device=inputs.device)
        hidden = model(inputs, lengths=lengths, hidden=True)
        loss, nll = head_loss(model, hidden, batch.targets, self.smoothing, self.convention)
        count = batch.tokens
        return {"loss": (loss, count, 1.0), "nll": (nll.detach(), count, 0.0)}
