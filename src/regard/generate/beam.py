"""Beam search over many sentences at once.

    score = sum of token log-probabilities / length ** length_penalty

The length counts generated tokens only, with the end token, without prompt, source and start token.

At every step the continuations of a sentence's running hypotheses are ranked by their sum, and the best `width` are
taken. One that ends (an end token, or the sentence's length limit) is finished and keeps its place: the sentence goes
on with one place less. So a width of 1 is greedy decoding, exactly, and a search finds at most `width` hypotheses.

A search is over when no running hypothesis can still become better than the `n_best`-th finished one. Log-probabilities
are at most 0, so from a running sum s of t tokens the best that can be reached is the greater of s / (t + 1) **
length_penalty (end at once) and s / limit ** length_penalty (reach the limit at no cost); the first is greater when
the penalty is below 0, the second when it is above. Because of this rule the best hypothesis does not depend on
`n_best`, and what happens in one sentence does not depend on the others of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import FailureError, InputError
from regard.generate.constraints import Constraints
from regard.generate.hypothesis import FinishReason
from regard.generate.steps import Steps

OnStep = Callable[[int, int], None]  # (tokens so far, sentences still running)


@dataclass(frozen=True)
class Found:
    """A finished sequence as ids; `score` is already divided by the length."""

    ids: list[int]
    logprobs: list[float]
    score: float
    finish_reason: FinishReason


@dataclass(frozen=True)
class BeamSearch:
    """The settings of a search (see the module's text for what they mean).

    Raises:
        InputError: a width below 1, or n_best not in 1 .. width.
    """

    width: int = 5
    length_penalty: float = 1.0
    n_best: int = 1
    ends: tuple[int, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"beams: got {self.width}, must be at least 1")
        if not 1 <= self.n_best <= self.width:
            raise InputError(f"n_best: got {self.n_best}, must be from 1 to the number of beams, {self.width}")

    @torch.no_grad()
    def run(self, steps: Steps, limits: Sequence[int], on_step: OnStep | None = None) -> list[list[Found]]:
        """Searches; limits: the most tokens that each sentence may get, at least 1.

        Returns:
            For every sentence its finished hypotheses, best first, at most n_best (fewer when the vocabulary or the
            limit allows no more).

        Raises:
            FailureError: a sentence has no hypothesis (the model gives NaN, or everything is banned).
        """
        return _Search(self, steps, limits, on_step).run()


class _Search:
    """One run. Of N sentences B are still searched, with at most W running hypotheses; a step takes C candidates."""

    def __init__(self, options: BeamSearch, steps: Steps, limits: Sequence[int], on_step: OnStep | None) -> None:
        self.options, self.steps, self.on_step = options, steps, on_step
        self.last = max(limits)
        self.logits = steps.start()
        device, n, c = self.logits.device, len(limits), options.width
        self.ends = torch.tensor(options.ends, dtype=torch.int64, device=device)
        self.history = _History(self.last, n, c, self.logits.dtype, device)
        self.finished = _Finished(n, c, device)
        self.rows = torch.arange(n, device=device)  # [B] which sentences these are
        self.limits = torch.tensor(limits, device=device)  # [B]
        self.sums = torch.zeros(n, 1, dtype=torch.float64, device=device)  # [B, W], minus infinity: nothing there
        self.slots = torch.zeros(n, 1, dtype=torch.int64, device=device)  # [B, W] places in the step before
        self.prefix = torch.zeros(n, 1, 0, dtype=torch.int64, device=device)  # [B, W, t] if a constraint needs it

    def run(self) -> list[list[Found]]:
        for length in range(1, self.last + 1):
            if not self._step(length):
                break
        found = self.history.read(self.finished, self.options.n_best)
        for number, hypotheses in enumerate(found):
            if not hypotheses:
                raise FailureError(
                    f"sentence {number}: no token may follow (the model gives NaN, or all tokens are banned); "
                    "check the weights and the banned words"
                )
        return found

    def _step(self, length: int) -> bool:
        """Takes the tokens number `length`, and runs the model on them; False when nothing is left to do."""
        sums, parents, tokens, gains = self._expand()
        room = self.options.width - self.finished.count[self.rows]
        place = torch.arange(sums.shape[1], device=sums.device)
        sums = sums.masked_fill(place >= room[:, None], -torch.inf)
        self.history.write(length, self.rows, tokens, self.slots.gather(1, parents), gains)

        stops = torch.isin(tokens, self.ends)
        ended = (sums > -torch.inf) & (stops | (length >= self.limits)[:, None])
        self.finished.add(self.rows, ended, stops, sums / length**self.options.length_penalty, length)
        sums = sums.masked_fill(ended, -torch.inf)
        done = self._reachable(sums, length) <= self.finished.nth_best(self.rows, self.options.n_best)
        sums = sums.masked_fill(done[:, None], -torch.inf)

        width = int((sums > -torch.inf).sum(1).max())
        if self.on_step is not None:
            self.on_step(length, int((~done).sum()))
        if width == 0:
            return False
        self.sums, self.slots = sums.topk(width)  # the running ones come first
        self._advance(tokens.gather(1, self.slots), parents.gather(1, self.slots), done)
        return True

    def _expand(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best C continuations, best first: sums, parents, tokens and their log-probabilities, each [B, C]."""
        logits = self.logits.to(torch.promote_types(self.logits.dtype, torch.float32))
        scale = logits.logsumexp(-1, keepdim=True)
        values, ids = best(self.options.constraints.apply(logits, self.prefix), self.options.width)
        gains = values - scale
        sums = (self.sums[..., None] + gains).flatten(1)
        sums, chosen = best(sums, self.options.width)
        tokens, gains = ids.flatten(1).gather(1, chosen), gains.flatten(1).gather(1, chosen)
        return sums, chosen // ids.shape[2], tokens, gains

    def _reachable(self, sums: Tensor, length: int) -> Tensor:
        """[B] the best score that any running hypothesis of `length` tokens can still get."""
        top, penalty = sums.max(1).values, self.options.length_penalty
        return torch.maximum(top / (length + 1) ** penalty, top / self.limits.double() ** penalty)

    def _advance(self, tokens: Tensor, parents: Tensor, done: Tensor) -> None:
        """Runs the model on the new tokens; first drops the finished sentences, when they are a quarter or more."""
        if self.options.constraints.need_prefix:
            past = self.prefix.gather(1, parents[..., None].expand(-1, -1, self.prefix.shape[2]))
            self.prefix = torch.cat((past, tokens[..., None]), 2)
        if 4 * int(done.sum()) >= len(done):
            keep = (~done).nonzero()[:, 0]
            self.steps.take(keep)
            tokens, parents = tokens[keep], parents[keep]
            self.rows, self.limits = self.rows[keep], self.limits[keep]
            self.sums, self.slots, self.prefix = self.sums[keep], self.slots[keep], self.prefix[keep]
        self.logits = self.steps.step(tokens, parents)


class _Finished:
    """The finished hypotheses of N sentences, `width` places each."""

    def __init__(self, sentences: int, width: int, device: torch.device) -> None:
        shape = (sentences, width)
        self.scores = torch.full(shape, -torch.inf, dtype=torch.float64, device=device)
        self.lengths, self.slots = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))
        self.stopped = torch.zeros(shape, dtype=torch.bool, device=device)
        self.count = torch.zeros(sentences, dtype=torch.int64, device=device)

    def add(self, rows: Tensor, ended: Tensor, stops: Tensor, scores: Tensor, length: int) -> None:
        """Adds the candidates that `ended`; all tensors but rows [B] are [B, C]."""
        number = self.count[rows][:, None] + ended.cumsum(1) - 1
        row, slot = ended.nonzero(as_tuple=True)
        where = rows[row], number[row, slot]
        self.scores[where], self.stopped[where] = scores[row, slot], stops[row, slot]
        self.lengths[where], self.slots[where] = length, slot
        self.count[rows] += ended.sum(1)

    def nth_best(self, rows: Tensor, n: int) -> Tensor:
        """[B] the score of the n-th best, minus infinity where there are fewer."""
        return self.scores[rows].topk(n).values[:, -1]


