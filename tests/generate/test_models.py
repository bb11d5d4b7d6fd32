"""Generation with real models: caches, unequal rows, both ways to hold beams."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regard
from regard import shapes, spec
from regard.errors import InputError
from regard.generate import BeamSearch, Constraints, translate
from regard.generate import prompts as P
from regard.generate.steps import Rows, SharedSlots, can_share, make_steps
from regard.mask import Causal, Window
from regard.tokenizer import Tokenizer

TEXTS = ["a b", "le chat dort ici", "je", "un deux trois quatre cinq six sept", "oui non oui", "b a b a"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, 280)


def built(part, tokenizer=None, seed=0, scale=4.0):  # type: ignore[no-untyped-def]
    """A model with sharp predictions: the embeddings of a fresh one are too small to prefer anything."""
    model = regard.build(part, generator=torch.Generator().manual_seed(seed)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 2:
                p.mul_(scale if "embedding" not in name else 1.0)
    model.tokenizer = model.source_tokenizer = tokenizer
    return model


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer):  # type: ignore[no-untyped-def]
    return built(shapes.encoder_decoder(tokenizer.vocab_size, 32, 2, 4, 64, norm="pre"), tokenizer)


@pytest.fixture(scope="module", params=["learned", "rotary", "alibi"])
def decoder(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    return built(shapes.decoder(40, 32, 2, 4, 64, context=96, positions=request.param))


def by_hand(model, ids: list[int], new: int, end: int, source: Tensor | None = None) -> list[int]:  # type: ignore[no-untyped-def]
    """Greedy decoding by a full pass for every token."""
    made: list[int] = []
    while len(made) < new and (not made or made[-1] != end):
        given = torch.tensor([[*ids, *made]])
        logits = model(given) if source is None else model(given, source=source)
        made.append(int(logits[0, -1].argmax()))
    return made


def test_greedy_is_the_full_pass_token_by_token(decoder) -> None:  # type: ignore[no-untyped-def]
    prompts = [[5], [7, 8, 9, 10, 11], [3, 4], [1, 2, 3, 4, 5, 6, 7, 8]]
    out = regard.generate(decoder, prompts, max_new_tokens=12, end_tokens=[17])
    for prompt, result in zip(prompts, out, strict=True):
        assert result.ids == by_hand(decoder, prompt, 12, 17)
        logits = decoder(torch.tensor([[*prompt, *result.ids]]))[0, len(prompt) - 1 : -1].log_softmax(-1)
        own = logits.gather(1, torch.tensor(result.ids)[:, None])[:, 0].tolist()
        assert result.logprobs == pytest.approx(own, abs=1e-4)
        assert result.finish_reason == ("stop" if result.ids[-1] == 17 else "length")


def test_greedy_translation_is_the_full_pass(translator) -> None:  # type: ignore[no-untyped-def]
    start, end = translator.tokenizer.start_id, translator.tokenizer.end_id
    for text, found in zip(TEXTS, regard.generate(translator, TEXTS, max_new_tokens=15), strict=True):
        source = torch.tensor([[*translator.tokenizer.encode(text), end]])
        assert found.ids == by_hand(translator, [start], 15, end, source)


def test_fault_B12_and_B9_and_K10(translator) -> None:  # type: ignore[no-untyped-def]
    """Unequal sources in one batch, sources longer and shorter than what is made: each as alone (B1, B9, B12)."""
    together = translate(translator, TEXTS, beams=3, n_best=3, max_length=9)
    small = translate(translator, TEXTS, beams=3, n_best=3, max_length=9, batch_tokens=20)
    for number, text in enumerate(TEXTS):
        (alone,) = translate(translator, [text], beams=3, n_best=3, max_length=9)
        for other in (together[number], small[number]):
            assert [h.ids for h in other] == [h.ids for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-5)


def test_both_ways_to_hold_beams_agree(translator) -> None:  # type: ignore[no-untyped-def]
    sources = P.source_ids(translator, TEXTS)
    limits = [6 + 2 * i for i in range(len(TEXTS))]
    search = BeamSearch(4, 0.8, 4, (2,), Constraints((), 2))
    found = []
    for way in (SharedSlots, Rows):
        with torch.no_grad():
            steps = way(translator, P.encoded_prompt(translator, sources, 1), 4, max(limits))
        found.append(search.run(steps, limits))
    for shared, rows in zip(*found, strict=True):
        assert [h.ids for h in shared] == [h.ids for h in rows]
        assert [h.score for h in shared] == pytest.approx([h.score for h in rows], abs=1e-5)
    assert len({tuple(h.ids) for row in found[0] for h in row}) > 12


def test_scores_are_those_of_a_full_pass(translator) -> None:  # type: ignore[no-untyped-def]
    """B6 with a real model: teacher forcing gives every token's log-probability."""
    for text, hypotheses in zip(TEXTS, translate(translator, TEXTS, n_best=5, length_penalty=0.6), strict=True):
        source = torch.tensor(P.source_ids(translator, [text]))
        for h in hypotheses:
            logits = translator(torch.tensor([[1, *h.ids[:-1]]]), source=source)[0].log_softmax(-1)
            own = logits.gather(1, torch.tensor(h.ids)[:, None])[:, 0].tolist()
            assert h.logprobs == pytest.approx(own, abs=1e-4)
            assert sum(h.logprobs) / len(h.ids) ** 0.6 == pytest.approx(h.score, abs=1e-5)


