"""Attention: softmax(cap(q k^T * scale + bias), masked) v, and the modules around it.

Dimension letters: B batch, T queries, S keys, H heads, K key-value heads, D head size, E hidden size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import spec
from regard.cache import CrossState, KVState
from regard.mask import Causal, whole_prefix
from regard.nn.body import Body
from regard.nn.dropout import Dropout
from regard.nn.hook import HookPoint, Watchable
from regard.nn.layout import Context, Visible
from regard.nn.linear import Linear
from regard.nn.norm import LayerNorm, RMSNorm
from regard.nn.position import ALiBi, RelativeBias, Rotary, wide


class Attend(Watchable):
    """softmax(cap(q k^T * scale + bias), masked) v.

    A query with no key left gives 0 (and finite gradients). What a query may not see changes nothing for it, bit for
    bit, whatever finite value it has; what no query of the row may see (padding, unused slots of a cache) may even be
    NaN. A key that another query of its row sees must be finite: its weight is 0 here, but 0 x NaN is NaN.
    The fused path is torch's scaled_dot_product_attention; `watched` (by `record`) and whatever it cannot do take
    the plain path, which is also the definition.
    """

    def __init__(self, scale: float, softcap: float | None, dropout: float) -> None:
        super().__init__()
        self.scale, self.softcap = scale, softcap
        self.scores, self.probs = HookPoint(), HookPoint()
        self.dropout = Dropout(dropout)

    def forward(self, q_BHTD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, visible: Visible, bias: Tensor | None) -> Tensor:
        """Returns [B, H, T, D]. bias: broadcastable to [B, H, T, S], added before the soft cap."""
        if self._fused(q_BHTD, k_BKSD, visible):
            return fused(q_BHTD, k_BKSD, v_BKSD, visible, bias, self.scale)
        return self.plain(q_BHTD, k_BKSD, v_BKSD, visible, bias)

    def _fused(self, q: Tensor, k: Tensor, visible: Visible) -> bool:
        """The rule: fused unless hooks, a soft cap or dropout need the weights.

        In half precision on a CPU, short training passes are plain too: the fused backward is slow there (17 ms
        against 2.9 at length 14 in bfloat16, while in float32 it takes half the plain path's time at any length).
        """
        if self.watched or self.softcap is not None or (self.training and self.dropout.rate > 0):
            return False
        if torch.compiler.is_compiling():
            return True  # the choice must not bind a graph to one length
        half = q.device.type == "cpu" and q.dtype in (torch.bfloat16, torch.float16)
        return not (half and q.requires_grad and k.shape[2] <= 128)

    def plain(self, q: Tensor, k: Tensor, v: Tensor, visible: Visible, bias: Tensor | None) -> Tensor:
        """The definition, step by step."""
        allowed = visible.tensor(q.shape[2], k.shape[2], q.device)
        if visible.allowed is not None and allowed is not None and not visible.clean:
            k, v = blank_unseen(k, v, allowed)
        groups = q.shape[1] // k.shape[1]
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        scores = (q * self.scale) @ k.mT
        if bias is not None:
            scores = scores + bias
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if allowed is not None:
            # A finite least value: with minus infinity a row without keys would be NaN, also in its gradients.
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        probs = torch.softmax(self.scores(scores), -1, dtype=wide(scores.dtype)).to(v.dtype)
        if allowed is not None and visible.empty_rows:
            probs = probs.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
        return self.dropout(self.probs(probs)) @ v


def fused(q: Tensor, k: Tensor, v: Tensor, visible: Visible, bias: Tensor | None, scale: float) -> Tensor:
    """The same through torch's fused kernels: q [B, H, T, D], k and v [B, K, S, D] -> [B, H, T, D]."""
    grouped = q.shape[1] != k.shape[1]
    if bias is None and visible.allowed is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=visible.causal, scale=scale, enable_gqa=grouped)
    allowed = visible.tensor(q.shape[2], k.shape[2], q.device)
    if visible.allowed is not None and allowed is not None and not visible.clean:
        k, v = blank_unseen(k, v, allowed)
    mask = allowed
    if bias is not None:
        least = torch.finfo(q.dtype).min
        mask = bias.to(q.dtype) if allowed is None else bias.to(q.dtype).masked_fill(~allowed, least)
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    elif allowed is not None and visible.empty_rows:
        # backends differ on rows without keys: let them see everything, and zero the result
        mask = allowed | ~allowed.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=grouped)
    if allowed is not None and visible.empty_rows:
        out = out.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
    return out


