"""Who may attend to whom: masks as values.

A mask is a predicate `allows(q, k)` over absolute positions. **True means "query q may attend to key k"**, here and
everywhere else in the library. It is written in plain operators, so the same line runs on ints (drawings, doctests)
and on tensors. Masks are joined with `&`, `|` and `~`:

    >>> print((Causal() & Window(2) | Prefix(1)).draw(4))
    # . . .
    # # . .
    # # # .
    # . # #

Masks of data (which slots are padding, which tokens share a document) are not here: they are read from the batch's
`Layout` and joined with the mask of the spec when it is realised (`nn/layout.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.values import FieldError, Tagged


class Mask(Tagged):
    """Base of all masks."""

    def allows(self, q: Any, k: Any) -> Any:
        """Whether a query at position q may attend to a key at position k; ints or broadcastable integer tensors."""
        raise NotImplementedError

    def __and__(self, other: Mask) -> Mask:
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other)

    def __invert__(self) -> Mask:
        return Not(self)

    def draw(self, queries: int, keys: int | None = None) -> str:
        """A picture in text: one row a query, `#` where it may attend."""
        keys = queries if keys is None else keys
        rows = (("#" if self.allows(q, k) else "." for k in range(keys)) for q in range(queries))
        return "\n".join(" ".join(row) for row in rows)


@dataclass(frozen=True)
class Everything(Mask):
    """No restriction (encoders)."""

    def allows(self, q: Any, k: Any) -> Any:
        return (q >= 0) & (k >= 0)


@dataclass(frozen=True)
class Causal(Mask):
    """A token sees itself and what comes before it."""

    def allows(self, q: Any, k: Any) -> Any:
        return k <= q


@dataclass(frozen=True)
class Window(Mask):
    """Keys nearer than `size`: the token itself and `size - 1` a side; with `& Causal()` only the earlier ones."""

    size: int

    def __post_init__(self) -> None:
        _positive(self.size, "size")

    def allows(self, q: Any, k: Any) -> Any:
        return (q - k < self.size) & (k - q < self.size)


@dataclass(frozen=True)
class Prefix(Mask):
    """The first `length` keys, seen by everybody; `Causal() | Prefix(n)` is the prefix language model."""

    length: int

    def __post_init__(self) -> None:
        _positive(self.length, "length")

    def allows(self, q: Any, k: Any) -> Any:
        return (k < self.length) & (q >= 0)


@dataclass(frozen=True)
class Permuted(Mask):
    """Permutation language modelling (XLNet, arXiv:1906.08237): a token sees those that come earlier in `order`.

    `order[i]` is the position predicted i-th. With `itself` a token also sees its own content (the content stream);
    without, it does not (the query stream).

    >>> print(Permuted((2, 0, 3, 1)).draw(4))
    . . # .
    # . # #
    . . . .
    # . # .
    """

    order: tuple[int, ...]
    itself: bool = False

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise FieldError(f"{self.order} is not an order of 0 .. {len(self.order) - 1}", "order")

    def allows(self, q: Any, k: Any) -> Any:
        rank = [0] * len(self.order)
        for place, position in enumerate(self.order):
            rank[position] = place
        rank_q, rank_k = _look_up(rank, q), _look_up(rank, k)
        return rank_k <= rank_q if self.itself else rank_k < rank_q


@dataclass(frozen=True)
class And(Mask):
    a: Mask
    b: Mask

    def allows(self, q: Any, k: Any) -> Any:
        return self.a.allows(q, k) & self.b.allows(q, k)


@dataclass(frozen=True)
class Or(Mask):
    a: Mask
    b: Mask

    def allows(self, q: Any, k: Any) -> Any:
        return self.a.allows(q, k) | self.b.allows(q, k)


@dataclass(frozen=True)
class Not(Mask):
    a: Mask

    def allows(self, q: Any, k: Any) -> Any:
        allowed = self.a.allows(q, k)
        return not allowed if isinstance(allowed, bool) else ~allowed


def is_causal(mask: Mask) -> bool:
    """Whether the mask lets no token see a later one; decided from its structure, so False when not provable."""
    return whole_prefix(mask) == 0


def whole_prefix(mask: Mask) -> int | None:
    """The least n such that no token sees a later one, save for the first n among each other: 0 for a causal mask.

    A model of such a mask goes token by token when its first n tokens have come in one pass. None: there is no n, as
    far as the mask's structure tells.

    >>> whole_prefix(Causal() & Window(3)), whole_prefix(Causal() | Prefix(5)), whole_prefix(Everything())
    (0, 5, None)
    """
    match mask:
        case Causal():
            return 0
        case Prefix(length):
            return 0 if length == 1 else length  # the first token is later than none
        case And(a, b):
            return min((n for n in (whole_prefix(a), whole_prefix(b)) if n is not None), default=None)
        case Or(a, b):
            both = whole_prefix(a), whole_prefix(b)
            return None if both[0] is None or both[1] is None else max(both[0], both[1])
        case _:
            return None


def _look_up(table: Sequence[int], index: Any) -> Any:
    """`table[index]` for an int or an integer tensor (which makes the new tensor itself: no torch here).

    Positions past the table (padding) read its last entry instead of foreign memory.
    """
    if isinstance(index, int):
        return table[min(index, len(table) - 1)]
    return index.new_tensor(table)[index.clamp(0, len(table) - 1)]


def _positive(value: int, field: str) -> None:
    if value < 1:
        raise FieldError(f"got {value}, must be at least 1", field)
