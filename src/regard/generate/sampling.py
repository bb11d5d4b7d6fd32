"""Greedy decoding and sampling, one sequence a row.

Order of operations on the logits: bans, repetition penalty, temperature, top-k, top-p. A row's choices depend on its
own prompt and seed only: every row draws from a generator of its own, as often whatever its neighbours do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import FailureError, InputError
from regard.generate.beam import Found
from regard.generate.constraints import Constraints, repetition_penalty
from regard.generate.steps import Steps

CHUNK = 256  # random numbers drawn from a row's generator at a time
TIE = 1e-6  # a sum of probabilities this near to top_p has reached it


@dataclass(frozen=True)
class Sampler:
    """How the next token is chosen.

    Attributes:
        temperature: logits are divided by it; 0 takes the likeliest token.
        top_k: only the k likeliest tokens stay; 0: all.
        top_p: only the smallest set of likeliest tokens whose probability reaches top_p stays (arXiv:1904.09751), after
            top_k and renormalised. A set that reaches it exactly (within 1e-6) is enough. The likeliest token always
            stays; 1: all.
        repetition_penalty: see `constraints.repetition_penalty`; counts prompt and generated tokens; 1: none.

    Raises:
        InputError: a value out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    ends: tuple[int, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        for name, good, allowed in (
            ("temperature", 0 <= self.temperature < float("inf"), "0 (greedy) or more"),
            ("top_k", self.top_k >= 0, "0 (all tokens) or more"),
            ("top_p", 0 <= self.top_p <= 1, "from 0 to 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "above 0"),
        ):
            if not good:
                raise InputError(f"{name}: got {getattr(self, name)}, must be {allowed}")

    def choose(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """[B] tokens for logits [B, V]; uniform: [B] random numbers in [0, 1)."""
        if self.temperature == 0:
            return logits.argmax(-1)
        probs, ids = keep(logits, self.temperature, self.top_k, self.top_p)
        reached = probs.cumsum(-1)
        place = torch.searchsorted(reached, uniform[:, None] * reached[:, -1:], right=True)
        # rounding at the very end must not lead to a token that was removed
        last = (probs > 0).sum(-1, keepdim=True) - 1
        return ids.gather(1, torch.minimum(place, last))[:, 0]

    @torch.no_grad()
    def run(
        self, steps: Steps, limits: Sequence[int], seeds: Sequence[int | None], prompts: Tensor, watch: StopWatch | None
    ) -> list[Found]:
        """Generates; limits: the most tokens for each row; prompts: [N, P] tokens seen, for the repetition penalty."""
        return _Run(self, steps, limits, seeds, prompts, watch).run()


def keep(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> tuple[Tensor, Tensor]:
    """The tokens that may be drawn, likeliest first: probabilities (float64, 0: removed; not renormalised) and ids."""
    scaled = logits.double()
    scaled = (scaled - scaled.max(-1, keepdim=True).values) / temperature
    values, ids = scaled.topk(min(top_k or logits.shape[-1], logits.shape[-1]), -1)
    probs = values.softmax(-1)
    if top_p < 1:
        before = probs.cumsum(-1) - probs
        removed = before >= top_p - TIE
        removed[..., 0] = False
        probs = probs.masked_fill(removed, 0.0)
    return probs, ids


class StopWatch:
    """Looks for stop strings in the text of every row, across token borders."""

    def __init__(self, tokenizer: Any, stops: Sequence[str], rows: int) -> None:
        self.stops, self.longest = tuple(stops), max(map(len, stops))
        self.streams = [tokenizer.stream() for _ in range(rows)]
        self.texts, self.stopped = [""] * rows, [False] * rows

    def push(self, row: int, token: int) -> bool:
        """Adds a token; True when a stop string is complete. The text is then cut before the first one."""
        start = max(0, len(self.texts[row]) - self.longest + 1)
        text = self.texts[row] + self.streams[row].push(token)
        found = [place for place in (text.find(stop, start) for stop in self.stops) if place >= 0]
        self.texts[row] = text[: min(found)] if found else text
        self.stopped[row] = bool(found)
        return bool(found)

    def finish(self) -> list[str]:
        """The whole texts, when all rows have ended."""
        rests = ["" if cut else stream.finish() for stream, cut in zip(self.streams, self.stopped, strict=True)]
        return [text + rest for text, rest in zip(self.texts, rests, strict=True)]


class Uniforms:
    """Random numbers in [0, 1), from a generator for each row. A row without a seed gets one from the system."""

    def __init__(self, seeds: Sequence[int | None], device: torch.device) -> None:
        self.device = device
        self.generators = [torch.Generator() for _ in seeds]
        for generator, seed in zip(self.generators, seeds, strict=True):
            if seed is None:
                generator.seed()
            else:
                generator.manual_seed(seed)
        self.drawn = torch.empty(len(seeds), 0)

    def at(self, step: int, rows: Tensor) -> Tensor:
        """The numbers of step `step` (steps come in order) for these rows."""
        if step % CHUNK == 0:
            drawn = [torch.rand(CHUNK, generator=g, dtype=torch.float64) for g in self.generators]
            self.drawn = torch.stack(drawn).to(self.device)
        return self.drawn[rows, step % CHUNK]


class _Run:
    """One run; B rows are still generated, of N."""

    def __init__(
        self,
        sampler: Sampler,
        steps: Steps,
        limits: Sequence[int],
        seeds: Sequence[int | None],
        prompts: Tensor,
        watch: StopWatch | None,
    ) -> None:
        self.sampler, self.steps, self.watch = sampler, steps, watch
        self.logits = steps.start()[:, 0]
        device, n, last = self.logits.device, len(limits), max(limits)
        self.uniforms = Uniforms(seeds, device)
        self.ends = torch.tensor(sampler.ends, dtype=torch.int64, device=device)
        self.limits = torch.tensor(limits, device=device)
        self.tokens = torch.zeros(n, last, dtype=torch.int64, device=device)
        self.gains = torch.zeros(n, last, dtype=torch.promote_types(self.logits.dtype, torch.float32), device=device)
        self.lengths = torch.zeros(n, dtype=torch.int64, device=device)
        self.stopped = torch.zeros(n, dtype=torch.bool, device=device)
        self.rows = torch.arange(n, device=device)  # [B] which rows are running
        self.running = torch.ones(n, dtype=torch.bool, device=device)  # [B]
        self.seen: Tensor | None = None  # [N, V]
        if sampler.repetition_penalty != 1:
            self.seen = torch.zeros(n, self.logits.shape[-1], dtype=torch.bool, device=device)
            self.seen.scatter_(1, prompts, True)

    def run(self) -> list[Found]:
        for step in range(self.tokens.shape[1]):
            chosen = self._choose(step)
            if not self._end(step, chosen):
                break
            self._drop()
            self.logits = self.steps.step(self.tokens[self.rows, step][:, None])[:, 0]
        columns = (self.tokens, self.gains, self.lengths, self.stopped)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Found(i[:n], g[:n], sum(g[:n]), "stop" if s else "length") for i, g, n, s in rows]

    def _choose(self, step: int) -> Tensor:
        raw = self.logits.to(self.gains.dtype)
        logits = self.sampler.constraints.apply(raw[:, None], self.tokens[self.rows, None, :step])[:, 0]
        if self.seen is not None:
            logits = repetition_penalty(logits, self.seen[self.rows], self.sampler.repetition_penalty)
        if bool((logits.max(-1).values == -torch.inf).any() | logits.isnan().any()):
            raise FailureError("no token may follow (the model gives NaN, or all are banned); check weights and bans")
        chosen = self.sampler.choose(logits, self.uniforms.at(step, self.rows))
        self.tokens[self.rows, step] = chosen
        self.gains[self.rows, step] = raw.gather(1, chosen[:, None])[:, 0] - raw.logsumexp(-1)
        if self.seen is not None:
            self.seen[self.rows, chosen] = True
        return chosen

    def _end(self, step: int, chosen: Tensor) -> bool:
        """Notes which rows end with this step; False when none is running any more."""
        stops = torch.isin(chosen, self.ends)
        if self.watch is not None:
            lists = (self.rows.tolist(), chosen.tolist(), (self.running & ~stops).tolist())
            told = [on and self.watch.push(row, token) for row, token, on in zip(*lists, strict=True)]
            stops = stops | torch.tensor(told, device=stops.device)
        ended = self.running & (stops | (step + 1 >= self.limits[self.rows]))
        self.lengths[self.rows[ended]] = step + 1
        self.stopped[self.rows[ended]] = stops[ended]
        self.running = self.running & ~ended
        return bool(self.running.any())

    def _drop(self) -> None:
        """Drops rows that have ended from the batch, when they are a quarter or more of it."""
        if 4 * int((~self.running).sum()) >= len(self.running):
            kept = self.running.nonzero()[:, 0]
            self.steps.take(kept)
            self.rows, self.running = self.rows[kept], self.running[kept]
