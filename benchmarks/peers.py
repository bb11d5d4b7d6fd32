"""The same encoder-decoder in regard, torch.nn.Transformer and transformers' Marian classes.

All have sinusoidal positions, one table for source, target and output, norms after each sublayer, ReLU, and dropout at
the same four places: embeddings, attention weights, residual branches, inside the feed-forward part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from regard import shapes
from regard.data.batches import IGNORED, PairBatch
from regard.nn import build, set_generator
from regard.nn.heads import head_loss
from regard.nn.position import Sinusoidal
from regard.spec import Sinusoidal as SinusoidalSpec

SMOOTHING = 0.1


@dataclass(frozen=True)
class Shape:
    """What the contestants have in common."""

    vocab_size: int = 8000
    hidden_size: int = 256
    layers: int = 3
    heads: int = 8
    intermediate_size: int = 1024
    dropout: float = 0.1
    longest: int = 256


class Contestant(nn.Module):
    """A model and its loss: `forward(batch)` gives the sum over the target tokens of the smoothed cross-entropy."""

    def forward(self, batch: PairBatch) -> Tensor:
        raise NotImplementedError

    @property
    def parameter_count(self) -> int:
        """Trained parameters, each counted once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class Regard(Contestant):
    """regard's encoder-decoder with its fused projection and loss."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        s = shape
        spec = shapes.encoder_decoder(
            s.vocab_size, s.hidden_size, s.layers, s.heads, s.intermediate_size, s.dropout,
            attention_dropout=s.dropout, activation_dropout=s.dropout,
        )  # fmt: skip
        self.model = build(spec, generator=torch.Generator().manual_seed(0))
        set_generator(self.model, torch.Generator().manual_seed(0))

    def forward(self, batch: PairBatch) -> Tensor:
        hidden = self.model(
            batch.inputs, source=batch.source, source_lengths=batch.source_lengths, lengths=batch.lengths, hidden=True
        )
        return head_loss(self.model, hidden, batch.labels, SMOOTHING)[0]


class TorchTransformer(Contestant):
    """torch.nn.Transformer with what it leaves to its user, and masks in its fastest form.

    The decoder gets no mask for its padding: the causal mask hides that from all tokens that count. The final norms
    that nn.Transformer adds after norms are left out, so that it computes exactly what the others compute.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        s = shape
        layer = (s.hidden_size, s.heads, s.intermediate_size, s.dropout)
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*layer, batch_first=True), s.layers, enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*layer, batch_first=True), s.layers)
        self.transformer = nn.Transformer(
            s.hidden_size, s.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        self.embedding = nn.Embedding(s.vocab_size, s.hidden_size)
        nn.init.normal_(self.embedding.weight, 0, s.hidden_size**-0.5)
        table = Sinusoidal(SinusoidalSpec(), s.hidden_size)(torch.arange(s.longest), torch.float32)
        self.positions: Tensor
        self.register_buffer("positions", table)
        self.dropout = nn.Dropout(s.dropout)
        self.scale = math.sqrt(s.hidden_size)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, batch: PairBatch) -> Tensor:
        padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
        causal = torch.ones(batch.inputs.shape[1], batch.inputs.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            self.embed(batch.source),
            self.embed(batch.inputs),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return smoothed_loss(F.linear(hidden, self.embedding.weight), batch.labels)


class Marian(Contestant):
    """transformers' MarianMTModel from random values. attention: "sdpa" or "eager"."""

    def __init__(self, shape: Shape, attention: str) -> None:
        super().__init__()
        s = shape
        config = MarianConfig(
            vocab_size=s.vocab_size, decoder_vocab_size=s.vocab_size, d_model=s.hidden_size,
            encoder_layers=s.layers, decoder_layers=s.layers,
            encoder_attention_heads=s.heads, decoder_attention_heads=s.heads,
            encoder_ffn_dim=s.intermediate_size, decoder_ffn_dim=s.intermediate_size, activation_function="relu",
            dropout=s.dropout, attention_dropout=s.dropout, activation_dropout=s.dropout,
            scale_embedding=True, share_encoder_decoder_embeddings=True, tie_word_embeddings=True,
            max_position_embeddings=s.longest, use_cache=False,
            pad_token_id=0, eos_token_id=2, decoder_start_token_id=1,
        )  # fmt: skip
        self.model = MarianMTModel(config)
        self.model.set_attn_implementation(attention)

    def forward(self, batch: PairBatch) -> Tensor:
        mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]).long()
        out = self.model(input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.inputs, use_cache=False)
        return smoothed_loss(out.logits, batch.labels)


def smoothed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """torch's own smoothed cross-entropy, summed over the labels that count."""
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING, ignore_index=IGNORED, reduction="sum"
    )


CONTESTANTS: dict[str, Callable[[Shape], Contestant]] = {
    "regard": Regard,
    "nn.Transformer": TorchTransformer,
    "Marian (sdpa)": lambda shape: Marian(shape, "sdpa"),
    "Marian (eager)": lambda shape: Marian(shape, "eager"),
}


def assert_alike(contestants: dict[str, Contestant], batch: PairBatch) -> dict[str, float]:
    """The loss a token of each contestant before training; raises AssertionError unless sizes and losses are alike.

    Sizes may differ by 2 %, and every loss must be near ln(vocabulary), the loss of knowing nothing: at most 1 nat over
    it (scores of unit variance cost half a nat).
    """
    sizes = {name: c.parameter_count for name, c in contestants.items()}
    assert max(sizes.values()) <= 1.02 * min(sizes.values()), f"parameters differ by more than 2 %: {sizes}"
    with torch.no_grad():
        losses = {name: c.eval()(batch).item() / batch.tokens for name, c in contestants.items()}
    for c in contestants.values():
        c.train()
    chance = math.log(Shape.vocab_size)
    assert all(chance - 0.5 < loss < chance + 1 for loss in losses.values()), f"losses at start: {losses}"
    return losses
