"""What a model is, as frozen values. No torch here.

A model is a tree of parts that can be printed, compared, diffed and written as JSON. `nn.build` turns every part into
the one module class that corresponds to it. The residual is written once, with norms in three possible places:

    x  ->  post_norm( scale * x  +  branch_scale * branch_norm( body( pre_norm(x) ) ) )

A position scheme acts at one of three places, and the place is the slot it is put in: `Embedding(position=...)`,
`Attention(rotary=...)`, `Attention(score_bias=...)` or, one table for all layers, `Stack(score_bias=...)`.
Impossible sizes are refused when a part is made, with `FieldError` (a ValueError) that names the field.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from regard.mask import Causal, Everything, Mask
from regard.values import FieldError, Tagged, convert, to_dict

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"]


def _check(good: bool, field: str, problem: str) -> None:
    if not good:
        raise FieldError(problem, field)


def _sizes(part: Any, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        _check(value is None or value >= 1, name, f"got {value}, must be at least 1")


def _rates(part: Any, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        _check(0.0 <= value < 1.0, name, f"got {value}, a dropout rate lies in [0, 1)")


class Part(Tagged):
    """Base of everything a model is made of."""


# ---- norms ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerNorm(Part):
    """(x - mean) / sqrt(var + eps) * weight + bias  (arXiv:1607.06450)."""

    eps: float = 1e-5
    bias: bool = True


@dataclass(frozen=True)
class RMSNorm(Part):
    """x / sqrt(mean(x^2) + eps) * (offset + weight)  (arXiv:1910.07467). `offset` is 1 where weights start at 0."""

    eps: float = 1e-6
    offset: float = 0.0


Norm = LayerNorm | RMSNorm

# ---- positions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sinusoidal(Part):
    """sin and cos of position / base^(2i/E), added to the embedding (arXiv:1706.03762, section 3.5).

    `interleaved`: sine and cosine alternate, as in the paper; otherwise all sines, then all cosines.
    """

    base: float = 10000.0
    interleaved: bool = True


@dataclass(frozen=True)
class Learned(Part):
    """One learned vector a position, for positions 0 .. length - 1; `offset` rows stand unused before them."""

    length: int
    offset: int = 0

    def __post_init__(self) -> None:
        _sizes(self, "length")


@dataclass(frozen=True)
class Rotary(Part):
    """Queries and keys are rotated by an angle that grows with the position (arXiv:2104.09864).

    `dim`: how many of the head's dimensions turn (None: all). `interleaved`: pairs are neighbours (2i, 2i+1);
    otherwise dimension i is paired with i + dim/2.
    """

    base: float = 10000.0
    dim: int | None = None
    interleaved: bool = False

    def __post_init__(self) -> None:
        _sizes(self, "dim")
        _check(self.base > 0, "base", f"got {self.base}, must be positive")
        _check(self.dim is None or self.dim % 2 == 0, "dim", f"got {self.dim}, rotary dimensions come in pairs (even)")


@dataclass(frozen=True)
class ALiBi(Part):
    """-slope * |i - j| added to the scores, one slope a head (arXiv:2108.12409)."""


@dataclass(frozen=True)
class RelativeBias(Part):
    """A learned bias for each bucket of distances and each head (T5, arXiv:1910.10683, section 2.1)."""

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = False

    def __post_init__(self) -> None:
        least = 4 if self.bidirectional else 2
        _check(
            self.buckets >= least and self.buckets % 2 == 0, "buckets", f"got {self.buckets}, must be even, >= {least}"
        )
        exact = self.buckets // (4 if self.bidirectional else 2)
        _check(
            self.max_distance > exact, "max_distance", f"got {self.max_distance}, must exceed {exact} (exact buckets)"
        )


# ---- mixers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attention(Part):
    """Self-attention: multi-head, grouped-query (kv_heads < heads) or multi-query (kv_heads = 1).

    bias: on q, k and v; out_bias: on the output projection (None: as `bias`). scale: None means head_dim^-0.5.
    softcap: cap * tanh(score / cap). qk_norm: applied to each head's query and key, or to the whole projection with
    qk_norm_over = "all". dropout: on the attention weights.
    """

    heads: int
    head_dim: int
    kv_heads: int | None = None
    mask: Mask = Causal()
    rotary: Rotary | None = None
    score_bias: ALiBi | RelativeBias | None = None
    qk_norm: LayerNorm | RMSNorm | None = None
    qk_norm_over: Literal["head", "all"] = "head"
    softcap: float | None = None
    scale: float | None = None
    bias: bool = False
    out_bias: bool | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_heads(self)
        if self.rotary is not None:
            dim = self.rotary.dim or self.head_dim
            _check(dim % 2 == 0, "head_dim", f"got {dim}, rotary dimensions come in pairs (even)")
            _check(dim <= self.head_dim, "rotary.dim", f"got {dim}, more than head_dim {self.head_dim}")


@dataclass(frozen=True)
class CrossAttention(Part):
    """Attention whose keys and values come from an encoder's memory; fields as in Attention."""

    heads: int
    head_dim: int
    kv_heads: int | None = None
    qk_norm: LayerNorm | RMSNorm | None = None
    qk_norm_over: Literal["head", "all"] = "head"
    softcap: float | None = None
    scale: float | None = None
    bias: bool = False
    out_bias: bool | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_heads(self)


