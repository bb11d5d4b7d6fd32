"""`translate`: many texts through an encoder-decoder, in batches of like length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.errors import InputError
from regard.generate import prompts as P
from regard.generate.api import translation_limit
from regard.generate.beam import BeamSearch, OnStep
from regard.generate.hypothesis import Hypothesis
from regard.generate.steps import check_causal, make_steps, position_limit
from regard.nn.mode import evaluating

Progress = Callable[[int, int], None]  # (texts done, texts in all)


@torch.no_grad()
def translate(
    model: Any,
    texts: Sequence[str],
    beams: int = 5,
    max_length: int | None = None,
    length_penalty: float = 1.0,
    batch_tokens: int = 4096,
    n_best: int = 1,
    no_repeat_ngram: int = 0,
    banned: Sequence[str | Sequence[int]] = (),
    on_step: OnStep | None = None,
    progress: Progress | None = None,
) -> list[list[Hypothesis]]:
    """Translates texts by beam search; beams=1 is greedy. What the search does is told in `regard.generate.beam`.

    The model runs in eval mode, whatever mode it is in, and is left in that.

    Texts are sorted by length and run in batches; a text's translations do not depend on its batch. A text of nothing
    but white space has an empty translation. The padding and start tokens are never generated.

    Args:
        max_length: the most tokens of a translation, the end token counted. None: 2 * source tokens + 10 for each text.
            A model with a table of positions stops where that ends.
        length_penalty: score = sum of log-probabilities / length ** length_penalty; 0 ranks by probability.
        batch_tokens: source tokens in a batch, with padding.
        n_best: how many hypotheses of each text, at most `beams`.
        no_repeat_ngram: no sequence of this many tokens appears twice in a translation; 0: they may.
        banned: words, or lists of token ids, that may not appear.
        on_step: called after each step of a batch with (tokens so far, sentences still running).
        progress: called after each batch with (texts done, texts in all).

    Returns:
        For every text, in order, its hypotheses, best first: at least one, at most n_best.

    Raises:
        InputError: the model is no encoder-decoder with a tokenizer; a setting out of range; a text too long for it.
        FailureError: no token is left to choose from (NaN in the model, everything banned).
    """
    if not P.is_encoder_decoder(model) or model.tokenizer is None:
        raise InputError("translate: the model must be an encoder-decoder with a tokenizer")
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length: got {max_length}, must be at least 1")
    target = model.tokenizer
    ends = P.end_ids(model, None)
    never = [[target.pad_id], [target.start_id]]
    search = BeamSearch(
        beams, length_penalty, n_best, ends, P.make_constraints(model, [*banned, *never], no_repeat_ngram, ends)
    )
    sources = P.source_ids(model, texts)
    P.check_ids(model, sources, position_limit(model.spec.encoder.embedding), "text")
    check_causal(model, [1] * len(sources))
    table = position_limit(model.spec.decoder.embedding)

    results = [[Hypothesis([], "", 0.0, [], "stop")] for _ in texts]
    filled = [i for i, text in enumerate(texts) if text.strip()]
    done = len(texts) - len(filled)
    for batch in P.batches([len(sources[i]) for i in filled], batch_tokens):
        numbers = [filled[i] for i in batch]
        limits = [max_length or translation_limit(len(sources[i])) for i in numbers]
        limits = limits if table is None else [min(limit, table) for limit in limits]
        with evaluating(model):
            prompt = P.encoded_prompt(model, [sources[i] for i in numbers], target.start_id)
            found = search.run(make_steps(model, prompt, beams, max(limits)), limits, on_step)
        for number, hypotheses in zip(numbers, found, strict=True):
            results[number] = [P.hypothesis(h, target, ends, length_penalty) for h in hypotheses]
        done += len(batch)
        if progress is not None:
            progress(done, len(texts))
    return results
