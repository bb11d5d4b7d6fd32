"""Attention maps as arrays with labels, and what is done so that they fit into a picture or a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

Weights = NDArray[np.float32]


class Place(NamedTuple):
    """Where a map comes from; numbers from 0, as in recorded names. `extra` tells apart what shares a layer."""

    layer: int
    head: int
    extra: str = ""

    @property
    def row(self) -> str:
        return f"layer {self.layer}{self.extra}"


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of one kind of attention, all over the same tokens.

    Attributes:
        kind: "Encoder self-attention" and so on.
        rows, columns: [T], [S] what is written at the queries and at the keys.
        row_axis, column_axis: what the axes are.
        weights: {place: [T, S]}; each row of an array adds up to 1.
    """

    kind: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_axis: str
    column_axis: str
    weights: dict[Place, Weights] = field(default_factory=dict)

    @property
    def layers(self) -> list[str]:
        return list(dict.fromkeys(place.row for place in self.weights))

    @property
    def heads(self) -> list[int]:
        return sorted({place.head for place in self.weights})


@dataclass(frozen=True)
class Limits:
    """What fits: labels on an axis, maps, and cells of all maps together (None: as many as there are)."""

    side: int
    maps: int | None = None
    cells: int | None = None
    least_side: int = 32


PICTURE = Limits(side=96, maps=96)
PAGE = Limits(side=160, cells=2_000_000)  # at 2 bytes a cell in base64: 5.3 MB


def choose(places: Sequence[Place], layers: Sequence[int] | None, heads: Sequence[int] | None) -> list[Place]:
    """The places in these layers and heads (None: all).

    Raises:
        InputError: a layer or head that does not exist.
    """
    for name, wanted, known in (
        ("layer", layers, {p.layer for p in places}),
        ("head", heads, {p.head for p in places}),
    ):
        for number in wanted or ():
            if number not in known:
                raise InputError(f"attention: there is no {name} {number}; {name}s are 0 .. {max(known)}")
    kept = [p for p in places if (not layers or p.layer in layers) and (not heads or p.head in heads)]
    if not kept:
        raise InputError("attention: no layer has such a head; choose others")
    return kept


def fit(kinds: dict[str, list[Place]], limits: Limits) -> tuple[dict[str, list[Place]], int, list[str]]:
    """The places that are shown, the longest axis, and notes that say what was left out."""
    notes, total = [], sum(map(len, kinds.values()))
    most = total if limits.maps is None else limits.maps
    if limits.cells is not None:
        most = min(most, limits.cells // limits.least_side**2)
    if total > most:
        kinds = {kind: _spread(places, most * len(places) // total) for kind, places in kinds.items()}
        shown = sum(map(len, kinds.values()))
        layers = sorted({p.layer for places in kinds.values() for p in places})
        listed = ", ".join(map(str, layers))
        notes.append(f"{shown} of {total} maps are shown (layers {listed}); choose layers and heads.")
        total = shown
    side = limits.side if limits.cells is None else min(limits.side, math.isqrt(limits.cells // total))
    return kinds, side, notes


def _spread(places: list[Place], most: int) -> list[Place]:
    """Whole layers, spread evenly, with at most `most` maps; where one layer has too many, its first ones."""
    rows = list(dict.fromkeys(p.row for p in places))
    a_row = max(sum(p.row == row for p in places) for row in rows)
    count = max(1, most // a_row)
    picked = {rows[round(i * (len(rows) - 1) / max(1, count - 1))] for i in range(count)} if count > 1 else {rows[-1]}
    return [p for p in places if p.row in picked][: max(1, most)]


def grouped(maps: Maps, side: int) -> tuple[Maps, list[str]]:
    """At most `side` rows and columns: neighbouring tokens are put together, and a note says so.

    Weights are added over the keys of a group and averaged over its queries, so every row still adds up to 1.
    """
    row_size, column_size = (math.ceil(len(labels) / side) for labels in (maps.rows, maps.columns))
    if row_size == column_size == 1:
        return maps, []
    note = (
        f"{maps.kind}: {len(maps.rows)} x {len(maps.columns)} tokens, drawn in groups of {row_size} x {column_size} "
        "(weights added over a group's keys, averaged over its queries)."
    )
    small = {place: pool(w, row_size, column_size) for place, w in maps.weights.items()}
    return replace(
        maps, rows=_joined(maps.rows, row_size), columns=_joined(maps.columns, column_size), weights=small
    ), [note]


def pool(weights: Weights, row_size: int, column_size: int) -> Weights:
    """[T, S] -> [ceil(T / row_size), ceil(S / column_size)]: mean over queries, sum over keys."""
    columns = np.add.reduceat(weights, np.arange(0, weights.shape[1], column_size), axis=1)
    starts = np.arange(0, weights.shape[0], row_size)
    counts = np.diff(np.append(starts, weights.shape[0]))
    return (np.add.reduceat(columns, starts, axis=0) / counts[:, None]).astype(np.float32)


def _joined(labels: tuple[str, ...], size: int) -> tuple[str, ...]:
    groups = [labels[i : i + size] for i in range(0, len(labels), size)]
    return tuple(group[0] if len(group) == 1 else f"{group[0].strip()} … {group[-1].strip()}" for group in groups)