def _check_heads(part: Attention | CrossAttention) -> None:
    _sizes(part, "heads", "head_dim", "kv_heads")
    _rates(part, "dropout")
    kv_heads = part.kv_heads or part.heads
    problem = f"{part.heads} query heads cannot share {kv_heads} kv heads; heads must be a multiple of kv_heads"
    _check(part.heads % kv_heads == 0, "kv_heads", problem)
    _check(part.softcap is None or part.softcap > 0, "softcap", f"got {part.softcap}, must be positive")


# ---- feed-forward ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MLP(Part):
    """down(activation(up(x))); dropout on the inner activations."""

    intermediate_size: int
    activation: Activation = "gelu"
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _sizes(self, "intermediate_size")
        _rates(self, "dropout")


@dataclass(frozen=True)
class GatedMLP(Part):
    """down(activation(gate(x)) * up(x)): SwiGLU with silu, GeGLU with gelu, ReGLU with relu (arXiv:2002.05202)."""

    intermediate_size: int
    activation: Activation = "silu"
    bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _sizes(self, "intermediate_size")
        _rates(self, "dropout")


Body = Attention | CrossAttention | MLP | GatedMLP

# ---- wiring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Residual(Part):
    """One sublayer: post_norm(scale * x + branch_scale * branch_norm(body(pre_norm(x)))).

    skip = "normed": the skip path starts after pre_norm. dropout: on the branch, before it is added.
    """

    body: Attention | CrossAttention | MLP | GatedMLP
    pre_norm: LayerNorm | RMSNorm | None = None
    branch_norm: LayerNorm | RMSNorm | None = None
    post_norm: LayerNorm | RMSNorm | None = None
    scale: float = 1.0
    branch_scale: float = 1.0
    skip: Literal["plain", "normed"] = "plain"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _rates(self, "dropout")


@dataclass(frozen=True)
class Parallel(Part):
    """Several branches read the same x and are added together: x + sum of branches. `pre_norm` is shared by all.

    Each branch is a Residual of which only body, pre_norm, branch_norm, branch_scale and dropout are used.
    """

    branches: tuple[Residual, ...]
    pre_norm: LayerNorm | RMSNorm | None = None

    def __post_init__(self) -> None:
        _check(len(self.branches) >= 1, "branches", "at least one branch is needed")
        plain = all(b.post_norm is None and b.scale == 1.0 and b.skip == "plain" for b in self.branches)
        _check(plain, "branches", "a branch has no skip path of its own: leave post_norm, scale and skip out")


Layer = tuple[Residual | Parallel, ...]


