"""Whole models: embedding, stack, heads, and the encoder-decoder."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import spec
from regard.cache import Cache
from regard.errors import InputError
from regard.mask import Mask
from regard.nn import heads as H
from regard.nn.build import build_part
from regard.nn.dropout import Dropout
from regard.nn.layout import Context, Layout, Memory, check_batch
from regard.nn.position import Learned, RelativeBias, Sinusoidal
from regard.nn.residual import Layer


class Embedding(nn.Module):
    """dropout(norm(scale * token + position + segment)): [B, T] ids -> [B, T, E]."""

    def __init__(self, part: spec.Embedding, size: int) -> None:
        super().__init__()
        self.vocab_size = part.vocab_size
        self.tokens = nn.Module()
        self.tokens.weight = nn.Parameter(torch.empty(part.vocab_size, size))
        self.segments: nn.Module | None = None
        if part.segments:
            self.segments = nn.Module()
            self.segments.weight = nn.Parameter(torch.empty(part.segments, size))
        self.position: Sinusoidal | Learned | None = None
        if isinstance(part.position, spec.Sinusoidal):
            self.position = Sinusoidal(part.position, size)
        elif part.position is not None:
            self.position = Learned(part.position, size)
        self.norm = build_part(part.norm, size)
        self.dropout = Dropout(part.dropout)
        self.scale = part.scale

    @property
    def weight(self) -> Tensor:
        """The token table [V, E]."""
        weight = self.tokens.weight
        assert isinstance(weight, Tensor)
        return weight

    def forward(
        self, ids: Tensor | None, context: Context, segments: Tensor | None = None, embeds: Tensor | None = None
    ) -> Tensor:
        """embeds: [B, T, E] token vectors that stand for the looked-up ones (they are scaled like them)."""
        if embeds is None:
            assert ids is not None
            embeds = F.embedding(ids, self.weight)
        # the scale is rounded to the activations' dtype, as published half-precision models have it
        x = embeds
        if self.scale != 1.0:
            x = x * torch.full((), self.scale, dtype=embeds.dtype, device=embeds.device)
        if isinstance(self.position, Learned) and context.counted:
            self.position.check(context.start + context.queries)
        if self.position is not None:
            x = x + self.position(context.layout.positions, x.dtype)
        if self.segments is not None:
            table: Any = self.segments.weight
            x = x + (table[0] if segments is None else F.embedding(segments, table))
        return self.dropout(self.norm(x))


class Stack(nn.Module):
    """The layers in order, then the final norm; one relative bias for all layers if the spec has one."""

    def __init__(self, part: spec.Stack, memory_size: int | None = None) -> None:
        super().__init__()
        self.hidden_size = part.hidden_size
        self.layers = nn.ModuleList(Layer(layer, part.hidden_size, memory_size) for layer in part.layers)
        self.order = part.order or tuple(range(len(part.layers)))
        self.final_norm = build_part(part.final_norm, part.hidden_size)
        self.score_bias: RelativeBias | None = None
        if part.score_bias is not None:
            found = next(body for _, body in spec.bodies(part) if isinstance(body, spec.Attention))
            self.score_bias = RelativeBias(part.score_bias, found.heads)

    def new_states(self, batch: int, capacity: int) -> list[Any]:
        """One list of states for each step of the order."""
        return [self.layers[i].new_states(batch, capacity) for i in self.order]  # type: ignore[operator]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if self.score_bias is not None:
            bias = self.score_bias(None, context)
            context.once("stack bias", lambda: bias)
        states = None if context.cache is None else context.cache.states
        for step, index in enumerate(self.order):
            x = self.layers[index](x, context, None if states is None else states[step])
        return self.final_norm(x)


class _Tower(nn.Module):
    """Embedding and stack, and what every model has around them."""

    spec: Any
    embedding: Embedding
    stack: Stack

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer: Any = None
        self.source_tokenizer: Any = None

    def _towers(self, part: Any, memory_size: int | None = None) -> None:
        self.spec = part
        self.embedding = Embedding(part.embedding, part.stack.hidden_size)
        self.stack = Stack(part.stack, memory_size)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def new_cache(self, batch: int, capacity: int) -> Cache:
        """An empty cache for `batch` rows of at most `capacity` tokens."""
        return Cache(self.stack.new_states(batch, capacity), batch, capacity, self.device)

    def states(
        self,
        ids: Tensor | None,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        documents: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        memory: Memory | None = None,
        embeds: Tensor | None = None,
    ) -> tuple[Tensor, Layout]:
        """The final hidden states [B, T, E] of the new tokens, and where these stand."""
        given = ids if ids is not None else embeds
        if given is None or given.ndim != (2 if ids is not None else 3):
            raise InputError("the model needs ids [batch, time], or inputs_embeds [batch, time, hidden]")
        queries = given.shape[1]
        check_batch(given.shape[:2], lengths, positions, documents, segments)
        if cache is not None:
            if documents is not None:
                raise InputError("documents and a cache do not go together: decode one document a row")
            memory = cache.bind(memory)
            cache.reserve(queries, positions, lengths)
            places = cache.next_positions(queries) if positions is None else positions
            layout = Layout(places, lengths, None, counted=False)
        else:
            layout = Layout.of(given.shape[:2], given.device, lengths, positions, documents)
        context = Context(layout, queries, memory, cache, mask)
        x = self.embedding(ids, context, segments, embeds)
        valid = layout.valid(queries)
        if valid is not None:
            # whatever padding holds, even NaN, must not reach the layers
            x = x.masked_fill(~valid[..., None], 0.0)
        hidden = self.stack(x, context)
        if cache is not None:
            cache.advance(queries, lengths)
        return hidden, layout


class LanguageModel(_Tower):
    """A decoder with its language-model head; with a memory, the decoder of an encoder-decoder."""

    def __init__(self, part: spec.LanguageModel, memory_size: int | None = None) -> None:
        super().__init__()
        self._towers(part, memory_size)
        self.lm_head = H.LMHead(part.head, part.stack.hidden_size, part.embedding.vocab_size)

    def head(self, hidden: Tensor) -> Tensor:
        """Hidden states [.., E] -> logits [.., V]."""
        return self.lm_head(hidden, self.embedding.weight)

    def forward(
        self,
        ids: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        documents: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
        memory: Memory | None = None,
        hidden: bool = False,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, T, V], or with `hidden` the final hidden states [B, T, E].

        Args:
            ids: [B, T] int64; with a cache the new tokens only. inputs_embeds: [B, T, E] instead of ids.
            lengths: [B] valid tokens a row; the rest is padding on the right.
            positions: [T] or [B, T] absolute positions, if not simply counted.
            documents: [B, T] packed documents, runs of equal ids; tokens see their own only, and each counts from 0.
            mask: replaces the spec's masks in this pass (a Mask, or a bool tensor; True = may attend), and is joined
                with padding, documents and the slots of the cache that hold a token.

        Raises:
            InputError: what is told does not fit the batch; values are looked at on a CPU only, never on a GPU.
        """
        out, _ = self.states(ids, lengths, positions, segments, documents, mask, cache, memory, inputs_embeds)
        return out if hidden else self.head(out)


