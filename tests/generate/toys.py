"""A language model as a table, and the search that tries every sequence."""

from __future__ import annotations

import itertools
import random

import torch
from torch import Tensor

Prefix = tuple[int, ...]


class Table:
    """`Steps` over tables of probabilities, {prefix: [V]} for each sentence.

    A number stands for distributions drawn from the prefix; prefixes that a table does not have are flat.
    """

    def __init__(self, vocab_size: int, sentences: list[dict[Prefix, list[float]] | int]) -> None:
        self.vocab_size, self.sentences = vocab_size, list(sentences)
        self.prefixes: list[list[Prefix]] = [[()] for _ in sentences]
        self.sizes: list[int] = []

    def logprobs(self, sentence: dict[Prefix, list[float]] | int, prefix: Prefix) -> Tensor:
        if isinstance(sentence, dict):
            return torch.tensor(sentence.get(prefix, [1 / self.vocab_size] * self.vocab_size)).log()
        draw = random.Random(f"{sentence} {prefix}")
        return torch.tensor([draw.gauss(0, 1.5) for _ in range(self.vocab_size)]).log_softmax(-1)

    def _logits(self) -> Tensor:
        rows = [[self.logprobs(s, p) for p in ps] for s, ps in zip(self.sentences, self.prefixes, strict=True)]
        return torch.stack([torch.stack(row) for row in rows])

    def start(self) -> Tensor:
        return self._logits()

    def step(self, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        self.sizes.append(ids.numel())
        chosen = torch.zeros_like(ids) + torch.arange(ids.shape[1]) if parents is None else parents
        pairs = [list(zip(i, p, strict=True)) for i, p in zip(ids.tolist(), chosen.tolist(), strict=True)]
        self.prefixes = [[old[p] + (i,) for i, p in row] for old, row in zip(self.prefixes, pairs, strict=True)]
        return self._logits()

    def take(self, rows: Tensor) -> None:
        self.sentences = [self.sentences[i] for i in rows.tolist()]
        self.prefixes = [self.prefixes[i] for i in rows.tolist()]


def every_sequence(table: Table, sentence: int, end: int, limit: int, penalty: float) -> list[tuple[float, Prefix]]:
    """(score, sequence) of all sequences that end with `end`, or have `limit` tokens without it; best first."""
    found = []
    others = [i for i in range(table.vocab_size) if i != end]
    for length in range(1, limit + 1):
        for body in itertools.product(others, repeat=length - 1):
            for last in range(table.vocab_size) if length == limit else [end]:
                sequence = (*body, last)
                terms = [
                    float(table.logprobs(table.sentences[sentence], sequence[:t])[i]) for t, i in enumerate(sequence)
                ]
                found.append((sum(terms) / length**penalty, sequence))
    return sorted(found, reverse=True)
