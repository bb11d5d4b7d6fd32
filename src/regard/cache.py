"""What generation remembers. The cache stands outside the model: generation owns it, mixers read and extend it.

A `Cache` has one state object an application of a mixer. Slots are filled in the order in which tokens come, the same
slots in every row, so writing is one slice and reading is a view: nothing is gathered, copied or reordered. Rows of
unequal prompts are padded on the right; the slots of padding are never visible, and every row's own count goes on
from its length. Where slots and positions differ (several beams of a sentence stand at one position), the slots'
positions are told by `positions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.nn.layout import Memory


class KVState:
    """Keys and values of one attention, [B, K, capacity, D] each, zero-filled (uninitialised memory may hold NaN)."""

    def __init__(
        self, batch: int, kv_heads: int, capacity: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.k = torch.zeros(batch, kv_heads, capacity, head_dim, dtype=dtype, device=device)
        self.v = torch.zeros_like(self.k)

    def extend(self, k_BKTD: Tensor, v_BKTD: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Writes new keys and values from slot `start` on; returns views of all slots in use, [B, K, S, D]."""
        end = start + k_BKTD.shape[2]
        self.k[:, :, start:end], self.v[:, :, start:end] = k_BKTD, v_BKTD
        return self.k[:, :, :end], self.v[:, :, :end]

    def take(self, rows: Tensor) -> None:
        self.k, self.v = self.k[rows], self.v[rows]

    def clear(self, start: int) -> None:
        """Forgets the slots from `start` on."""
        self.k[:, :, start:], self.v[:, :, start:] = 0, 0

    def tensors(self) -> dict[str, Tensor]:
        return {"k": self.k, "v": self.v}


class CrossState:
    """Keys and values of an encoder's memory, made at the first step and kept; [B, K, S, D]."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def take(self, rows: Tensor) -> None:
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[rows], self.v[rows]

    def clear(self, start: int) -> None:
        """The memory does not depend on the decoder's tokens."""

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.k is None or self.v is None else {"k": self.k, "v": self.v}


@dataclass(frozen=True)
class Mark:
    """A place to roll back to."""

    length: int
    even: bool
    lengths: Tensor


class Cache:
    """The states of all mixers of a stack, and how far they are filled.

    Attributes:
        length: slots in use (host int). lengths: [B] int64, tokens of each row. even: all rows are as long, none
            of padding, and slot = position.
        states: [step of the stack][sublayer] -> state (None for parts without memory).
        memory: what the decoder attends to, from the first step on; its rows follow `take`.
    """

    def __init__(self, states: list[Any], batch: int, capacity: int, device: torch.device) -> None:
        self.states, self.batch, self.capacity = states, batch, capacity
        self.length, self.even = 0, True
        self.memory: Memory | None = None
        self.lengths = torch.zeros(batch, dtype=torch.int64, device=device)
        self._positions: Tensor | None = None  # [B, capacity], -1 where a slot holds nothing; None while even
        self._counted = torch.arange(capacity, device=device)

    # ---- read by the model ----

    def next_positions(self, queries: int) -> Tensor:
        """[T] or [B, T]: the positions of the next tokens when nobody says otherwise."""
        if self.even:
            return self._counted[self.length : self.length + queries]
        return self.lengths[:, None] + self._counted[:queries]

    def key_positions(self, keys: int) -> Tensor:
        """[S] or [B, S] int64: where the tokens in the first `keys` slots stand."""
        return self._counted[:keys] if self._positions is None else self._positions[:, :keys]

    def filled(self, keys: int) -> Tensor:
        """[B, S] bool: which slots hold a token."""
        if self._positions is None:
            return torch.ones(self.batch, keys, dtype=torch.bool, device=self.lengths.device)
        return self._positions[:, :keys] >= 0

    def bind(self, memory: Memory | None) -> Memory | None:
        """The memory whose keys and values the states hold: the first one that is given, then that one's rows.

        Raises:
            InputError: another memory than that one (or rows of it), or one of another number of rows.
        """
        if memory is None:
            return self.memory
        if self.memory is None:
            if memory.hidden.shape[0] != self.batch:
                raise InputError(f"memory: got {memory.hidden.shape[0]} rows for a cache of {self.batch}; give as many")
            self.memory = memory
        elif memory.origin is not self.memory.origin:
            raise InputError("memory: the cache was filled from another source; make a new cache for each source")
        return self.memory

    def reserve(self, queries: int, positions: Tensor | None, lengths: Tensor | None) -> None:
        """Notes where the tokens that are about to be written stand (before the layers run).

        Raises:
            InputError: the cache is full.
        """
        end = self.length + queries
        if end > self.capacity:
            raise InputError(
                f"the cache holds {self.capacity} tokens, {end} are needed; make it with a larger capacity"
            )
        if self.even and positions is None and lengths is None:
            return
        if self._positions is None:
            self._positions = torch.full((self.batch, self.capacity), -1, device=self.lengths.device)
            self._positions[:, : self.length] = self._counted[: self.length]
        new = self.next_positions(queries) if positions is None else positions
        self.even = False
        self._positions[:, self.length : end] = new
        if lengths is not None:
            padding = self._counted[:queries] >= lengths[:, None]
            self._positions[:, self.length : end].masked_fill_(padding, -1)

    def advance(self, queries: int, lengths: Tensor | None) -> None:
        """Counts the tokens that were written (after the layers ran)."""
        self.length += queries
        self.lengths = self.lengths + (queries if lengths is None else lengths)

    # ---- used by generation ----

    def take(self, rows: Tensor) -> None:
        """Keeps these rows only, in this order (a repeated row is copied)."""
        for state in self._all():
            state.take(rows)
        self.batch, self.lengths = len(rows), self.lengths[rows]
        self.memory = None if self.memory is None else self.memory.take(rows)
        self._positions = None if self._positions is None else self._positions[rows]

    def mark(self) -> Mark:
        """A mark for `rollback`."""
        return Mark(self.length, self.even, self.lengths)

    def rollback(self, mark: Mark) -> None:
        """Forgets what came after the mark."""
        for state in self._all():
            state.clear(mark.length)
        self.length, self.even, self.lengths = mark.length, mark.even, mark.lengths
        if self._positions is not None:
            self._positions[:, mark.length :] = -1
            self._positions = None if mark.even else self._positions

    @property
    def nbytes(self) -> int:
        """Bytes allocated for states."""
        return sum(t.numel() * t.element_size() for state in self._all() for t in state.tensors().values())

    @property
    def nbytes_used(self) -> int:
        """Bytes of the slots in use: 2 x batch x length x kv heads x head size x bytes a layer, and the memory's."""
        total = 0
        for state in self._all():
            share = self.length / self.capacity if isinstance(state, KVState) else 1
            total += sum(round(t.numel() * share) * t.element_size() for t in state.tensors().values())
        return total

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by name, to be stored with `length`."""
        named = {f"{i}.{name}": t for i, state in enumerate(self._all()) for name, t in state.tensors().items()}
        return named | {"lengths": self.lengths, "key_positions": self.key_positions(self.length)}

    def _all(self) -> Iterator[Any]:
        return _leaves(self.states)


def _leaves(states: Iterable[Any]) -> Iterator[Any]:
    for state in states:
        if isinstance(state, list | tuple):
            yield from _leaves(state)
        elif state is not None:
            yield state