class Encoder(_Tower):
    """An encoder; `forward` gives the primary head's output, or the hidden states when there is no head."""

    def __init__(self, part: spec.Encoder) -> None:
        super().__init__()
        self._towers(part)
        size = part.stack.hidden_size
        self.heads = nn.ModuleDict()
        for head in part.heads:
            match head:
                case spec.LMHead():
                    self.heads["lm"] = H.LMHead(head, size, part.embedding.vocab_size)
                case spec.Pooler():
                    self.heads["pooler"] = H.Pooler(head, size)
                case spec.SequenceClassifier():
                    self.heads["sequence"] = H.SequenceClassifier(head, size)
                case spec.TokenClassifier():
                    self.heads["tokens"] = H.TokenClassifier(head, size)

    def forward(
        self,
        ids: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        documents: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        heads: tuple[str, ...] | None = None,
        hidden: bool = False,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """What the primary head gives; with `heads` a dictionary of those ("lm", "pooler", "sequence", "tokens")."""
        out, layout = self.states(ids, lengths, positions, segments, documents, mask, embeds=inputs_embeds)
        if hidden or (heads is None and not self.heads):
            return out
        names = (next(iter(self.heads)),) if heads is None else heads
        unknown = [n for n in names if n not in self.heads]
        if unknown:
            raise InputError(f"heads: the model has no {unknown[0]!r}; it has {', '.join(self.heads) or 'none'}")
        given = {name: self._head(name, out, layout) for name in names}
        return given if heads is not None else given[names[0]]

    def _head(self, name: str, hidden: Tensor, layout: Layout) -> Tensor:
        module = self.heads[name]
        if isinstance(module, H.LMHead):
            return module(hidden, self.embedding.weight)
        if isinstance(module, H.SequenceClassifier):
            pooled = self.heads["pooler"](hidden) if module.pool == "pooler" else None
            return module(hidden, pooled, layout.valid(hidden.shape[1]))
        return module(hidden)


class EncoderDecoder(nn.Module):
    """An encoder, and a decoder that attends to what it gives (arXiv:1706.03762)."""

    def __init__(self, part: spec.EncoderDecoder) -> None:
        super().__init__()
        self.spec = part
        self.encoder = Encoder(part.encoder)
        self.decoder = LanguageModel(part.decoder, memory_size=part.encoder.stack.hidden_size)
        if part.tied_embeddings:
            self.encoder.embedding.tokens = self.decoder.embedding.tokens
        self.tokenizer: Any = None
        self.source_tokenizer: Any = None

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    @property
    def dtype(self) -> torch.dtype:
        return self.decoder.dtype

    def new_cache(self, batch: int, capacity: int) -> Cache:
        """An empty cache of the decoder for `batch` sentences and at most `capacity` target tokens."""
        return self.decoder.new_cache(batch, capacity)

    def encode(self, source: Tensor, lengths: Tensor | None = None, documents: Tensor | None = None) -> Memory:
        """[B, S] source ids -> the memory for the decoder."""
        hidden, layout = self.encoder.states(source, lengths, documents=documents)
        return Memory(hidden, layout, source)

    def head(self, hidden: Tensor) -> Tensor:
        """Hidden states [.., E] -> logits [.., V]."""
        return self.decoder.head(hidden)

    def forward(
        self,
        ids: Tensor | None = None,
        *,
        source: Tensor | None = None,
        source_lengths: Tensor | None = None,
        source_documents: Tensor | None = None,
        memory: Memory | None = None,
        cache: Cache | None = None,
        **rest: Any,
    ) -> Tensor:
        """Logits [B, T, V] for target ids [B, T], which include the start token.

        Give `source` [B, S] (with `source_lengths` where rows are padded), or the `memory` of an earlier `encode`. With
        a cache, the memory of its first step is kept: later steps may leave both out. The other arguments are those of
        the decoder (LanguageModel.forward).

        Raises:
            InputError: neither is given, or another memory than that of the cache's first step.
        """
        kept = None if cache is None else cache.memory
        if memory is None and kept is not None and (source is None or source is kept.origin):
            memory = kept
        if memory is None:
            if source is None:
                raise InputError("an encoder-decoder needs source= (ids [batch, time]) or memory=")
            memory = self.encode(source, source_lengths, source_documents)
        return self.decoder(ids, memory=memory, cache=cache, **rest)


MODELS: dict[type, type[Any]] = {
    spec.LanguageModel: LanguageModel,
    spec.Encoder: Encoder,
    spec.EncoderDecoder: EncoderDecoder,
}
