"""Random legal specs, and modules of them with no parameter at its neutral value."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st

import regard
from regard import mask as M
from regard import spec as S

# `make check-slow` raises the number of drawn specs
EXAMPLES = int(os.environ.get("REGARD_EXAMPLES", "40"))
law = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)

VOCAB = 13
LENGTH = 12

norms = st.one_of(
    st.builds(S.LayerNorm, eps=st.sampled_from([1e-5, 1e-3]), bias=st.booleans()),
    st.builds(S.RMSNorm, eps=st.sampled_from([1e-6, 1e-3]), offset=st.sampled_from([0.0, 1.0])),
)
maybe_norm = st.one_of(st.none(), norms)
activations = st.sampled_from(["relu", "gelu", "gelu_tanh", "silu", "relu2"])
biases = st.one_of(
    st.none(), st.just(S.ALiBi()), st.builds(S.RelativeBias, buckets=st.just(8), max_distance=st.just(9))
)
causal_masks = st.one_of(
    st.just(M.Causal()),
    st.builds(lambda n: M.Causal() & M.Window(n), st.integers(1, 6)),
    st.builds(lambda n, m: M.Causal() & (M.Window(n) | M.Prefix(m)), st.integers(1, 4), st.integers(1, 3)),
)
open_masks = st.one_of(
    st.just(M.Everything()),
    st.builds(M.Window, st.integers(1, 5)),
    st.builds(lambda n: ~(M.Causal() & M.Window(n)), st.integers(1, 3)),
)


@st.composite
def projections(draw: Any) -> dict[str, Any]:
    kv_heads = draw(st.sampled_from([1, 2]))
    return dict(
        heads=kv_heads * draw(st.sampled_from([1, 2, 3])),
        kv_heads=draw(st.sampled_from([kv_heads, kv_heads, None])),
        head_dim=draw(st.sampled_from([2, 4, 6])),
        qk_norm=draw(maybe_norm),
        qk_norm_over=draw(st.sampled_from(["head", "all"])),
        softcap=draw(st.sampled_from([None, None, 3.0])),
        scale=draw(st.sampled_from([None, None, 0.7])),
        bias=draw(st.booleans()),
        out_bias=draw(st.sampled_from([None, True, False])),
    )


@st.composite
def attentions(draw: Any, masks: Any = causal_masks, positions: bool = True) -> S.Attention:
    common = draw(projections())
    rotary = None
    if positions and draw(st.booleans()):
        dim = draw(st.sampled_from([None, 2]))
        rotary = S.Rotary(draw(st.sampled_from([100.0, 10000.0])), dim, draw(st.booleans()))
    return S.Attention(**common, mask=draw(masks), rotary=rotary, score_bias=draw(biases) if positions else None)


feed_forwards = st.one_of(
    st.builds(S.MLP, st.integers(1, 9), activations, st.booleans()),
    st.builds(S.GatedMLP, st.integers(1, 9), activations, st.booleans()),
)


@st.composite
def layers(draw: Any, masks: Any = causal_masks, cross: bool = False, positions: bool = True) -> S.Layer:
    parts: list[Any] = [attentions(masks, positions), feed_forwards]
    if cross:
        parts.insert(1, st.builds(lambda p: S.CrossAttention(**p), projections()))
    if draw(st.integers(0, 4)) == 0:
        branches = tuple(
            S.Residual(draw(p), draw(maybe_norm), draw(maybe_norm), branch_scale=draw(st.sampled_from([1.0, 0.5])))
            for p in parts
        )
        return (S.Parallel(branches, draw(maybe_norm)),)
    return tuple(
        S.Residual(
            draw(p), draw(maybe_norm), draw(maybe_norm), draw(maybe_norm),
            scale=draw(st.sampled_from([1.0, 1.5])), branch_scale=draw(st.sampled_from([1.0, 0.5])),
            skip=draw(st.sampled_from(["plain", "plain", "normed"])),
        )
        for p in parts
    )  # fmt: skip


@st.composite
def stacks(draw: Any, masks: Any = causal_masks, cross: bool = False, positions: bool = True) -> S.Stack:
    distinct = tuple(draw(st.lists(layers(masks, cross, positions), min_size=1, max_size=2)))
    order = draw(st.sampled_from([None, None, (0,) * 3]))
    stack = S.Stack(draw(st.sampled_from([6, 8])), distinct, draw(norms), order=order)
    heads = {b.heads for _, b in S.bodies(stack) if isinstance(b, S.Attention)}
    if positions and len(heads) == 1 and draw(st.booleans()):
        stack = dataclasses.replace(stack, score_bias=S.RelativeBias(8, 9, bidirectional=draw(st.booleans())))
    return stack


@st.composite
def embeddings(draw: Any, positions: bool = True) -> S.Embedding:
    kinds = [None, S.Learned(LENGTH + 4, 2), S.Sinusoidal(), S.Sinusoidal(interleaved=False)]
    position = draw(st.sampled_from(kinds)) if positions else None
    return S.Embedding(
        VOCAB, position, draw(maybe_norm), draw(st.sampled_from([1.0, 2.5])), draw(st.sampled_from([0, 2]))
    )


lm_heads = st.builds(
    S.LMHead, st.booleans(), st.booleans(), st.sampled_from([1.0, 0.5]), st.sampled_from([None, 4.0]),
    st.sampled_from([None, "gelu"]), maybe_norm,
)  # fmt: skip


@st.composite
def language_models(draw: Any, masks: Any = causal_masks, positions: bool = True) -> S.LanguageModel:
    return S.LanguageModel(draw(embeddings(positions)), draw(stacks(masks, positions=positions)), draw(lm_heads))


@st.composite
def encoders(draw: Any, positions: bool = True) -> S.Encoder:
    heads = draw(st.sampled_from([(), (S.LMHead(),), (S.Pooler(), S.SequenceClassifier(3)), (S.TokenClassifier(2),)]))
    return S.Encoder(draw(embeddings(positions)), draw(stacks(open_masks, positions=positions)), heads)


@st.composite
def encoder_decoders(draw: Any) -> S.EncoderDecoder:
    encoder, decoder = draw(encoders()), None
    decoder = S.LanguageModel(draw(embeddings()), draw(stacks(cross=True)), draw(lm_heads))
    tied = encoder.stack.hidden_size == decoder.stack.hidden_size and draw(st.booleans())
    return S.EncoderDecoder(dataclasses.replace(encoder, heads=()), decoder, tied)


models = st.one_of(language_models(), encoders(), encoder_decoders())


def make(spec: Any, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """A module in eval mode whose norms and biases have random values too: neutral ones would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    model = regard.build(spec, generator=generator, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=dtype), alpha=0.2)
    return model.eval()


def tokens(batch: int, length: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def call(model: Any, ids: torch.Tensor, **rest: Any) -> torch.Tensor:
    """The final hidden states of any model; an encoder-decoder gets a source made from the ids' own seed."""
    if isinstance(model.spec, S.EncoderDecoder) and "source" not in rest and "memory" not in rest:
        rest |= dict(source=tokens(ids.shape[0], 5, 7), source_lengths=torch.tensor([5, 3, 4, 5][: ids.shape[0]]))
    return model(ids, hidden=True, **rest)


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-10) -> None:
    """Relative difference max|a - b| / max|b|; NaN fails."""
    assert a.shape == b.shape, (a.shape, b.shape)
    a, b = a.detach(), b.detach()
    difference = (a - b).abs().max() if a.numel() else torch.tensor(0.0)
    assert difference <= tolerance * max(1.0, float(b.abs().max()) if b.numel() else 1.0), float(difference)
