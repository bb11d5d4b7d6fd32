"""Positions, at the three places where they act: the embedding, queries and keys, the scores.

Angles and codes are computed in float32 (float64 in float64 models) from integer positions, whatever the model's
dtype, and only the finished sines and cosines are cast: in bfloat16 positions 256 and 257 would be the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard import spec
from regard.errors import InputError
from regard.nn.layout import Context


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype for phases and statistics: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


# ---- at the embedding -----------------------------------------------------------------------------------------------


class Sinusoidal(nn.Module):
    """PE(pos, 2i) = sin(pos / base^(2i/E)), PE(pos, 2i+1) = cos(the same) (arXiv:1706.03762, section 3.5)."""

    def __init__(self, part: spec.Sinusoidal, size: int) -> None:
        super().__init__()
        self.base, self.interleaved, self.size = part.base, part.interleaved, size

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """[..] int positions -> [.., E]."""
        exponent = torch.arange(0, self.size, 2, dtype=wide(dtype), device=positions.device) / self.size
        angles = positions[..., None].to(wide(dtype)) * self.base**-exponent
        sin, cos = angles.sin(), angles.cos()[..., : self.size // 2]
        if not self.interleaved:
            return torch.cat([sin, cos], -1).to(dtype)
        code = positions.new_zeros((*positions.shape, self.size), dtype=wide(dtype))
        code[..., 0::2], code[..., 1::2] = sin, cos
        return code.to(dtype)


class Learned(nn.Module):
    """A table of position vectors [length + offset, E]."""

    def __init__(self, part: spec.Learned, size: int) -> None:
        super().__init__()
        self.length, self.offset = part.length, part.offset
        self.weight = nn.Parameter(torch.empty(part.length + part.offset, size))

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return nn.functional.embedding(positions + self.offset, self.weight)

    def check(self, end: int) -> None:
        """Raises InputError when a text reaches past the table."""
        if end > self.length:
            raise InputError(
                f"the text has {end} tokens, the model's learned positions end at {self.length}; shorten it"
            )


# ---- at queries and keys --------------------------------------------------------------------------------------------


class Rotary(nn.Module):
    """Rotates pairs of dimensions by position * base^(-2i/dim) (arXiv:2104.09864, eq. 34)."""

    def __init__(self, part: spec.Rotary, head_dim: int) -> None:
        super().__init__()
        self.base, self.dim, self.interleaved = part.base, part.dim or head_dim, part.interleaved
        self.key = ("rotary", repr(part), self.dim)

    def frequencies(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[dim/2] radians a position."""
        return self.base ** -(torch.arange(0, self.dim, 2, dtype=dtype, device=device) / self.dim)

    def turns(self, context: Context, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin of the new tokens' angles, [T, 1, dim/2] or [B, T, 1, dim/2]; once a forward pass."""

        def make() -> tuple[Tensor, Tensor]:
            positions = context.layout.positions
            angles = positions[..., None].to(wide(dtype)) * self.frequencies(wide(dtype), positions.device)
            return angles.cos().to(dtype)[..., None, :], angles.sin().to(dtype)[..., None, :]

        return context.once((*self.key, dtype), make)

    def forward(self, x_BTHD: Tensor, context: Context) -> Tensor:
        cos, sin = self.turns(context, x_BTHD.dtype)
        return rotate(x_BTHD, cos, sin, self.interleaved)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Turns the first 2 * cos.shape[-1] dimensions of x; pairs are neighbours if interleaved, else halves."""
    dim = 2 * cos.shape[-1]
    turned, rest = x[..., :dim], x[..., dim:]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    first, second = a * cos - b * sin, b * cos + a * sin
    y = torch.stack([first, second], -1).flatten(-2) if interleaved else torch.cat([first, second], -1)
    return torch.cat([y, rest], -1) if rest.shape[-1] else y


# ---- at the scores --------------------------------------------------------------------------------------------------


def alibi_slopes(heads: int) -> list[float]:
    """One slope a head: 2^(-8 i / n) for n a power of two; else the lower power's, and every other of the next."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes + [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (heads - power), 2)]


class ALiBi(nn.Module):
    """-slope * |i - j| (arXiv:2108.12409)."""

    def __init__(self, part: spec.ALiBi, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)
        self.key = ("alibi", heads)

    def forward(self, q_BHTD: Tensor, context: Context) -> Tensor:
        """[H, T, S] or [B, H, T, S]."""

        def make() -> Tensor:
            distance = context.distances().abs().to(wide(q_BHTD.dtype))
            slopes = torch.tensor(self.slopes, dtype=distance.dtype, device=distance.device)
            return (-slopes[:, None, None] * distance).to(q_BHTD.dtype)

        return context.once((*self.key, q_BHTD.dtype), make)


class RelativeBias(nn.Module):
    """A learned bias for each bucket of distances and each head (arXiv:1910.10683, section 2.1)."""

    def __init__(self, part: spec.RelativeBias, heads: int) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.bidirectional = part.buckets, part.max_distance, part.bidirectional
        self.weight = nn.Parameter(torch.empty(part.buckets, heads))

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance (key - query): near ones exactly, farther ones on a logarithmic scale."""
        buckets, offset = self.buckets, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            offset = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        # float32 as in the published models: the borders of the buckets depend on its rounding
        ratio = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(distance < exact, distance, far)

    def forward(self, q_BHTD: Tensor | None, context: Context) -> Tensor:
        """[H, T, S] or [B, H, T, S]."""
        bias = nn.functional.embedding(self.bucket(context.distances()), self.weight)
        return bias.movedim(-1, 0) if bias.ndim == 3 else bias.squeeze(1).movedim(-1, 1)
