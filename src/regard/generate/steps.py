"""Prefill and step: how a search asks a model for the next token's logits.

A search sees B sentences with W running hypotheses each, and nothing of caches. There are two ways to hold W
hypotheses of a sentence:

- `SharedSlots`: they are W queries of one row of the cache. A token is written once and stays where it is; a boolean
  mask says which slots are a hypothesis's own past. Choosing parents reorders only that mask: neither the cache nor the
  encoder's memory is ever copied.

        slots of one row     start | a  b | c  d | e  f         a: first step, hypothesis 0, and so on
        hypothesis 0 (e)       #   | #  . | .  # | #  .         e continues d, which continues a
        hypothesis 1 (f)       #   | #  . | #  . | .  #

- `Rows`: a row of the cache each, reordered by `take`. For masks of the model that a visibility mask would replace
  (windows), and for states that cannot be masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard import spec
from regard.errors import InputError
from regard.nn.body import Body
from regard.nn.layout import Memory


class Steps(Protocol):
    """The next token's logits for W hypotheses of each of B sentences."""

    def start(self) -> Tensor:
        """Logits [B, 1, V] after the prompt."""
        ...

    def step(self, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        """Logits [B, W, V] after the new tokens `ids` [B, W].

        parents: [B, W] which hypothesis of the step before each one continues (None: the same place; W unchanged).
        """
        ...

    def take(self, rows: Tensor) -> None:
        """Keeps these sentences only."""
        ...


@dataclass(frozen=True)
class Prompt:
    """What generation starts from.

    ids: [B, P] right-padded, at least one token a row; lengths: [B] or None (no padding); memory: the encoded source of
    an encoder-decoder (its decoder's prompt is the start token).
    """

    ids: Tensor
    lengths: Tensor | None = None
    memory: Memory | None = None

    @property
    def counts(self) -> Tensor:
        """[B] tokens of each row."""
        rows, width = self.ids.shape
        return torch.full((rows,), width, device=self.ids.device) if self.lengths is None else self.lengths


def make_steps(model: Any, prompt: Prompt, width: int, new_tokens: int) -> Steps:
    """The way to step `model` with at most `width` hypotheses a sentence for at most `new_tokens` tokens."""
    shared = width > 1 and can_share(model)
    return (SharedSlots if shared else Rows)(model, prompt, width, new_tokens)


def can_share(model: Any) -> bool:
    """Whether hypotheses may share a row of the cache: every part of the decoder says so."""
    return all(body.shares_slots for body in _bodies(model))


def check_causal(model: Any, prompts: Sequence[int]) -> None:
    """Raises InputError where going token by token would not be what the model's masks say; prompts: their lengths."""
    needed = [body.whole_prefix for body in _bodies(model)]
    if any(n is None for n in needed):
        raise InputError(
            "the model's masks let tokens see later ones, so it cannot go token by token; "
            "generate with a model whose masks are causal"
        )
    most = max((n for n in needed if n is not None), default=0)
    for number, length in enumerate(prompts):
        if length < most:
            raise InputError(
                f"prompt {number} has {length} tokens for the decoder, the model's prefix of {most} must come whole; "
                "give a longer prompt"
            )


def _bodies(model: Any) -> list[Body]:
    """The mixers and feed-forward parts of what generates."""
    tower = model.decoder if isinstance(model.spec, spec.EncoderDecoder) else model
    return [body for layer in tower.stack.layers for body in layer.bodies().values()]


def decoder_of(model: spec.LanguageModel | spec.EncoderDecoder) -> spec.LanguageModel:
    """The part that generates."""
    return model.decoder if isinstance(model, spec.EncoderDecoder) else model


def position_limit(embedding: spec.Embedding) -> int | None:
    """How many tokens a model can read: the size of its position table; None: any number."""
    return embedding.position.length if isinstance(embedding.position, spec.Learned) else None


class _Cached:
    """The prompt, and the cache it fills."""

    def __init__(self, model: Any, prompt: Prompt, capacity: int) -> None:
        self.model, self.prompt = model, prompt
        self.cache = model.new_cache(len(prompt.ids), capacity)
        self.positions = prompt.counts  # [rows]: where the next token stands
        self.table = position_limit(decoder_of(model.spec).embedding)

    def _prefill(self) -> Tensor:
        """Logits [B, 1, V] of each row's last token; the head runs on those only."""
        hidden = self._run(self.prompt.ids, lengths=self.prompt.lengths, hidden=True)
        last = self.prompt.counts - 1
        rows = torch.arange(len(last), device=last.device)
        return self.model.head(hidden[rows, last][:, None])

    def _next_positions(self) -> Tensor:
        """[rows, 1]: where the new tokens stand. A row past its limit waits on the table's last place to be dropped."""
        positions = self.positions if self.table is None else self.positions.clamp(max=self.table - 1)
        self.positions = self.positions + 1
        return positions[:, None]

    def _run(self, ids: Tensor, **options: Any) -> Tensor:
        if self.prompt.memory is not None:
            options["memory"] = self.prompt.memory  # the cache knows which of its rows are left
        return self.model(ids, cache=self.cache, **options)

    def take(self, rows: Tensor) -> None:
        self.cache.take(rows)
        self.positions = self.positions[rows]


class SharedSlots(_Cached):
    """All hypotheses of a sentence in one row of the cache."""

    def __init__(self, model: Any, prompt: Prompt, width: int, new_tokens: int) -> None:
        # the last token is never fed
        super().__init__(model, prompt, prompt.ids.shape[1] + width * (new_tokens - 1))
        slots = torch.arange(prompt.ids.shape[1], device=prompt.ids.device)
        self.visible = (slots < prompt.counts[:, None])[:, None]  # [B, W, S]: which slots are a hypothesis's own past

    def start(self) -> Tensor:
        return self._prefill()

    def step(self, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        rows, width = ids.shape
        past = self.visible
        if parents is not None:
            past = past.gather(1, parents[..., None].expand(-1, -1, past.shape[2]))
        itself = torch.eye(width, dtype=torch.bool, device=ids.device).expand(rows, -1, -1)
        self.visible = torch.cat((past, itself), 2)
        return self._run(ids, positions=self._next_positions().expand(-1, width), mask=self.visible[:, None])

    def take(self, rows: Tensor) -> None:
        super().take(rows)
        self.visible = self.visible[rows]


class Rows(_Cached):
    """A row of the cache for each hypothesis."""

    def __init__(self, model: Any, prompt: Prompt, width: int, new_tokens: int) -> None:
        super().__init__(model, prompt, prompt.ids.shape[1] + new_tokens - 1)
        self.width = 1

    def start(self) -> Tensor:
        return self._prefill()

    def step(self, ids: Tensor, parents: Tensor | None = None) -> Tensor:
        rows, width = ids.shape
        if parents is not None:
            first = torch.arange(rows, device=ids.device)[:, None] * self.width
            super().take((first + parents).flatten())
            self.width = width
        # equal rows need no positions: slots count them, and the model need not look at any
        positions = self._next_positions() if self.prompt.lengths is not None else None
        return self._run(ids.reshape(-1, 1), positions=positions).reshape(rows, width, -1)

    def take(self, rows: Tensor) -> None:
        beams = torch.arange(self.width, device=rows.device)
        super().take((rows[:, None] * self.width + beams).flatten())
