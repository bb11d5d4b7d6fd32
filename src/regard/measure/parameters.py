"""Every parameter of a model, by name and shape, from the spec alone.

The names are those of the built module's `named_parameters()` (a tied table once, under its first name), so the count
can be held against the module, and a checkpoint can be judged without building anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from regard import spec as S

Shape = tuple[int, ...]
Named = Iterator[tuple[str, Shape]]

ROLES = {S.Attention: "attention", S.CrossAttention: "cross_attention", S.MLP: "mlp", S.GatedMLP: "mlp"}


def parameter_shapes(spec: S.Model) -> dict[str, Shape]:
    """{name: shape} of every trainable tensor, tied ones once."""
    if isinstance(spec, S.EncoderDecoder):
        shapes = {f"encoder.{n}": s for n, s in _tower(spec.encoder)}
        memory_size = spec.encoder.stack.hidden_size
        shapes |= {f"decoder.{n}": s for n, s in _tower(spec.decoder, memory_size)}
        if spec.tied_embeddings:
            del shapes["decoder.embedding.tokens.weight"]
        return shapes
    return dict(_tower(spec))


def total_parameters(spec: S.Model) -> int:
    """How many numbers are trained; tied weights count once."""
    return sum(math.prod(shape) for shape in parameter_shapes(spec).values())


def count_parameters(spec: S.Model) -> dict[str, int]:
    """{part: parameters}, in reading order; the values add up to `total_parameters`.

    Parts are named by what they are for ("attention", "mlp", "norms" ...), with "encoder." or "decoder." before them
    where there are two; "embedding" alone is a table that both sides share.
    """
    counts: dict[str, int] = {}
    order = ("embedding", "position", "segments", "score_bias", "attention", "cross_attention", "mlp", "norms", "head")
    shared = isinstance(spec, S.EncoderDecoder) and spec.tied_embeddings
    for name, shape in parameter_shapes(spec).items():
        part = "embedding" if shared and ".embedding.tokens." in name else _part(name)
        counts[part] = counts.get(part, 0) + math.prod(shape)

    def place(part: str) -> tuple[bool, bool, int]:
        return part.startswith("decoder."), "." in part, order.index(part.rpartition(".")[2])

    return {part: counts[part] for part in sorted(counts, key=place)}


def folded_shapes(spec: S.Model) -> dict[str, Shape]:
    """`parameter_shapes` with equal layers on one line: `stack.layers.0-5.attention.q.weight`."""
    shapes = parameter_shapes(spec)
    families: dict[tuple[str, str, Shape], list[int]] = {}
    lines: list[tuple[str, str, Shape] | str] = []
    for name, shape in shapes.items():
        match = re.fullmatch(r"(.*layers\.)(\d+)(\..*)", name)
        if match is None:
            lines.append(name)
            continue
        family = (match[1], match[3], shape)
        if family not in families:
            families[family] = []
            lines.append(family)
        families[family].append(int(match[2]))
    return {
        line if isinstance(line, str) else f"{line[0]}{ranges(families[line])}{line[1]}": (
            shapes[line] if isinstance(line, str) else line[2]
        )
        for line in lines
    }


def body_shapes(body: S.Body, size: int, memory_size: int | None = None) -> dict[str, Shape]:
    """{name: shape} of one mixer or feed-forward part over a stream of width `size`."""
    return dict(_body(body, size, size if memory_size is None else memory_size))


def ranges(numbers: list[int]) -> str:
    """Ascending numbers as text: [0, 1, 2, 5] -> "0-2,5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _part(name: str) -> str:
    tower, rest = re.fullmatch(r"((?:encoder|decoder)\.)?(.*)", name).groups("")  # type: ignore[union-attr]
    if rest.startswith("embedding."):
        part = {"tokens": "embedding", "norm": "norms"}.get(rest.split(".")[1], rest.split(".")[1])
    elif rest.startswith("stack.layers."):
        role = re.sub(r"_\d+$", "", rest.split(".")[3])
        part = "norms" if role.endswith("_residual") or role == "parallel" else role
    elif rest.startswith("stack."):
        part = "norms" if "final_norm" in rest else "score_bias"
    else:
        part = "head"
    return tower + part


