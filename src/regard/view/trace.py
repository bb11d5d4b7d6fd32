"""What happens in a translation, step by step: the encoder once, then the decoder token by token.

The steps are read from one pass over the finished hypothesis. By causality that gives the same numbers as the steps
themselves (`tests/laws`), and needs no hooks in the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generate.hypothesis import Hypothesis
from regard.generate.prompts import source_ids
from regard.nn.hook import record
from regard.spec import EncoderDecoder

Shares = list[tuple[str, float]]  # (piece, probability or attention weight), greatest first


@dataclass(frozen=True)
class Step:
    """One token of the decoder.

    so_far: what it was given. likeliest: candidates for the next token. looked: the source pieces with the most
    cross-attention, mean of all heads and layers. taken: the token that the search took, with its probability.
    """

    so_far: list[str]
    likeliest: Shares
    taken: tuple[str, float]
    looked: Shares


@dataclass(frozen=True)
class Trace:
    """A translation's two phases. shapes: of what the encoder made, in order."""

    source: list[str]
    shapes: dict[str, tuple[int, ...]]
    steps: list[Step]
    text: str
    score: float


@torch.no_grad()
def trace(model: Any, text: str, found: Hypothesis, likeliest: int = 5, looked: int = 3) -> Trace:
    """The steps that lead `model` from the source `text` to the hypothesis `found`.

    Raises:
        InputError: the model is no encoder-decoder with a tokenizer.
    """
    if not isinstance(model.spec, EncoderDecoder) or model.tokenizer is None:
        raise InputError("trace: the model must be an encoder-decoder with a tokenizer")
    target = model.tokenizer
    reader = model.source_tokenizer or target
    [read] = source_ids(model, [text])
    source = torch.tensor([read], device=model.device)
    ids = [target.start_id, *found.ids]
    with record(model, "encoder.embedding", "*cross_attention.attend.probs") as acts:
        memory = model.encode(source)
        logits = model(torch.tensor([ids[:-1]], device=model.device), memory=memory)[0]
    embedded = acts.pop("encoder.embedding")
    assert isinstance(embedded, Tensor)
    weights = torch.stack([w for w in acts.values() if isinstance(w, Tensor)]).mean(
        (0, 1, 2)
    )  # [layers, 1, H, T, S] -> [T, S]
    probs = logits.float().softmax(-1)
    pieces, seen = reader.pieces(read), target.pieces(ids)
    steps = [
        Step(
            so_far=seen[: t + 1],
            likeliest=_top(probs[t], likeliest, lambda i: target.pieces([i])[0]),
            taken=(seen[t + 1], float(probs[t, ids[t + 1]])),
            looked=_top(weights[t], looked, lambda i: pieces[i]),
        )
        for t in range(len(ids) - 1)
    ]
    shapes = {"tokens": tuple(source.shape), "embeddings": tuple(embedded.shape), "memory": tuple(memory.hidden.shape)}
    return Trace(pieces, shapes, steps, found.text, found.score)


def _top(values: Tensor, count: int, name: Any) -> Shares:
    best = values.topk(min(count, len(values)))
    return [(name(i), v) for i, v in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def render(made: Trace, longest: int = 24) -> str:
    """The trace as text; of an input longer than `longest` tokens the end is shown."""
    lines = [
        f"Encoder: runs once over {len(made.source)} tokens",
        f"  tokens   {' '.join(made.source)}",
        "  shapes   " + " -> ".join(f"{name} {list(shape)}" for name, shape in made.shapes.items()),
        "",
        "Decoder: one token a step; it reads what is there so far, and the encoder's memory",
    ]
    for number, step in enumerate(made.steps, 1):
        so_far = " ".join(["..."] * (number > longest) + step.so_far[-longest:])
        lines += [
            f"  step {number:<3} input   {so_far}   [1, {number}]",
            f"           next    {'   '.join(f'{piece} {share:.1%}' for piece, share in step.likeliest)}",
            f"           looked  {'   '.join(f'{piece} {share:.0%}' for piece, share in step.looked)}",
            f"           takes   {step.taken[0]} {step.taken[1]:.1%}",
        ]
    return "\n".join([*lines, "", f"Translation: {made.text}   (score {made.score:.4f})"])
