"""What a model will cost, before anything runs: parameters, bytes and FLOPs, from the spec alone.

Letters: B batch, T target (or only) tokens a row, S source tokens a row, H heads, K kv heads, D head size, E hidden
size, I intermediate size, V vocabulary. One multiply-add is 2 FLOPs; a backward pass costs twice its forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from regard import spec as S
from regard.errors import InputError
from regard.measure.parameters import body_shapes, count_parameters, folded_shapes, total_parameters

OPTIMIZER_STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
"""How many numbers an optimiser keeps for each parameter."""

SHORT = 128
"""Up to this many keys training takes the plain attention path on a CPU, which keeps the weights (nn/attention.py)."""


@dataclass(frozen=True)
class Flops:
    """FLOPs of one row (a text, or a pair of source and target), forward.

    projections: the weight matrices, 2 a weight and token. attention: scores and weighted sum, 4 H D T S, over all
    pairs; a causal kernel that skips the hidden half does (T + 1) / 2T of it. head: the vocabulary's scores.
    sequential_training, sequential_generation: sublayers that must run one after the other; training runs all
    positions at once, generation one token after the other.
    """

    tokens: int
    projections: int
    attention: int
    head: int
    sequential_training: int
    sequential_generation: int

    @property
    def forward(self) -> int:
        return self.projections + self.attention + self.head

    @property
    def training(self) -> int:
        return 3 * self.forward

    @property
    def per_token(self) -> float:
        """Forward FLOPs for each target (or only) token."""
        return self.forward / self.tokens


@dataclass(frozen=True)
class Memory:
    """Bytes. Training: weights, gradients, optimizer, activations (an estimate). Inference: weights and kv_cache."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    inference_weights: int
    kv_cache: int

    @property
    def training(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations

    @property
    def inference(self) -> int:
        return self.inference_weights + self.kv_cache


@dataclass(frozen=True)
class Plan:
    """Everything `regard inspect` tells about costs."""

    batch: int
    length: int
    source_length: int
    parts: dict[str, int]
    parameters: int
    shapes: dict[str, tuple[int, ...]]
    memory: Memory
    flops: Flops

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the fields and the sums that are properties."""
        memory = asdict(self.memory) | {"training": self.memory.training, "inference": self.memory.inference}
        f = self.flops
        sums = {"forward": f.forward, "training": f.training, "forward_per_token": f.per_token}
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        return asdict(self) | {"memory": memory, "flops": asdict(f) | sums, "shapes": shapes}


def plan(
    spec: S.Model,
    batch: int = 1,
    length: int | None = None,
    source_length: int | None = None,
    weight_bytes: int = 4,
    activation_item_bytes: int = 4,
    cache_item_bytes: int | None = None,
    optimizer: str = "adam",
) -> Plan:
    """The costs of `spec` for `batch` rows of `length` tokens (and `source_length` source tokens).

    Args:
        length: None: 128, or the end of the model's learned positions if that is less.
        source_length: None: as `length`; ignored where there is no encoder beside a decoder.
        weight_bytes, activation_item_bytes: bytes of one number; 4 and 2 for bfloat16 autocast.
        cache_item_bytes: of the key-value cache; None: as the weights.
        optimizer: "sgd", "momentum", "adam" or "adamw"; its states are float32.

    Raises:
        InputError: sizes below 1, texts longer than the model's learned positions, or an unknown optimiser.
    """
    pair = isinstance(spec, S.EncoderDecoder)
    longest = _longest(spec)
    length = int(min(128, longest)) if length is None else length
    source_length = (length if source_length is None else source_length) if pair else 0
    if batch < 1 or length < 1 or (pair and source_length < 1):
        raise InputError(f"plan: batch {batch}, length {length} and source length {source_length} must be at least 1")
    if max(length, source_length) > longest:
        raise InputError(f"plan: {max(length, source_length)} tokens, the model's positions end at {longest}")
    if optimizer not in OPTIMIZER_STATES:
        raise InputError(f"plan: unknown optimizer {optimizer!r}; choose {', '.join(OPTIMIZER_STATES)}")
    count = total_parameters(spec)
    item = weight_bytes if cache_item_bytes is None else cache_item_bytes
    memory = Memory(
        weights=count * weight_bytes,
        gradients=count * weight_bytes,
        optimizer=count * 4 * OPTIMIZER_STATES[optimizer],
        activations=activation_bytes(spec, batch, length, source_length, activation_item_bytes),
        inference_weights=count * weight_bytes,
        kv_cache=kv_cache_elements(spec, batch, length, source_length) * item,
    )
    costs = flops(spec, length, source_length)
    return Plan(batch, length, source_length, count_parameters(spec), count, folded_shapes(spec), memory, costs)


def kv_cache_elements(spec: S.Model, batch: int, length: int, source_length: int = 0) -> int:
    """Numbers kept while generating: 2 x batch x length x kv heads x head size for each attention that runs.

    Cross-attention keeps those of the source. An encoder alone keeps nothing.
    """
    if isinstance(spec, S.Encoder):
        return 0
    total = 0
    for body in _running(_decoder(spec).stack):
        if isinstance(body.body, S.Attention | S.CrossAttention):
            tokens = length if isinstance(body.body, S.Attention) else source_length
            total += 2 * batch * tokens * (body.body.kv_heads or body.body.heads) * body.body.head_dim
    return total


def flops(spec: S.Model, length: int, source_length: int = 0) -> Flops:
    """FLOPs of one row of `length` tokens (and `source_length` source tokens); see Flops."""
    projections = attention = depth = 0
    for tower, tokens in _towers(spec, length, source_length):
        size = tower.stack.hidden_size
        for part in _running(tower.stack):
            body, depth = part.body, depth + 1
            memory_size = spec.encoder.stack.hidden_size if isinstance(spec, S.EncoderDecoder) else size
            for name, shape in body_shapes(body, size, memory_size).items():
                on_source = isinstance(body, S.CrossAttention) and name.startswith(("k.", "v."))
                if name.endswith(".weight") and len(shape) == 2 and not name.startswith("score_bias"):
                    projections += 2 * math.prod(shape) * (source_length if on_source else tokens)
            if isinstance(body, S.Attention | S.CrossAttention):
                keys = source_length if isinstance(body, S.CrossAttention) else tokens
                attention += 4 * body.heads * body.head_dim * tokens * keys
    # generation: the encoder runs once, the decoder's sublayers once a token
    once = sum(1 for _ in _running(spec.encoder.stack)) if isinstance(spec, S.EncoderDecoder) else 0
    steps = 1 if isinstance(spec, S.Encoder) else length
    generation = once + (depth - once) * steps
    return Flops(length, projections, attention, _head_flops(spec, length), depth, generation)


def activation_bytes(spec: S.Model, batch: int, length: int, source_length: int = 0, item_bytes: int = 4) -> int:
    """What training keeps for the backward pass, in bytes: an estimate from what each operation must remember.

    For a standard pre-norm layer in 2-byte numbers with dropout everywhere it is the s b h (34 + 5 a s / h) of
    arXiv:2205.05198, section 4.1. Attention weights are kept on the plain path only (dropout, soft cap, short texts).
    """
    total = 0
    for tower, tokens in _towers(spec, length, source_length):
        size = tower.stack.hidden_size
        for part in _running(tower.stack):
            norms = sum(n is not None for n in (part.pre_norm, part.branch_norm, part.post_norm))
            numbers, masks = norms * size, size if part.dropout else 0
            inner, inner_masks = _body_activations(part.body, size, tokens, source_length)
            total += tokens * ((numbers + inner) * item_bytes + masks + inner_masks)
        total += tokens * size * (item_bytes * (tower.stack.final_norm is not None) + (tower.embedding.dropout > 0))
    if not isinstance(spec, S.Encoder):
        vocab_size, size = _decoder(spec).embedding.vocab_size, _decoder(spec).stack.hidden_size
        total += length * (size * item_bytes + vocab_size * (item_bytes + 4))  # input, logits, float32 log-softmax
    return batch * total


def _body_activations(body: S.Body, size: int, tokens: int, source: int) -> tuple[int, int]:
    """(numbers, dropout-mask bytes) a token."""
    if isinstance(body, S.MLP | S.GatedMLP):
        inner = body.intermediate_size
        dropped = (inner, inner) if body.dropout else (0, 0)
        return size + inner * (4 if isinstance(body, S.GatedMLP) else 2) + dropped[0], dropped[1]
    crossing = isinstance(body, S.CrossAttention)
    keys = source if crossing else tokens
    kv = 2 * (body.kv_heads or body.heads) * body.head_dim
    kv = round(kv * keys / tokens)  # keys and values are kept once a key
    numbers = size + 2 * body.heads * body.head_dim + kv
    if body.dropout:
        return numbers + 2 * body.heads * keys, body.heads * keys
    plain = body.softcap is not None or keys <= SHORT
    return numbers + body.heads * keys * plain, 0


def _head_flops(spec: S.Model, tokens: int) -> int:
    tower = spec if isinstance(spec, S.Encoder) else _decoder(spec)
    size, vocab_size = tower.stack.hidden_size, tower.embedding.vocab_size
    total = 0
    for head in tower.heads if isinstance(tower, S.Encoder) else (tower.head,):
        match head:
            case S.LMHead():
                total += 2 * tokens * size * (vocab_size + (size if head.transform else 0))
            case S.TokenClassifier():
                total += 2 * tokens * size * head.labels
            case S.SequenceClassifier():
                total += 2 * size * head.labels
            case S.Pooler():
                total += 2 * size * size
    return total


def _decoder(spec: S.EncoderDecoder | S.LanguageModel) -> S.LanguageModel:
    return spec.decoder if isinstance(spec, S.EncoderDecoder) else spec


def _towers(spec: S.Model, length: int, source: int) -> Iterator[tuple[S.Encoder | S.LanguageModel, int]]:
    """Each embedding-and-stack with the tokens it reads a row."""
    if isinstance(spec, S.EncoderDecoder):
        yield spec.encoder, source
        yield spec.decoder, length
    else:
        yield spec, length


def _running(stack: S.Stack) -> Iterator[S.Residual]:
    """The sublayers as they run: shared layers as often as the order says, parallel branches one by one."""
    for index in stack.order or range(len(stack.layers)):
        for part in stack.layers[index]:
            yield from part.branches if isinstance(part, S.Parallel) else (part,)


def _longest(spec: S.Model) -> float:
    towers = [tower for tower, _ in _towers(spec, 0, 0)]
    ends = [t.embedding.position.length for t in towers if isinstance(t.embedding.position, S.Learned)]
    return min(ends, default=math.inf)
