"""From a few numbers to a spec: the shapes that recipes and examples name.

These are ordinary functions that return ordinary specs; whatever they leave out is changed with `dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from regard import spec as S
from regard.errors import InputError

NormPlace = Literal["pre", "post", "deepnorm"]


def encoder_decoder(
    vocab_size: int,
    hidden_size: int = 512,
    layers: int = 6,
    heads: int = 8,
    intermediate_size: int = 2048,
    dropout: float = 0.1,
    attention_dropout: float | None = None,
    activation_dropout: float = 0.0,
    norm: NormPlace = "post",
    activation: S.Activation = "relu",
    bias: bool = True,
    source_vocab_size: int | None = None,
    tied_embeddings: bool = True,
    tied_head: bool = True,
    encoder_layers: int | None = None,
    norm_eps: float = 1e-5,
) -> S.EncoderDecoder:
    """The 2017 Transformer (arXiv:1706.03762); norm = "pre" moves the norms before each sublayer.

    norm = "deepnorm" (arXiv:2203.00555) keeps them after it and scales the skip path; build it with init = "deepnorm".

    dropout: on embeddings and residual branches; attention_dropout: on attention weights (None: 0, as the paper's
    text has it); activation_dropout: inside the feed-forward part. tied_embeddings: source and target share one table.
    """
    head_dim = _head_dim(hidden_size, heads)
    mha = S.Attention(heads, head_dim, bias=bias, dropout=attention_dropout or 0.0)
    cross = S.CrossAttention(heads, head_dim, bias=bias, dropout=attention_dropout or 0.0)
    feed_forward = S.MLP(intermediate_size, activation, bias, activation_dropout)
    wrap = _Wrap(norm, S.LayerNorm(norm_eps), dropout)
    encoder_layer = wrap(replace(mha, mask=S.Everything()), feed_forward)
    decoder_layer = wrap(mha, cross, feed_forward)
    final = S.LayerNorm(norm_eps) if norm == "pre" else None

    def embed(size: int) -> S.Embedding:
        return S.Embedding(size, S.Sinusoidal(), scale=hidden_size**0.5, dropout=dropout)

    tied = tied_embeddings and source_vocab_size is None  # equal sizes do not make two vocabularies one
    depth = layers if encoder_layers is None else encoder_layers
    made = S.EncoderDecoder(
        S.Encoder(embed(source_vocab_size or vocab_size), S.Stack(hidden_size, (encoder_layer,) * depth, final)),
        S.LanguageModel(
            embed(vocab_size), S.Stack(hidden_size, (decoder_layer,) * layers, final), S.LMHead(tied=tied_head)
        ),
        tied_embeddings=tied,
    )
    return _deepnorm(made) if norm == "deepnorm" else made


def decoder(
    vocab_size: int,
    hidden_size: int = 768,
    layers: int = 12,
    heads: int = 12,
    intermediate_size: int | None = None,
    kv_heads: int | None = None,
    context: int = 1024,
    dropout: float = 0.0,
    positions: Literal["learned", "rotary", "alibi", "none"] = "learned",
    norm: Literal["layer", "rms"] = "layer",
    gated: bool = False,
    activation: S.Activation = "gelu_tanh",
    bias: bool = True,
    tied_head: bool = True,
) -> S.LanguageModel:
    """A pre-norm decoder: GPT-2's by default, LLaMA's with rotary, "rms", gated, "silu" and no bias."""
    attention = S.Attention(
        heads, _head_dim(hidden_size, heads), kv_heads, bias=bias, dropout=dropout,
        rotary=S.Rotary() if positions == "rotary" else None,
        score_bias=S.ALiBi() if positions == "alibi" else None,
    )  # fmt: skip
    size = intermediate_size or 4 * hidden_size
    feed_forward = S.GatedMLP(size, activation, bias) if gated else S.MLP(size, activation, bias)
    part = S.LayerNorm(bias=bias) if norm == "layer" else S.RMSNorm()
    layer = _Wrap("pre", part, dropout)(attention, feed_forward)
    position = S.Learned(context) if positions == "learned" else None
    return S.LanguageModel(
        S.Embedding(vocab_size, position, dropout=dropout),
        S.Stack(hidden_size, (layer,) * layers, part),
        S.LMHead(tied=tied_head),
    )


def encoder(
    vocab_size: int,
    hidden_size: int = 768,
    layers: int = 12,
    heads: int = 12,
    intermediate_size: int | None = None,
    context: int = 512,
    segments: int = 2,
    dropout: float = 0.1,
    activation: S.Activation = "gelu",
    heads_on_top: tuple[S.Head, ...] = (),
) -> S.Encoder:
    """A post-norm encoder of BERT's shape (arXiv:1810.04805)."""
    norm = S.LayerNorm(1e-12)
    attention = S.Attention(heads, _head_dim(hidden_size, heads), mask=S.Everything(), bias=True, dropout=dropout)
    layer = _Wrap("post", norm, dropout)(attention, S.MLP(intermediate_size or 4 * hidden_size, activation))
    embedding = S.Embedding(vocab_size, S.Learned(context), norm, segments=segments, dropout=dropout)
    return S.Encoder(embedding, S.Stack(hidden_size, (layer,) * layers), heads_on_top)


def _deepnorm(model: S.EncoderDecoder) -> S.EncoderDecoder:
    """A post-norm model with DeepNorm's residual scale alpha."""
    constants = deepnorm_constants(len(model.encoder.stack.layers), len(model.decoder.stack.layers))

    def scaled(stack: S.Stack, alpha: float) -> S.Stack:
        def scale(part: S.Residual | S.Parallel) -> S.Residual | S.Parallel:
            return replace(part, scale=alpha) if isinstance(part, S.Residual) else part

        return replace(stack, layers=tuple(tuple(map(scale, layer)) for layer in stack.layers))

    encoder = replace(model.encoder, stack=scaled(model.encoder.stack, constants["encoder"][0]))
    decoder = replace(model.decoder, stack=scaled(model.decoder.stack, constants["decoder"][0]))
    return replace(model, encoder=encoder, decoder=decoder)


def deepnorm_constants(encoder: int, decoder: int) -> dict[str, tuple[float, float]]:
    """(alpha, beta) of each side with N encoder and M decoder layers (arXiv:2203.00555, figure 2)."""
    n, m = encoder, decoder
    if n and m:
        return {
            "encoder": (0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16)),
            "decoder": ((3 * m) ** 0.25, (12 * m) ** -0.25),
        }
    layers = n or m
    return {"encoder" if n else "decoder": ((2 * layers) ** 0.25, (8 * layers) ** -0.25)}


SHAPES = {"encoder_decoder": encoder_decoder, "decoder": decoder, "encoder": encoder}


class _Wrap:
    """Puts bodies into residuals with the norm before or after."""

    def __init__(self, place: NormPlace, norm: S.Norm, dropout: float) -> None:
        self.norms: dict[str, Any] = {"pre_norm" if place == "pre" else "post_norm": norm}
        self.dropout = dropout

    def __call__(self, *parts: S.Body) -> S.Layer:
        return tuple(S.Residual(part, dropout=self.dropout, **self.norms) for part in parts)


def _head_dim(hidden_size: int, heads: int) -> int:
    if heads < 1 or hidden_size % heads:
        raise InputError(f"model: hidden_size {hidden_size} cannot be divided by {heads} heads; choose a multiple")
    return hidden_size // heads
