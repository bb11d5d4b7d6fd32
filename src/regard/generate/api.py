"""`generate`: any model that can generate, greedily, by sampling, or by beam search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generate import prompts as P
from regard.generate.beam import BeamSearch, OnStep
from regard.generate.hypothesis import Hypothesis
from regard.generate.sampling import Sampler, StopWatch
from regard.generate.steps import Prompt, check_causal, decoder_of, make_steps, position_limit
from regard.nn.mode import evaluating

DEFAULT_NEW_TOKENS = 128


@torch.no_grad()
def generate(
    model: Any,
    prompts: str | Sequence[str] | Sequence[Sequence[int]],
    max_new_tokens: int | None = None,
    temperature: float = 0.0,
    beams: int = 1,
    seed: int | Sequence[int | None] | None = None,
    top_k: int = 0,
    top_p: float = 1.0,
    stop: str | Sequence[str] = (),
    end_tokens: Sequence[int] | int | None = None,
    length_penalty: float = 1.0,
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    banned: Sequence[str | Sequence[int]] = (),
    start_token: int | None = None,
    on_step: OnStep | None = None,
) -> list[Hypothesis]:
    """Continues prompts with a language model, or turns them into a target with an encoder-decoder.

    All prompts run in one batch; each result is what the prompt alone would give. The model runs in eval mode, whatever
    mode it is in, and is left in that.

    Args:
        prompts: texts or lists of token ids; for an encoder-decoder they are the source. A text's end token is added
            for an encoder; ids are taken as they are.
        max_new_tokens: the most tokens for each prompt, the end token counted. None: 128, and for an encoder-decoder
            2 * source + 10 (source without its end token). A model with a table of positions stops where that ends.
        temperature: 0 is greedy. top_k, top_p, repetition_penalty: see `sampling.Sampler`.
        beams: 1, or the width of a beam search (see `regard.generate.beam`), which takes no temperature.
        seed: for every prompt the same, so that a prompt's text does not depend on its neighbours; or one for each
            (None: a new one from the system). Equal prompts with equal seeds get equal texts.
        stop: strings that end a text, which is then cut before the first of them.
        end_tokens: ids that end a sequence. None: the tokenizer's; []: none, so generation goes on to the limit.
        length_penalty: the exponent in Hypothesis.score, and what a beam search ranks by.
        no_repeat_ngram, banned: see `constraints.Constraints`; banned words may be texts.
        start_token: the decoder's first token in an encoder-decoder. None: the tokenizer's.
        on_step: called after each step of a beam search with (tokens so far, sentences still running).

    Returns:
        The best Hypothesis of each prompt, in order.

    Raises:
        InputError: a setting out of range, a prompt that is empty or too long, settings that exclude each other, a
            model that cannot go token by token because its masks are not causal.
        FailureError: no token is left to choose from (NaN in the model, everything banned).
    """
    encoder_decoder = P.is_encoder_decoder(model)
    rows = _rows(model, prompts, encoder_decoder)
    ends = P.end_ids(model, end_tokens)
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    constraints = P.make_constraints(model, banned, no_repeat_ngram, ends)
    sampler = Sampler(temperature, top_k, top_p, repetition_penalty, ends, constraints)
    search = BeamSearch(beams, length_penalty, 1, ends, constraints)
    _check(sampler, beams, stops, max_new_tokens, model)
    seeds = [seed] * len(rows) if seed is None or isinstance(seed, int) else list(seed)
    if len(seeds) != len(rows):
        raise InputError(f"seed: got {len(seeds)} for {len(rows)} prompts; give one number, or one for each prompt")
    if not rows:
        return []

    limits = _limits(model, rows, max_new_tokens, encoder_decoder)
    check_causal(model, [1 if encoder_decoder else len(row) for row in rows])
    watch = StopWatch(model.tokenizer, stops, len(rows)) if stops else None
    with evaluating(model):
        if encoder_decoder:
            prompt = P.encoded_prompt(model, rows, P.start_id(model) if start_token is None else start_token)
        else:
            prompt = Prompt(*P.pad(rows, model.device))
        steps = make_steps(model, prompt, beams, max(limits))
        if beams > 1:
            found = [best[0] for best in search.run(steps, limits, on_step)]
        else:
            found = sampler.run(steps, limits, seeds, _seen(prompt), watch)
    texts: Sequence[str | None] = [None] * len(rows) if watch is None else watch.finish()
    return [P.hypothesis(f, model.tokenizer, ends, length_penalty, t) for f, t in zip(found, texts, strict=True)]


def _seen(prompt: Prompt) -> Tensor:
    """[B, P] the tokens of each prompt; padding repeats a row's first token, so that it adds none."""
    inside = torch.arange(prompt.ids.shape[1], device=prompt.ids.device) < prompt.counts[:, None]
    return torch.where(inside, prompt.ids, prompt.ids[:, :1])


def _rows(model: Any, prompts: Any, encoder_decoder: bool) -> list[list[int]]:
    """The prompts as lists of ids."""
    given = [prompts] if isinstance(prompts, str) else list(prompts)
    texts = [p for p in given if isinstance(p, str)]
    if texts and len(texts) != len(given):
        raise InputError("prompts: texts and token ids are mixed; give one kind")
    if texts:
        rows = P.source_ids(model, texts) if encoder_decoder else P.prompt_ids(model, texts)
    else:
        if any(isinstance(p, int) for p in given):
            raise InputError("prompts: got one list of token ids; give a list of such lists, one for each prompt")
        rows = [[int(i) for i in p] for p in given]
    read = model.spec.encoder if encoder_decoder else model.spec
    P.check_ids(model, rows, position_limit(read.embedding), "prompt")
    return rows


def _check(sampler: Sampler, beams: int, stops: tuple[str, ...], max_new_tokens: int | None, model: Any) -> None:
    if max_new_tokens is not None and max_new_tokens < 1:
        raise InputError(f"max_new_tokens: got {max_new_tokens}, must be at least 1")
    if stops and (model.tokenizer is None or not all(stops)):
        raise InputError("stop: needs strings that are not empty, and a model with a tokenizer")
    plain = sampler.temperature == 0 and sampler.repetition_penalty == 1 and not stops
    if beams > 1 and not plain:
        raise InputError("beams: a search takes no temperature, repetition_penalty or stop strings; leave them out")


def _limits(model: Any, rows: list[list[int]], asked: int | None, encoder_decoder: bool) -> list[int]:
    """The most new tokens for each row. The last token is not fed, so the position table allows one more."""
    table = position_limit(decoder_of(model.spec).embedding)
    limits = []
    for row in rows:
        limit = asked or (translation_limit(len(row)) if encoder_decoder else DEFAULT_NEW_TOKENS)
        limits.append(limit if table is None else min(limit, table + 1 - (1 if encoder_decoder else len(row))))
    return limits


def translation_limit(source_tokens: int) -> int:
    """The default of `max_length`: 2 * tokens + 10, for a source of that many tokens and its end token."""
    return 2 * (source_tokens - 1) + 10