def test_fault_B13_with_models(translator, decoder) -> None:  # type: ignore[no-untyped-def]
    one = translate(translator, TEXTS, beams=1, max_length=12)
    greedy = regard.generate(translator, TEXTS, max_new_tokens=12, banned=[[0], [1]])
    assert [h[0].ids for h in one] == [g.ids for g in greedy]
    prompts = [[5], [7, 8, 9]]
    wide = regard.generate(decoder, prompts, 10, beams=4, end_tokens=[17])
    for prompt, found in zip(prompts, wide, strict=True):
        assert found.ids == regard.generate(decoder, [prompt], 10, beams=4, end_tokens=[17])[0].ids


def test_fault_K5_windows_are_kept_by_beams() -> None:
    """A visibility mask would replace the model's window: such models get a row for each beam, and reorder it."""
    plain = shapes.decoder(40, 32, 2, 4, 64, context=96, positions="rotary")
    attention = plain.stack.layers[0][0].body
    layer = (
        replace(plain.stack.layers[0][0], body=replace(attention, mask=Causal() & Window(3))),
        plain.stack.layers[0][1],
    )
    part = replace(plain, stack=replace(plain.stack, layers=(layer, plain.stack.layers[1])))
    model = built(part)
    assert can_share(built(plain))
    assert not can_share(model)
    assert isinstance(make_steps(model, P.Prompt(torch.ones(1, 1, dtype=torch.int64)), 3, 4), Rows)
    for prompt in ([5, 6, 7, 8, 9], [4]):
        found = regard.generate(model, [prompt, [1] * 7], 8, beams=3, end_tokens=[])[0]
        logits = model(torch.tensor([[*prompt, *found.ids[:-1]]]))[0, len(prompt) - 1 :].log_softmax(-1)
        own = logits.gather(1, torch.tensor(found.ids)[:, None])[:, 0].tolist()
        assert found.logprobs == pytest.approx(own, abs=1e-4)


def test_fault_G1(decoder) -> None:  # type: ignore[no-untyped-def]
    free = regard.generate(decoder, [[5]], 12, end_tokens=[])[0].ids
    ends = [free[6], free[3]]
    first = min(free.index(e) for e in ends)
    found = regard.generate(decoder, [[5]], 12, end_tokens=ends)[0]
    assert found.ids == free[: first + 1]
    assert found.finish_reason == "stop"


def test_stop_strings_cut_the_text(translator) -> None:  # type: ignore[no-untyped-def]
    whole = regard.generate(translator, TEXTS, max_new_tokens=15, end_tokens=[])
    for text, free in zip(TEXTS, whole, strict=True):
        if len(free.text) < 6:
            continue
        stop = free.text[3:5]
        found = regard.generate(translator, [text], max_new_tokens=15, end_tokens=[], stop=stop)[0]
        assert found.text == free.text[: free.text.index(stop)]
        assert found.finish_reason == "stop"
        assert found.ids == free.ids[: len(found.ids)]
    assert any(len(w.text) >= 6 for w in whole)


