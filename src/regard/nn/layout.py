"""What is in a batch, and what a mask becomes on it.

`Layout` says where each token stands; `Context` is what one forward pass of a stack shares among its layers, among
them the realised masks: each distinct mask once, from structure and host-known facts, never by inspecting a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree

from regard.errors import InputError
from regard.mask import Causal, Everything, Mask

if TYPE_CHECKING:
    from regard.cache import Cache


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a batch [B, T] stand.

    positions: [T] or [B, T] int64, absolute. lengths: [B] valid tokens a row, the rest is padding on the right (None:
    no padding). documents: [B, T] int64, tokens see only their own document (None: a row is one document). A document
    is a run of equal ids: an id that comes again after another document is a new document.
    counted: positions are simply 0 .. T-1 (known on the host, so that masks can be told by structure).
    """

    positions: Tensor
    lengths: Tensor | None = None
    documents: Tensor | None = None
    counted: bool = True

    @staticmethod
    def of(
        shape: torch.Size | tuple[int, int],
        device: torch.device,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
        documents: Tensor | None = None,
        start: int = 0,
    ) -> Layout:
        """The layout of a batch of `shape` [B, T] whose first token stands at `start`.

        With documents and no positions, every document counts from 0.
        """
        if positions is None and documents is not None:
            positions = document_positions(documents)
            return Layout(positions, lengths, documents, counted=False)
        if positions is None:
            return Layout(torch.arange(start, start + shape[1], device=device), lengths, documents, counted=start == 0)
        return Layout(positions, lengths, documents, counted=False)

    def valid(self, length: int) -> Tensor | None:
        """[B, T] bool: True where a token is none of padding; None when there is no padding."""
        if self.lengths is None:
            return None
        return torch.arange(length, device=self.lengths.device) < self.lengths[:, None]

    def same_document(self) -> Tensor | None:
        """[B, T, T] bool: which tokens stand in one document; None when there are no documents."""
        if self.documents is None:
            return None
        runs = document_starts(self.documents).cumsum(1)
        return runs[:, :, None] == runs[:, None, :]


# `counted` is a fact about the values, so it is part of the tree's structure: a tree that was flattened and rebuilt
# (compile, export, tree_map) must not fall back to the default and count its positions anew.
_pytree.register_pytree_node(
    Layout,
    lambda layout: ([layout.positions, layout.lengths, layout.documents], layout.counted),
    lambda fields, counted: Layout(*fields, counted),  # type: ignore[call-arg]
    serialized_type_name="regard.nn.Layout",
)