def _tower(part: S.LanguageModel | S.Encoder, memory_size: int | None = None) -> Named:
    size = part.stack.hidden_size
    yield from _embedding(part.embedding, size)
    if part.stack.score_bias is not None:
        heads = next(body.heads for _, body in S.bodies(part.stack) if isinstance(body, S.Attention))
        yield "stack.score_bias.weight", (part.stack.score_bias.buckets, heads)
    for i, layer in enumerate(part.stack.layers):
        yield from _under(f"stack.layers.{i}", _layer(layer, size, size if memory_size is None else memory_size))
    yield from _norm("stack.final_norm", part.stack.final_norm, size)
    if isinstance(part, S.LanguageModel):
        yield from _under("lm_head", _head(part.head, size, part.embedding.vocab_size))
    else:
        names = {S.LMHead: "lm", S.Pooler: "pooler", S.SequenceClassifier: "sequence", S.TokenClassifier: "tokens"}
        for head in part.heads:
            yield from _under(f"heads.{names[type(head)]}", _head(head, size, part.embedding.vocab_size))


def _embedding(part: S.Embedding, size: int) -> Named:
    yield "embedding.tokens.weight", (part.vocab_size, size)
    if isinstance(part.position, S.Learned):
        yield "embedding.position.weight", (part.position.length + part.position.offset, size)
    if part.segments:
        yield "embedding.segments.weight", (part.segments, size)
    yield from _norm("embedding.norm", part.norm, size)


def _layer(layer: S.Layer, size: int, memory_size: int) -> Named:
    seen: dict[str, int] = {}

    def unique(role: str) -> str:
        seen[role] = seen.get(role, 0) + 1
        return role if seen[role] == 1 else f"{role}_{seen[role]}"

    for part in layer:
        branches = part.branches if isinstance(part, S.Parallel) else (part,)
        roles = [unique(ROLES[type(branch.body)]) for branch in branches]
        for role, branch in zip(roles, branches, strict=True):
            yield from _under(role, _body(branch.body, size, memory_size))
        if isinstance(part, S.Parallel):
            wiring = unique("parallel")
            yield from _norm(f"{wiring}.pre_norm", part.pre_norm, size)
            for i, branch in enumerate(branches):
                yield from _under(f"{wiring}.branches.{i}", _wiring(branch, size))
        else:
            yield from _under(unique(f"{roles[0]}_residual"), _wiring(part, size))


def _wiring(part: S.Residual, size: int) -> Named:
    for place in ("pre_norm", "branch_norm", "post_norm"):
        yield from _norm(place, getattr(part, place), size)


def _body(body: S.Body, size: int, memory_size: int) -> Named:
    match body:
        case S.MLP(intermediate_size=inner):
            yield from _linear("up", size, inner, body.bias)
            yield from _linear("down", inner, size, body.bias)
        case S.GatedMLP(intermediate_size=inner):
            for name in ("gate", "up"):
                yield from _linear(name, size, inner, body.bias)
            yield from _linear("down", inner, size, body.bias)
        case S.Attention() | S.CrossAttention():
            queries, keys = body.heads * body.head_dim, (body.kv_heads or body.heads) * body.head_dim
            key_size = memory_size if isinstance(body, S.CrossAttention) else size
            yield from _linear("q", size, queries, body.bias)
            yield from _linear("k", key_size, keys, body.bias)
            yield from _linear("v", key_size, keys, body.bias)
            yield from _linear("o", queries, size, body.bias if body.out_bias is None else body.out_bias)
            over_all = body.qk_norm_over == "all"
            yield from _norm("q_norm", body.qk_norm, queries if over_all else body.head_dim)
            yield from _norm("k_norm", body.qk_norm, keys if over_all else body.head_dim)
            if isinstance(body, S.Attention) and isinstance(body.score_bias, S.RelativeBias):
                yield "score_bias.weight", (body.score_bias.buckets, body.heads)


def _head(head: S.Head, size: int, vocab_size: int) -> Named:
    match head:
        case S.LMHead():
            if not head.tied:
                yield "weight", (vocab_size, size)
            if head.bias:
                yield "bias", (vocab_size,)
            if head.transform:
                yield from _linear("transform", size, size, True)
            yield from _norm("transform_norm", head.transform_norm, size)
        case S.Pooler():
            yield from _linear("dense", size, size, True)
        case S.SequenceClassifier() | S.TokenClassifier():
            yield from _linear("out", size, head.labels, True)


def _linear(name: str, inputs: int, outputs: int, bias: bool) -> Named:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, norm: S.Norm | None, size: int) -> Named:
    if norm is not None:
        yield f"{name}.weight", (size,)
        if isinstance(norm, S.LayerNorm) and norm.bias:
            yield f"{name}.bias", (size,)


def _under(prefix: str, items: Named) -> Named:
    for name, shape in items:
        yield f"{prefix}.{name}", shape