@dataclass(frozen=True)
class Stack(Part):
    """The layers in order, over a residual stream of `hidden_size`.

    final_norm: after the last layer. score_bias: one table for every layer. order: which layer runs at each step, for
    shared layers ((0, 0, 0) runs the first three times); None: each once.
    """

    hidden_size: int
    layers: tuple[tuple[Residual | Parallel, ...], ...]
    final_norm: LayerNorm | RMSNorm | None = None
    score_bias: RelativeBias | None = None
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _sizes(self, "hidden_size")
        for step, index in enumerate(self.order or ()):
            known = f"got {index}, layers are 0 .. {len(self.layers) - 1}"
            _check(0 <= index < len(self.layers), f"order[{step}]", known)
        if self.score_bias is not None:
            heads = {body.heads for _, body in bodies(self) if isinstance(body, Attention)}
            _check(
                len(heads) == 1, "score_bias", f"one table needs one number of heads, the layers have {sorted(heads)}"
            )


@dataclass(frozen=True)
class Embedding(Part):
    """Token vectors: dropout(norm(scale * token + position + segment)). `segments`: how many token types (0: none)."""

    vocab_size: int
    position: Sinusoidal | Learned | None = None
    norm: LayerNorm | RMSNorm | None = None
    scale: float = 1.0
    segments: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _sizes(self, "vocab_size")
        _rates(self, "dropout")


# ---- heads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LMHead(Part):
    """Hidden states to vocabulary scores: softcap(scale * (h W^T + bias)).

    tied: W is the embedding's matrix and the head owns none. transform: an activation after a square projection, and
    transform_norm after that (BERT).
    """

    tied: bool = True
    bias: bool = False
    scale: float = 1.0
    softcap: float | None = None
    transform: Activation | None = None
    transform_norm: LayerNorm | RMSNorm | None = None


@dataclass(frozen=True)
class Pooler(Part):
    """tanh(W h_first + b): one vector a row from its first token."""


@dataclass(frozen=True)
class SequenceClassifier(Part):
    """Scores of `labels` classes a row: from the pooler's vector, the first token, or the mean of its tokens."""

    labels: int
    pool: Literal["pooler", "first", "mean"] = "pooler"
    dropout: float = 0.0


@dataclass(frozen=True)
class TokenClassifier(Part):
    """Scores of `labels` classes for each token."""

    labels: int
    dropout: float = 0.0


Head = LMHead | Pooler | SequenceClassifier | TokenClassifier

# ---- models ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageModel(Part):
    """A decoder: embedding, stack, head. On its own, or as the decoder of an EncoderDecoder."""

    embedding: Embedding
    stack: Stack
    head: LMHead = LMHead()


@dataclass(frozen=True)
class Encoder(Part):
    """An encoder with any number of heads; the first is the primary one. Without heads it gives its hidden states."""

    embedding: Embedding
    stack: Stack
    heads: tuple[LMHead | Pooler | SequenceClassifier | TokenClassifier, ...] = ()

    def __post_init__(self) -> None:
        kinds = [type(h) for h in self.heads]
        _check(len(kinds) == len(set(kinds)), "heads", "two heads of the same kind")
        pooled = any(isinstance(h, SequenceClassifier) and h.pool == "pooler" for h in self.heads)
        _check(not pooled or Pooler in kinds, "heads", 'a SequenceClassifier with pool = "pooler" needs a Pooler')


@dataclass(frozen=True)
class EncoderDecoder(Part):
    """The 2017 Transformer and its kin. tied_embeddings: one token table serves source and target."""

    encoder: Encoder
    decoder: LanguageModel
    tied_embeddings: bool = False

    def __post_init__(self) -> None:
        source, target = self.encoder.embedding.vocab_size, self.decoder.embedding.vocab_size
        sizes = self.encoder.stack.hidden_size, self.decoder.stack.hidden_size
        fits = not self.tied_embeddings or (source == target and sizes[0] == sizes[1])
        _check(fits, "tied_embeddings", f"one table needs equal vocabularies ({source}, {target}) and widths {sizes}")