def blank_unseen(k: Tensor, v: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Zeroes the keys and values that no query may see, so that NaN there cannot leak (0 x NaN = NaN).

    allowed: [B or 1, H or 1, T, S].
    """
    unseen = ~allowed.any(2).any(1)[:, None, :, None]
    return k.masked_fill(unseen, 0.0), v.masked_fill(unseen, 0.0)


class _Projections(Body):
    """What self- and cross-attention share: the four projections, q/k norms and Attend."""

    def __init__(self, part: spec.Attention | spec.CrossAttention, size: int, key_size: int) -> None:
        super().__init__()
        kv_heads = part.kv_heads or part.heads
        self.heads, self.kv_heads, self.head_dim = part.heads, kv_heads, part.head_dim
        self.q = Linear(size, part.heads * part.head_dim, part.bias, "query")
        self.k = Linear(key_size, kv_heads * part.head_dim, part.bias, "key")
        self.v = Linear(key_size, kv_heads * part.head_dim, part.bias, "value")
        self.o = Linear(part.heads * part.head_dim, size, part.bias if part.out_bias is None else part.out_bias, "out")
        over_all = part.qk_norm_over == "all"
        self.norm_over_all = over_all
        self.q_norm = _norm(part.qk_norm, self.q.out_features if over_all else part.head_dim)
        self.k_norm = _norm(part.qk_norm, self.k.out_features if over_all else part.head_dim)
        self.attend = Attend(part.head_dim**-0.5 if part.scale is None else part.scale, part.softcap, part.dropout)

    def queries(self, x_BTE: Tensor) -> Tensor:
        return self._split(self.q(x_BTE), self.q_norm)

    def keys(self, x_BSE: Tensor) -> Tensor:
        return self._split(self.k(x_BSE), self.k_norm)

    def values(self, x_BSE: Tensor) -> Tensor:
        return self._split(self.v(x_BSE), None)

    def _split(self, x: Tensor, norm: nn.Module | None) -> Tensor:
        """[B, T, H * D] -> [B, T, H, D], normed if there is a norm."""
        if norm is not None and self.norm_over_all:
            x, norm = norm(x), None
        x = x.unflatten(-1, (-1, self.head_dim))
        return x if norm is None else norm(x)

    def join(self, y_BHTD: Tensor) -> Tensor:
        return self.o(y_BHTD.transpose(1, 2).flatten(-2))


class Attention(_Projections):
    """Self-attention; multi-head, grouped-query or multi-query by `kv_heads`."""

    def __init__(self, part: spec.Attention, size: int) -> None:
        super().__init__(part, size, size)
        self.mask, self.mask_key = part.mask, f"mask {part.mask!r}"
        # the mask that tells hypotheses apart replaces this one, which then must have said no more than "causal"
        self.shares_slots, self.whole_prefix = part.mask == Causal(), whole_prefix(part.mask)
        self.rotary = None if part.rotary is None else Rotary(part.rotary, part.head_dim)
        self.score_bias: ALiBi | RelativeBias | None = None
        if isinstance(part.score_bias, spec.ALiBi):
            self.score_bias = ALiBi(part.score_bias, part.heads)
        elif part.score_bias is not None:
            self.score_bias = RelativeBias(part.score_bias, part.heads)

    def new_state(self, batch: int, capacity: int) -> KVState:
        weight = self.k.weight
        return KVState(batch, self.kv_heads, capacity, self.head_dim, weight.dtype, weight.device)

    def forward(self, x_BTE: Tensor, context: Context, state: KVState | None = None) -> Tensor:
        q, k, v = self.queries(x_BTE), self.keys(x_BTE), self.values(x_BTE)
        if self.rotary is not None:
            q, k = self.rotary(q, context), self.rotary(k, context)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if state is not None:
            k, v = state.extend(k, v, context.start)
        bias = context.once("stack bias", lambda: None) if self.score_bias is None else self.score_bias(q, context)
        return self.join(self.attend(q, k, v, context.visible(self.mask, self.mask_key), bias))


class CrossAttention(_Projections):
    """Attention from the decoder's tokens to the encoder's memory; with a cache, keys and values are made once.

    It sees no other token of the decoder, so beams share the row of their sentence.
    """

    shares_slots = True
    whole_prefix = 0

    def __init__(self, part: spec.CrossAttention, size: int, memory_size: int) -> None:
        super().__init__(part, size, memory_size)

    def new_state(self, batch: int, capacity: int) -> CrossState:
        return CrossState()

    def forward(self, x_BTE: Tensor, context: Context, state: CrossState | None = None) -> Tensor:
        q = self.queries(x_BTE).transpose(1, 2)
        if state is not None and state.k is not None and state.v is not None:
            k, v = state.k, state.v
        else:
            assert context.memory is not None
            k = self.keys(context.memory.hidden).transpose(1, 2)
            v = self.values(context.memory.hidden).transpose(1, 2)
            if state is not None:
                state.k, state.v = k, v = k.contiguous(), v.contiguous()
        return self.join(self.attend(q, k, v, context.memory_visible(), None))


def _norm(part: spec.Norm | None, size: int) -> nn.Module | None:
    match part:
        case None:
            return None
        case spec.LayerNorm():
            return LayerNorm(part, size)
        case spec.RMSNorm():
            return RMSNorm(part, size)