class _History:
    """All candidates that were taken, [step, sentence, place]; hypotheses are read backwards along their parents."""

    def __init__(self, steps: int, sentences: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (steps, sentences, width)
        self.tokens, self.parents = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))
        self.gains = torch.zeros(shape, dtype=torch.promote_types(dtype, torch.float32), device=device)

    def write(self, length: int, rows: Tensor, tokens: Tensor, parents: Tensor, gains: Tensor) -> None:
        taken = tokens.shape[1]
        for all_steps, new in ((self.tokens, tokens), (self.parents, parents), (self.gains, gains)):
            all_steps[length - 1, rows, :taken] = new

    def read(self, finished: _Finished, n: int) -> list[list[Found]]:
        """The n best finished hypotheses of every sentence; equal scores stay in the order in which they ended."""
        scores, order = finished.scores.sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, :n], order[:, :n]
        lengths, ends = finished.lengths.gather(1, order), finished.slots.gather(1, order)
        longest = int(lengths.max())
        tokens = self.tokens.new_zeros(*lengths.shape, longest)
        gains = self.gains.new_zeros(*lengths.shape, longest)
        slots = torch.zeros_like(ends)
        for step in reversed(range(longest)):
            slots = torch.where(lengths == step + 1, ends, slots)
            tokens[..., step], gains[..., step] = (x[step].gather(1, slots) for x in (self.tokens, self.gains))
            slots = self.parents[step].gather(1, slots)
        columns = (tokens, gains, lengths, scores, finished.stopped.gather(1, order))
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [
            [Found(i[:n], g[:n], s, "stop" if e else "length") for i, g, n, s, e in zip(*row, strict=True) if n]
            for row in rows
        ]


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest `count` of the last dimension (or all, if there are fewer), sorted; for 1, of equals the first."""
    if count == 1:
        values, indices = scores.max(-1, keepdim=True)
        return values, indices
    top = scores.topk(min(count, scores.shape[-1]), -1)
    return top.values, top.indices