Model = LanguageModel | Encoder | EncoderDecoder

# ---- reading, writing, comparing ------------------------------------------------------------------------------------


def dump(spec: Any) -> Any:
    """The spec as plain dictionaries and lists; runs of equal layers are folded to {repeat, layer}."""
    return _fold(to_dict(spec))


def parse(data: Any, path: str = "") -> Any:
    """The spec of a dictionary as `dump` writes it (or as a recipe's TOML gives it).

    Raises:
        FieldError: unknown keys, wrong types and impossible sizes, with the path of the field.
    """
    return convert(Part, _unfold(data, path), path)


def dumps(spec: Any) -> str:
    """The spec as JSON text."""
    return json.dumps(dump(spec), indent=1)


def loads(text: str) -> Any:
    """The spec of a JSON text; FieldError when it is not one."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FieldError(f"not JSON: {error}") from error
    return parse(data)


def diff(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    """Where two specs differ: {path: (value in a, value in b)}. The same change in every layer is one entry (`[*]`)."""
    found: dict[str, tuple[Any, Any]] = {}
    for path, left, right in _differences(a, b, ""):
        found.setdefault(path, (left, right))
    return found


def bodies(spec: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every mixer and feed-forward part below `spec`, with its path, in order (shared layers once)."""
    if isinstance(spec, Residual):
        yield f"{path}.body".lstrip("."), spec.body
    elif dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        for f in dataclasses.fields(spec):
            yield from bodies(getattr(spec, f.name), f"{path}.{f.name}".lstrip("."))
    elif isinstance(spec, tuple):
        for i, item in enumerate(spec):
            yield from bodies(item, f"{path}[{i}]")


def _differences(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if a == b:
        return
    if type(a) is type(b) and dataclasses.is_dataclass(a):
        for f in dataclasses.fields(a):
            yield from _differences(getattr(a, f.name), getattr(b, f.name), f"{path}.{f.name}".lstrip("."))
    elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        each = [list(_differences(x, y, "")) for x, y in zip(a, b, strict=True)]
        same = len(a) > 1 and all(e == each[0] for e in each)
        for i, changes in enumerate(each[:1] if same else each):
            for inner, left, right in changes:
                joiner = "" if not inner or inner.startswith("[") else "."
                yield f"{path}[{'*' if same else i}]{joiner}{inner}", left, right
    else:
        yield path, a, b


def _fold(data: Any) -> Any:
    if isinstance(data, dict):
        folded = {k: _fold(v) for k, v in data.items()}
        if isinstance(folded.get("layers"), list):
            folded["layers"] = _fold_layers(folded["layers"])
        return folded
    return [_fold(v) for v in data] if isinstance(data, list) else data


def _fold_layers(layers: list[Any]) -> list[Any]:
    runs: list[list[Any]] = []
    for layer in layers:
        if runs and runs[-1][0] == layer:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return [{"repeat": len(run), "layer": run[0]} if len(run) > 1 else run[0] for run in runs]


def _unfold(data: Any, path: str) -> Any:
    if isinstance(data, dict):
        return {k: _unfold(v, f"{path}.{k}".lstrip(".")) for k, v in data.items()}
    if not isinstance(data, list):
        return data
    out: list[Any] = []
    for i, item in enumerate(data):
        here = f"{path}[{i}]"
        if isinstance(item, dict) and "repeat" in item:
            times = item["repeat"]
            fits = type(times) is int and 1 <= times <= 10_000 and set(item) == {"repeat", "layer"}
            _check(fits, here, "a repeated layer is {repeat = 1 .. 10000, layer = [...]}")
            out.extend([_unfold(item["layer"], f"{here}.layer")] * times)
        else:
            out.append(_unfold(item, here))
    return out


__all__ = [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Part)] + [
    "Causal", "Everything", "bodies", "diff", "dump", "dumps", "loads", "parse",
]  # fmt: skip
