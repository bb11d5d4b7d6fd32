"""From what a user gives (texts, ids) to what generation starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard import spec
from regard.errors import InputError
from regard.generate.beam import Found
from regard.generate.constraints import Constraints, banned_ids
from regard.generate.hypothesis import Hypothesis, normalised
from regard.generate.steps import Prompt
from regard.tokenizer import Tokenizer


def is_encoder_decoder(model: Any) -> bool:
    """Whether prompts are the source of a translation; an encoder alone cannot generate (InputError)."""
    if isinstance(model.spec, spec.Encoder):
        raise InputError("the model is an encoder, it cannot generate; give a language model or an encoder-decoder")
    return isinstance(model.spec, spec.EncoderDecoder)


def end_ids(model: Any, given: Sequence[int] | int | None) -> tuple[int, ...]:
    """The end tokens: those given, or the tokenizer's; none if there is no tokenizer."""
    if given is not None:
        return (given,) if isinstance(given, int) else tuple(given)
    tokenizer: Tokenizer | None = model.tokenizer
    return () if tokenizer is None else (tokenizer.end_id,)


def make_constraints(
    model: Any, banned: Sequence[str | Sequence[int]], no_repeat_ngram: int, ends: tuple[int, ...]
) -> Constraints:
    """The constraints of a run; every id must be one of the vocabulary."""
    sequences = banned_ids(banned, model.tokenizer, ends)
    size = vocab_size(model)
    for i in (*(i for sequence in sequences for i in sequence), *ends):
        if not 0 <= i < size:
            raise InputError(f"token id {i} is not in the model's vocabulary of {size}; use ids from 0 to {size - 1}")
    return Constraints(sequences, no_repeat_ngram)


def source_ids(model: Any, texts: Sequence[str]) -> list[list[int]]:
    """Texts as an encoder reads them, and as it was trained: their tokens and the end token."""
    tokenizer: Tokenizer | None = model.source_tokenizer or model.tokenizer
    if tokenizer is None:
        raise InputError("the model has no tokenizer; give lists of token ids")
    return [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(texts)]


def prompt_ids(model: Any, texts: Sequence[str]) -> list[list[int]]:
    """Texts as a decoder reads them; an empty one is the start token."""
    tokenizer: Tokenizer | None = model.tokenizer
    if tokenizer is None:
        raise InputError("the model has no tokenizer; give lists of token ids")
    return [ids or [tokenizer.start_id] for ids in tokenizer.encode_batch(texts)]


def check_ids(model: Any, prompts: Sequence[Sequence[int]], limit: int | None, what: str) -> None:
    """Raises InputError for a prompt that is empty, too long, or has an id that is not in the vocabulary."""
    size = vocab_size(model, source=is_encoder_decoder(model))
    for number, ids in enumerate(prompts):
        if not ids:
            raise InputError(f"{what} {number} has no tokens; give at least one")
        if limit is not None and len(ids) > limit:
            raise InputError(f"{what} {number} has {len(ids)} tokens, the model reads at most {limit}; shorten it")
        if min(ids) < 0 or max(ids) >= size:
            raise InputError(f"{what} {number} has a token id outside the vocabulary of {size}")


def encoded_prompt(model: Any, sources: Sequence[Sequence[int]], start: int) -> Prompt:
    """Runs the encoder on source ids; the decoder's prompt is the start token."""
    ids, lengths = pad(sources, model.device)
    memory = model.encode(ids, lengths=lengths)
    return Prompt(torch.full((len(sources), 1), start, device=model.device), None, memory)


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """[B, T] right-padded with 0, and the lengths [B], or None when all are equal."""
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64, device=device)
    return ids, None if min(lengths) == longest else torch.tensor(lengths, device=device)


def vocab_size(model: Any, source: bool = False) -> int:
    """Tokens that the decoder (or the encoder, for `source`) knows."""
    part = model.spec
    if isinstance(part, spec.EncoderDecoder):
        part = part.encoder if source else part.decoder
    return int(part.embedding.vocab_size)


def start_id(model: Any) -> int:
    """The token that an encoder-decoder's decoder starts with."""
    tokenizer: Tokenizer | None = model.tokenizer
    if tokenizer is None:
        raise InputError("the model has no tokenizer, so the decoder's first token is not known; give start_token=")
    return tokenizer.start_id


def hypothesis(
    found: Found, tokenizer: Tokenizer | None, ends: Sequence[int], length_penalty: float, text: str | None = None
) -> Hypothesis:
    """A found sequence with its text (`text`, where it is known already)."""
    if text is None:
        stopped = found.finish_reason == "stop" and found.ids[-1] in ends
        text = "" if tokenizer is None else tokenizer.decode(found.ids[:-1] if stopped else found.ids)
    score = normalised(sum(found.logprobs), len(found.ids), length_penalty)
    return Hypothesis(found.ids, text, score, found.logprobs, found.finish_reason)


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of rows, longest first, in groups whose padded size is at most batch_tokens (one row at least)."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    while order:
        size = max(1, batch_tokens // max(1, lengths[order[0]]))
        yield order[:size]
        order = order[size:]
