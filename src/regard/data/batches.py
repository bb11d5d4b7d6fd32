"""Batches of sentence pairs, filled by a budget of tokens from pairs of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

IGNORED = -100
Examples = Sequence[tuple[Sequence[int], Sequence[int]]]


TENSORS = ("source", "source_lengths", "inputs", "labels", "lengths")


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs for teacher forcing, padded on the right.

    source: [B, S] int64, each row ends with the end token. inputs: [B, T], start token and target. labels: [B, T],
    target and end token, -100 on padding. lengths: [B] of inputs. ids: the samples' numbers. tokens: labels that
    count, source_tokens: source without padding (both known on the host).
    """

    source: Tensor
    source_lengths: Tensor
    inputs: Tensor
    labels: Tensor
    lengths: Tensor
    ids: tuple[int, ...]
    tokens: int
    source_tokens: int

    def to(self, device: torch.device | str) -> PairBatch:
        """The batch on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in TENSORS})


class _Ragged:
    """Many lists of ids in one array."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter((len(r) for r in rows), np.int64, len(rows))
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.flat = np.concatenate([np.asarray(r, np.int32) for r in rows]) if rows else np.zeros(0, np.int32)

    def padded(self, chosen: np.ndarray, before: int | None, after: int | None, pad: int) -> np.ndarray:
        """[B, width]: the rows with an id put before and after, padded on the right."""
        lengths, shift = self.lengths[chosen], int(before is not None)
        out = np.full((len(chosen), int(lengths.max()) + shift + int(after is not None)), pad, np.int64)
        if before is not None:
            out[:, 0] = before
        place = np.arange(out.shape[1]) - shift
        inside = (place >= 0) & (place < lengths[:, None])
        out[inside] = np.concatenate([self.flat[self.starts[i] : self.starts[i + 1]] for i in chosen])
        if after is not None:
            out[np.arange(len(chosen)), lengths + shift] = after
        return out


class BucketedBatches:
    """An endless stream of epochs over pairs of token ids, that knows its place.

    In each epoch the pairs are sorted by target length and, alternately up and down, by source length; like pairs are
    shuffled, batches are filled to at most `max_tokens` target tokens with padding (a longer pair stands alone), and
    the batches are shuffled. Everything follows from (seed, epoch), so the place is two numbers.

    bucketed = False shuffles pairs without regard to their length (to measure what buckets save).
    """

    def __init__(
        self,
        examples: Examples,
        max_tokens: int,
        seed: int = 0,
        pad_id: int = 0,
        start_id: int = 1,
        end_id: int = 2,
        bucketed: bool = True,
    ) -> None:
        self.source, self.target = _Ragged([s for s, _ in examples]), _Ragged([t for _, t in examples])
        self.max_tokens, self.seed, self.bucketed = max_tokens, seed, bucketed
        self.pad_id, self.start_id, self.end_id = pad_id, start_id, end_id
        if pad_id != end_id and any((ragged.flat == pad_id).any() for ragged in (self.source, self.target)):
            raise ValueError(f"examples hold the pad id {pad_id}: give them without padding, batches add their own")
        self.epoch = self.index = 0
        self._plan: tuple[int, list[np.ndarray]] | None = None

    @property
    def batches_per_epoch(self) -> int:
        """The same in every epoch when bucketed: sorted lengths do not depend on the shuffle."""
        return len(self.plan(self.epoch))

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The sample numbers of every batch of an epoch, in order."""
        if self._plan is None or self._plan[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            batches = self._fill(self._sorted(random) if self.bucketed else random.permutation(self._count))
            self._plan = epoch, [batches[i] for i in random.permutation(len(batches))]
        return self._plan[1]

    @property
    def _count(self) -> int:
        return len(self.target.lengths)

    def _sorted(self, random: np.random.Generator | None) -> np.ndarray:
        ties = random.random(self._count) if random is not None else np.arange(self._count)
        up_and_down = np.where(self.target.lengths % 2, self.source.lengths, -self.source.lengths)
        return np.lexsort((ties, up_and_down, self.target.lengths))

    def _fill(self, order: np.ndarray) -> list[np.ndarray]:
        batches, start, longest = [], 0, 0
        lengths = (self.target.lengths[order] + 1).tolist()
        for i, length in enumerate(lengths):
            grown = max(longest, length)
            if i > start and grown * (i - start + 1) > self.max_tokens:
                batches.append(order[start:i])
                start, grown = i, length
            longest = grown
        if len(order) > start:
            batches.append(order[start:])
        return batches

    def make(self, chosen: np.ndarray) -> PairBatch:
        """The batch of these samples."""
        inputs = self.target.padded(chosen, self.start_id, None, self.pad_id)
        labels = self.target.padded(chosen, None, self.end_id, IGNORED)
        source = self.source.padded(chosen, None, self.end_id, self.pad_id)
        lengths, source_lengths = self.target.lengths[chosen] + 1, self.source.lengths[chosen] + 1
        arrays = dict(zip(TENSORS, (source, source_lengths, inputs, labels, lengths), strict=True))
        return PairBatch(
            **{name: torch.from_numpy(array) for name, array in arrays.items()},
            ids=tuple(chosen.tolist()),
            tokens=int(lengths.sum()),
            source_tokens=int(source_lengths.sum()),
        )

    def __iter__(self) -> Iterator[PairBatch]:
        if not self._count:
            return
        while True:
            plan = self.plan(self.epoch)
            while self.index < len(plan):
                self.index += 1
                yield self.make(plan[self.index - 1])
            self.epoch, self.index = self.epoch + 1, 0

    def once(self) -> Iterator[PairBatch]:
        """One pass in a fixed order, for evaluation; the place in the stream does not move."""
        for chosen in self._fill(self._sorted(None)):
            yield self.make(chosen)

    @property
    def padding_share(self) -> tuple[float, float]:
        """Shares of padding among source and target tokens in this epoch's batches."""
        if not self._count:
            return 0.0, 0.0
        shares = []
        for ragged in (self.source, self.target):
            lengths = [ragged.lengths[chosen] + 1 for chosen in self.plan(self.epoch)]
            shares.append(1 - sum(x.sum() for x in lengths) / sum(len(x) * x.max() for x in lengths))
        return float(shares[0]), float(shares[1])

    @property
    def _identity(self) -> dict[str, int]:
        return {"seed": self.seed, "max_tokens": self.max_tokens, "examples": self._count}

    def state_dict(self) -> dict[str, Any]:
        """The place: batches drawn in the current epoch, and what it is a place in."""
        return {"epoch": self.epoch, "index": self.index} | self._identity

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a place; ValueError when it is one in another stream."""
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ValueError(f"the position was saved with data {name} {state.get(name)}, this run has {value}")
        self.epoch, self.index = int(state["epoch"]), int(state["index"])
