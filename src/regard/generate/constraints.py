"""What may not be generated: banned tokens and sequences, repeated n-grams; and the repetition penalty.

A constraint removes tokens from the choice (their logit becomes minus infinity). The log-probabilities of the other
tokens are not renormalised: they stay the model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError
from regard.tokenizer import Tokenizer


@dataclass(frozen=True)
class Constraints:
    """Rules for every generated sequence.

    Attributes:
        banned: token sequences that may not appear; one of a single token bans the token.
        no_repeat_ngram: no sequence of this many tokens appears twice in what is generated (0: no such rule).
    """

    banned: tuple[tuple[int, ...], ...] = ()
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        if self.no_repeat_ngram < 0:
            raise InputError(f"no_repeat_ngram: got {self.no_repeat_ngram}; give 0 (off) or a number of tokens")
        if any(len(sequence) == 0 for sequence in self.banned):
            raise InputError("banned: an empty sequence cannot be banned; remove it")

    @property
    def need_prefix(self) -> bool:
        """Whether what was generated so far must be known."""
        return self.no_repeat_ngram > 0 or any(len(sequence) > 1 for sequence in self.banned)

    def __bool__(self) -> bool:
        return bool(self.banned) or self.no_repeat_ngram > 0

    def apply(self, logits: Tensor, prefix: Tensor) -> Tensor:
        """Logits [B, W, V] with the forbidden ones at minus infinity. prefix: [B, W, t] tokens generated so far."""
        if not self:
            return logits
        logits = logits.clone()
        single = [sequence[0] for sequence in self.banned if len(sequence) == 1]
        if single:
            logits[..., torch.tensor(single, device=logits.device)] = -torch.inf
        for sequence in self.banned:
            if 1 < len(sequence) <= prefix.shape[-1] + 1:
                start = torch.tensor(sequence[:-1], device=prefix.device)
                hit = (prefix[..., -len(start) :] == start).all(-1)
                logits[..., sequence[-1]] = logits[..., sequence[-1]].masked_fill(hit, -torch.inf)
        n = self.no_repeat_ngram
        if 0 < n <= prefix.shape[-1]:
            _forbid_repeats(logits, prefix, n)
        return logits


def _forbid_repeats(logits: Tensor, prefix: Tensor, n: int) -> None:
    """Puts minus infinity, in place, on every token that would end an n-gram that is in `prefix` already."""
    ngrams = prefix.unfold(-1, n, 1)  # [B, W, t - n + 1, n]
    last = prefix[..., prefix.shape[-1] - (n - 1) :]
    seen = (ngrams[..., :-1] == last[..., None, :]).all(-1)
    # amin with plus infinity leaves a logit as it is, so the n-grams that do not match cost no branch
    values = torch.where(seen, -torch.inf, torch.inf).to(logits.dtype)
    logits.scatter_reduce_(-1, ngrams[..., -1], values, "amin")


def repetition_penalty(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Makes tokens marked in `seen` (bool, the shape of logits) less likely: x / penalty if x > 0, else x * penalty.

    A token counts once, however often it was seen (CTRL, arXiv:1909.05858, section 4.1).
    """
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def banned_ids(
    banned: Sequence[str | Sequence[int]], tokenizer: Tokenizer | None, ends: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Banned words or id sequences -> id sequences.

    A word is banned in the tokenizer's own spelling, at the start of a text and after a space. It is banned as a run
    of tokens: longer words that begin with just these tokens cannot appear either.

    Raises:
        InputError: words without a tokenizer; an end token among the banned ones.
    """
    sequences: dict[tuple[int, ...], None] = {}
    for entry in banned:
        if not isinstance(entry, str):
            sequences[tuple(entry)] = None
        elif tokenizer is None:
            raise InputError(f"banned: {entry!r} is text, but the model has no tokenizer; give token ids")
        elif not entry.strip():
            raise InputError("banned: an empty word cannot be banned; remove it")
        else:
            sequences[tuple(tokenizer.encode(entry))] = None
            sequences[tuple(tokenizer.encode(" " + entry))] = None
    for end in ends:
        if (end,) in sequences:
            raise InputError(f"banned: token {end} ends a sequence; to go on past it give end_tokens=[]")
    return tuple(sequences)