def check_batch(
    shape: torch.Size | tuple[int, int],
    lengths: Tensor | None = None,
    positions: Tensor | None = None,
    documents: Tensor | None = None,
    segments: Tensor | None = None,
) -> None:
    """Raises InputError when what is told about a batch [B, T] does not fit it.

    Shapes are always checked; values only on a CPU in eager mode, where looking at them costs no waiting.
    """
    rows, width = shape
    for name, given in (("positions", positions), ("documents", documents), ("segments", segments)):
        allowed = [(rows, width), (1, width), *([(width,)] if name == "positions" else [])]
        if given is not None and given.shape not in allowed:
            raise InputError(f"{name}: got {list(given.shape)} for tokens [{rows}, {width}]; give one for each token")
    if lengths is None:
        return
    if lengths.shape != (rows,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise InputError(f"lengths: got {lengths.dtype} {list(lengths.shape)}; give {rows} integers, one a row")
    if type(lengths) is Tensor and lengths.device.type == "cpu" and rows and not torch.compiler.is_compiling():
        least, most = (int(n) for n in lengths.aminmax())
        if least < 0 or most > width:
            wrong = least if least < 0 else most
            raise InputError(f"lengths: got {wrong}, a row of this batch has from 0 to {width} tokens")


def document_starts(documents: Tensor) -> Tensor:
    """[B, T] bool: where a document begins."""
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return starts


def document_positions(documents: Tensor) -> Tensor:
    """[B, T] positions that restart at 0 wherever a document begins."""
    place = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    return place - torch.where(document_starts(documents), place, 0).cummax(1).values


def document_turns(documents: Tensor) -> Tensor:
    """[B, T]: the how-manyth document of its id each token is in (1, unless an id comes again)."""
    places = torch.arange(documents.shape[1], device=documents.device)
    same = documents[:, :, None] == documents[:, None, :]
    begun = document_starts(documents)[:, None, :] & (places <= places[:, None])
    return (same & begun).sum(-1)


@dataclass
class Visible:
    """A realised mask. causal: the lower triangle, by flag. allowed: bool [B or 1, H or 1, T or 1, S].

    True = may attend. At most one of the two is set; neither: everything is visible. empty_rows: a query may have no
    key left. clean: what stands in hidden slots is known to be finite, so it need not be blanked.
    """

    causal: bool = False
    allowed: Tensor | None = None
    empty_rows: bool = False
    clean: bool = False
    _triangle: Tensor | None = None

    def tensor(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """The mask as a tensor [.., T, S], or None when everything is visible; made once, for all layers."""
        if not self.causal:
            return self.allowed
        if self._triangle is None:
            self._triangle = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
        return self._triangle


@dataclass(frozen=True)
class Memory:
    """What an encoder gives a decoder: hidden states [B, S, E] and where their tokens stand.

    origin: what the memory was made from (None: itself). By its identity a cache knows its memory and any rows of it.
    """

    hidden: Tensor
    layout: Layout
    origin: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.origin is None:
            object.__setattr__(self, "origin", self.hidden)

    def take(self, rows: Tensor) -> Memory:
        """The memory of some rows only."""
        layout = self.layout
        lengths = None if layout.lengths is None else layout.lengths[rows]
        documents = None if layout.documents is None else layout.documents[rows]
        positions = layout.positions if layout.positions.ndim == 1 else layout.positions[rows]
        return Memory(self.hidden[rows], Layout(positions, lengths, documents, layout.counted), self.origin)


_pytree.register_dataclass(Memory, field_names=["hidden", "layout"], drop_field_names=["origin"])


class Context:
    """What the layers of a stack share in one forward pass.

    Args:
        layout: of the new tokens. keys: how many keys there are (with a cache: its slots in use and the new ones).
        mask: a run-time mask that replaces the spec's (not what the batch says: padding, documents, slots of a cache
            that hold nothing): a Mask, or a bool tensor broadcastable to [B, H, T, S].
    """

    def __init__(
        self,
        layout: Layout,
        queries: int,
        memory: Memory | None = None,
        cache: Cache | None = None,
        mask: Mask | Tensor | None = None,
    ) -> None:
        self.layout, self.queries, self.memory, self.cache, self.mask = layout, queries, memory, cache, mask
        self.start = 0 if cache is None else cache.length
        self.keys = self.start + queries
        self._memo: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, computed once a forward pass for each key."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    @property
    def device(self) -> torch.device:
        return self.layout.positions.device

    @property
    def counted(self) -> bool:
        """Whether the new tokens simply stand at start, start + 1, ... (known on the host)."""
        return self.layout.counted if self.cache is None else self.cache.even

    @property
    def key_positions(self) -> Tensor:
        """[S] or [B, S] int64: where the keys stand."""
        return self.layout.positions if self.cache is None else self.cache.key_positions(self.keys)

    def distances(self) -> Tensor:
        """[T, S] or [B, 1, T, S] int64: key position minus query position."""

        def make() -> Tensor:
            q, k = self.layout.positions, self.key_positions
            if q.ndim == 1 and k.ndim == 1:
                return k[None, :] - q[:, None]
            q, k = (p if p.ndim == 2 else p[None] for p in (q, k))
            return (k[:, None, :] - q[:, :, None])[:, None]

        return self.once("distances", make)

    def visible(self, mask: Mask, key: str) -> Visible:
        """The spec's mask on this batch; `key` names it in the memo."""
        if self.mask is not None:
            return self.once("run-time mask", lambda: self._replaced(self.mask))
        return self.once(key, lambda: self._realise(mask))

    def memory_visible(self) -> Visible:
        """Which of the memory's tokens the queries may attend to."""

        def make() -> Visible:
            assert self.memory is not None
            theirs = self.memory.layout
            ours = self.layout.documents
            if theirs.documents is not None and ours is not None:
                # an id that comes again is a new document, and goes with the one of the same turn on the other side
                same = ours[:, :, None] == theirs.documents[:, None]
                same = same & (document_turns(ours)[:, :, None] == document_turns(theirs.documents)[:, None])
                valid = theirs.valid(theirs.documents.shape[1])
                same = same if valid is None else same & valid[:, None]
                return Visible(allowed=same[:, None], empty_rows=True)
            valid = theirs.valid(self.memory.hidden.shape[1])
            return Visible() if valid is None else Visible(allowed=valid[:, None, None], clean=True)

        return self.once("memory", make)

    def _replaced(self, mask: Any) -> Visible:
        if isinstance(mask, Mask):
            return self._realise(mask)
        # [T, S], [B, T, S] and [B, H, T, S] are accepted, with 1 wherever a dimension is shared
        given, mask = mask, mask[None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
        fits = mask.ndim == 4 and mask.shape[2] in (1, self.queries) and mask.shape[3] == self.keys
        if not fits or mask.dtype != torch.bool:
            shapes = "[T, S], [B, T, S] or [B, H, T, S]"
            raise InputError(
                f"mask: got {given.dtype} {list(given.shape)}; "
                f"give a bool tensor {shapes}, T = {self.queries} and S = {self.keys}"
            )
        told = self.once("told", self._told)
        allowed = mask if told is None else mask & told
        return Visible(allowed=allowed, empty_rows=True, clean=self.cache is not None)

    def _told(self) -> Tensor | None:
        """[B, 1, T or 1, S] bool: what the batch itself lets be seen; None: it says nothing.

        Neither padding, nor slots of the cache that hold nothing, nor other documents.
        """
        layout, told = self.layout, None
        if self.cache is not None:
            if not self.cache.even or layout.lengths is not None:
                told = self.cache.filled(self.keys)[:, None, None, :]
        elif (valid := layout.valid(self.queries)) is not None:
            told = valid[:, None, None, :]
        same = layout.same_document()
        if same is None:
            return told
        return same[:, None] if told is None else same[:, None] & told

    def _realise(self, mask: Mask) -> Visible:
        layout, plain = self.layout, isinstance(mask, Causal | Everything)
        if layout.documents is None and plain:
            if self.cache is None and layout.counted:
                # Right padding stands after every valid query, so a causal mask hides it from them already.
                if isinstance(mask, Causal):
                    return Visible(causal=True)
                valid = layout.valid(self.queries)
                return Visible() if valid is None else Visible(allowed=valid[:, None, None], clean=True)
            # one new token that sees all slots in use: nothing to hide
            if self.cache is not None and self.cache.even and self.queries == 1 and layout.lengths is None:
                return Visible()
        return self._from_positions(mask)

    def _from_positions(self, mask: Mask) -> Visible:
        layout = self.layout
        q = layout.positions if layout.positions.ndim == 2 else layout.positions[None]
        k = self.key_positions if self.key_positions.ndim == 2 else self.key_positions[None]
        allowed = mask.allows(q[:, None, :, None], k[:, None, None, :])
        told = self.once("told", self._told)
        allowed = allowed if told is None else allowed & told
        # A row of padding may see nothing; so may a row under a mask that hides the token itself. Padding is zeroed at
        # the start of the stack and unused slots of a cache are zero, so these need no blanking.
        padding_only = isinstance(mask, Causal | Everything) and layout.documents is None
        return Visible(allowed=allowed, empty_rows=True, clean=padding_only or self.cache is not None)