def test_seeds(decoder) -> None:  # type: ignore[no-untyped-def]
    """G10 with a model: a seeded prompt among others, of other lengths, draws what it draws alone."""
    options = {"max_new_tokens": 10, "temperature": 1.0, "top_p": 0.95, "end_tokens": [17]}
    alone = regard.generate(decoder, [[5, 6]], seed=42, **options)[0].ids
    among = regard.generate(decoder, [[9], [5, 6], [1, 2, 3, 4]], seed=[None, 42, 1], **options)[1].ids
    assert among == alone == regard.generate(decoder, [[5, 6]], seed=42, **options)[0].ids


def test_order_progress_blank_lines_and_bans(translator) -> None:  # type: ignore[no-untyped-def]
    told: list[tuple[int, int]] = []
    texts = [*TEXTS[:2], "  ", *TEXTS[2:]]
    options = {"beams": 2, "max_length": 8}
    found = translate(translator, texts, batch_tokens=30, progress=lambda a, b: told.append((a, b)), **options)
    assert found[2][0].text == "" and found[2][0].ids == []
    assert [h[0].ids for h in found[:2] + found[3:]] == [h[0].ids for h in translate(translator, TEXTS, **options)]
    assert told[-1] == (7, 7) and [a for a, _ in told] == sorted({a for a, _ in told}) and len(told) > 1
    word = found[0][0].ids[0]
    assert all(word not in h[0].ids for h in translate(translator, TEXTS, banned=[[word]], **options))
    assert all(h[0].ids.count(0) + h[0].ids.count(1) == 0 for h in found)
    assert translate(translator, []) == []


def test_default_lengths(translator) -> None:  # type: ignore[no-untyped-def]
    """2 * source + 10 for a translation; what a position table holds for a language model."""
    length = len(translator.tokenizer.encode(TEXTS[1]))
    assert len(regard.generate(translator, [TEXTS[1]], end_tokens=[])[0].ids) == 2 * length + 10
    model = built(shapes.decoder(40, 32, 1, 4, 64, context=16))
    out = regard.generate(model, [[1] * 4], end_tokens=[])[0]
    assert (len(out.ids), out.finish_reason) == (13, "length")
    assert len(regard.generate(model, [[1] * 4], end_tokens=[], beams=3)[0].ids) == 13


@pytest.mark.parametrize("beams", [1, 3])
def test_unequal_prompts_fill_a_position_table(beams: int) -> None:
    """Slots may outnumber positions, and a row at its limit must not disturb the others."""
    model = built(shapes.decoder(40, 32, 1, 4, 64, context=16))
    prompts = [[1] * 4, [2] * 14, [3] * 9, [4], [5]]
    out = regard.generate(model, prompts, end_tokens=[], beams=beams)
    assert [len(h.ids) for h in out] == [13, 3, 8, 16, 16]
    for prompt, found in zip(prompts, out, strict=True):
        assert found.ids == regard.generate(model, [prompt], end_tokens=[], beams=beams)[0].ids


def test_input_errors(translator, decoder) -> None:  # type: ignore[no-untyped-def]
    for message, call in (
        ("the model has no tokenizer", lambda: regard.generate(decoder, ["text"])),
        ("prompt 1 has no tokens", lambda: regard.generate(decoder, [[1], []])),
        ("prompt 0 has a token id outside", lambda: regard.generate(decoder, [[40]])),
        ("got one list of token ids", lambda: regard.generate(decoder, [1, 2])),
        ("max_new_tokens: got 0", lambda: regard.generate(decoder, [[1]], 0)),
        ("beams: a search takes no temperature", lambda: regard.generate(decoder, [[1]], beams=2, temperature=1.0)),
        ("one for each prompt", lambda: regard.generate(decoder, [[1]], seed=[1, 2], temperature=1.0)),
        ("must be an encoder-decoder", lambda: translate(decoder, ["a"])),
        ("max_length: got 0", lambda: translate(translator, ["a"], max_length=0)),
        ("ends a sequence", lambda: translate(translator, ["a"], banned=[[2]])),
        ("not in the model's vocabulary", lambda: translate(translator, ["a"], banned=[[9999]])),
    ):
        with pytest.raises(InputError, match=message):
            call()
    encoder = built(shapes.encoder(40, 32, 1, 4, 64))
    assert isinstance(encoder.spec, spec.Encoder)
    with pytest.raises(InputError, match="is an encoder, it cannot generate"):
        regard.generate(encoder, [[1]])
