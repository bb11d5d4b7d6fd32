"""The laws of DESIGN section 4, over randomly drawn specs. Float64 and 1e-10 unless a line says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import mask as M
from regard import spec as S
from regard.measure.plan import count_parameters
from regard.nn.heads import head_loss
from tests.laws import strategies as draw
from tests.laws.strategies import call, close, law, make, tokens


@law
@given(draw.models)
def test_law_1_spec_to_json_and_back_and_parameters_counted_from_the_spec(spec):
    assert S.loads(S.dumps(spec)) == spec
    assert not S.diff(spec, S.loads(S.dumps(spec)))
    model = regard.build(spec, device="meta")
    assert sum(count_parameters(spec).values()) == sum(p.numel() for p in model.parameters())


@law
@given(st.one_of(draw.language_models(), draw.encoder_decoders()), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_law_2_full_pass_equals_chunks_equals_steps(spec, sizes):
    model, ids = make(spec), tokens(2, draw.LENGTH)
    given_ = {}
    if isinstance(spec, S.EncoderDecoder):
        given_["memory"] = model.encode(tokens(2, 5, 7), torch.tensor([5, 3]))
    full = call(model, ids, **given_)
    prefix = max((p.length for p in _parts(spec, M.Prefix)), default=1)
    for chunks in ([max(sizes[0], prefix), *sizes[1:]], [prefix]):
        cache, done, out = model.new_cache(2, draw.LENGTH), 0, []
        while done < draw.LENGTH:
            step = min(chunks.pop(0) if chunks else 1, draw.LENGTH - done)
            out.append(call(model, ids[:, done : done + step], cache=cache, **given_))
            done += step
        close(torch.cat(out, 1), full)
        assert cache.nbytes == cache.nbytes_used
    mark = cache.mark()
    assert mark.length == draw.LENGTH


def _parts(spec, kind):
    if isinstance(spec, kind):
        yield spec
    for value in (
        vars(spec).values() if hasattr(spec, "__dataclass_fields__") else spec if isinstance(spec, tuple) else ()
    ):
        if hasattr(value, "__dataclass_fields__") or isinstance(value, tuple):
            yield from _parts(value, kind)


@law
@given(draw.language_models(), st.integers(1, 6), st.integers(1, 6))
def test_law_2_unequal_prompts_go_on_as_if_alone(spec, a, b):
    model, ids = make(spec), tokens(2, 10)
    prompts = torch.tensor([a, b])
    width = int(prompts.max())
    padded = ids[:, :width].masked_fill(torch.arange(width) >= prompts[:, None], 0)
    cache = model.new_cache(2, 16)
    call(model, padded, lengths=prompts, cache=cache)
    for step in range(3):
        new = torch.stack([ids[0, a + step], ids[1, b + step]])[:, None]
        out = call(model, new, cache=cache)
        for row, length in enumerate((a, b)):
            alone = call(model, ids[row : row + 1, : length + step + 1])
            close(out[row, 0], alone[0, -1])


@law
@given(draw.models)
def test_law_3_padding_never_matters_even_nan(spec):
    model, lengths = make(spec), torch.tensor([7, 1, 4])
    ids, size = tokens(3, 7), _decoder(model).stack.hidden_size
    extra = {}
    if isinstance(spec, S.EncoderDecoder):
        extra["memory"] = model.encode(tokens(3, 5, 7), torch.tensor([5, 3, 4]))
    out = call(model, ids, lengths=lengths, **extra)
    other = ids.masked_fill(torch.arange(7) >= lengths[:, None], 3)
    again = call(model, other, lengths=lengths, **extra)
    embeds = torch.randn(3, 7, size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    poisoned = embeds.masked_fill((torch.arange(7) >= lengths[:, None])[..., None], torch.nan)
    clean = call(model, None, inputs_embeds=embeds, lengths=lengths, **extra) if not extra else None
    dirty = call(model, None, inputs_embeds=poisoned, lengths=lengths, **extra) if not extra else None
    for row, length in enumerate(lengths.tolist()):
        mine = {"memory": extra["memory"].take(torch.tensor([row]))} if extra else {}
        close(out[row, :length], call(model, ids[row : row + 1, :length], **mine)[0])
        assert torch.equal(out[row, :length], again[row, :length])
        if clean is not None and dirty is not None:
            assert torch.equal(clean[row, :length], dirty[row, :length])


@law
@given(draw.models, st.integers(1, 6))
def test_law_3_packed_documents_equal_each_alone(spec, first):
    model, ids = make(spec), tokens(1, 7)
    documents = (torch.arange(7) >= first).long()[None]
    if isinstance(spec, S.EncoderDecoder):
        source, split = tokens(1, 6, 7), torch.tensor([[0, 0, 1, 1, 1, 1]])
        packed = call(model, ids, documents=documents, source=source, source_documents=split)
        parts = [call(model, ids[:, :first], source=source[:, :2]), call(model, ids[:, first:], source=source[:, 2:])]
    else:
        packed = call(model, ids, documents=documents)
        parts = [call(model, ids[:, :first]), call(model, ids[:, first:])]
    close(packed, torch.cat(parts, 1))


def _decoder(model):
    return model.decoder if isinstance(model.spec, S.EncoderDecoder) else model


@law
@given(draw.language_models(), st.integers(0, 6))
def test_law_4_nothing_hidden_matters_not_even_for_gradients(spec, row):
    model = make(spec)
    size = spec.stack.hidden_size
    embeds = torch.randn(
        1, 7, size, generator=torch.Generator().manual_seed(5), dtype=torch.float64, requires_grad=True
    )
    out = call(model, None, inputs_embeds=embeds)
    (grad,) = torch.autograd.grad(out[0, row].sum(), embeds)
    assert grad[0, row + 1 :].abs().sum() == 0
    changed = embeds.detach().clone()
    changed[0, row + 1 :] += 1.0
    assert torch.equal(call(model, None, inputs_embeds=changed)[0, : row + 1], out[0, : row + 1])


@law
@given(draw.language_models(masks=draw.open_masks, positions=False), st.permutations(range(6)))
def test_law_5_without_positions_full_attention_is_equivariant_to_order(spec, order):
    model, ids = make(spec), tokens(2, 6)
    everything = M.Everything()
    out = call(model, ids, mask=everything)
    close(call(model, ids[:, order], mask=everything), out[:, order])


@law
@given(draw.language_models(masks=st.just(M.Causal() & M.Window(3))), st.integers(1, 50))
def test_law_5_rotary_and_score_biases_depend_on_differences_only(spec, shift):
    if spec.embedding.position is not None:
        spec = S.LanguageModel(S.Embedding(draw.VOCAB), spec.stack, spec.head)
    model, ids = make(spec), tokens(2, 7)
    close(call(model, ids, positions=torch.arange(7) + shift), call(model, ids))


@law
@given(draw.models)
def test_law_6_fused_and_plain_paths_agree_with_gradients(spec):
    model, ids, lengths = make(spec), tokens(3, 7), torch.tensor([7, 1, 4])
    attends = [m for m in model.modules() if type(m).__name__ == "Attend"]
    results = []
    for plain in (True, False):
        for module in attends:
            module.watched = plain
            module._fused = (lambda *_: False) if plain else (lambda *_, cap=module.softcap: cap is None)
        out = call(model, ids, lengths=lengths)
        valid = (torch.arange(7) < lengths[:, None])[..., None]
        (out * valid).square().sum().backward()
        results.append([(out * valid).detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
        model.zero_grad()
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-9)


@law
@given(spec=draw.models)
def test_law_7_save_load_gives_the_same_numbers(spec, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("model")
    model = make(spec)
    regard.save(model, folder)
    again = regard.load(folder, dtype=torch.float64)
    assert again.spec == spec
    assert torch.equal(call(again, tokens(2, 6)), call(model, tokens(2, 6)))
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in model.parameters())


@law
@given(st.one_of(draw.language_models(), draw.encoder_decoders()), st.sampled_from([0.0, 0.1]))
def test_law_8_gradient_of_a_split_batch_is_that_of_the_whole(spec, eps):
    model, ids, lengths = make(spec), tokens(3, 7), torch.tensor([7, 2, 4])
    labels = tokens(3, 7, 9).masked_fill(torch.arange(7) >= lengths[:, None], -100)

    def gradient(parts):
        for rows in parts:
            extra = {}
            if isinstance(spec, S.EncoderDecoder):
                source = tokens(3, 5, 7)[rows], torch.tensor([5, 3, 4])[rows]
                extra = dict(source=source[0], source_lengths=source[1])
            loss, _ = head_loss(model, call(model, ids[rows], lengths=lengths[rows], **extra), labels[rows], eps)
            (loss / 13).backward()
        grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        return grads

    whole, split = gradient([[0, 1, 2]]), gradient([[0], [1, 2]])
    assert whole.keys() == split.keys() and whole
    for name in whole:
        close(split[name], whole[name])


@law
@given(st.one_of(draw.language_models(), draw.encoder_decoders()), st.sampled_from([1, 3]))
def test_law_9_a_batch_of_searches_is_each_alone_and_greedy_is_the_argmax_of_full_passes(spec, beams):
    model, prompts = make(spec), [[1, 2, 3], [4], [5, 6, 7, 8]]
    options = dict(max_new_tokens=4, beams=beams, end_tokens=[0], start_token=1)
    together = regard.generate(model, prompts, **options)
    for prompt, found in zip(prompts, together, strict=True):
        (alone,) = regard.generate(model, [prompt], **options)
        assert alone.ids == found.ids and alone.finish_reason == found.finish_reason
        assert alone.logprobs == pytest.approx(found.logprobs, abs=1e-9)
        assert found.score == pytest.approx(sum(found.logprobs) / len(found.ids), abs=1e-9)
        if beams == 1:
            extra = dict(source=torch.tensor([prompt])) if isinstance(spec, S.EncoderDecoder) else {}
            text = [1] if extra else list(prompt)
            for i in found.ids:
                assert model(torch.tensor([text]), **extra)[0, -1].argmax() == i
                text.append(i)


@law
@given(draw.models)
def test_law_10_eval_is_deterministic_and_draws_nothing(spec):
    model, ids = make(spec), tokens(2, 6)
    for module in model.modules():
        if isinstance(module, regard.nn.Dropout):
            module.rate = 0.5
    before = torch.get_rng_state()
    assert torch.equal(call(model, ids), call(model, ids))
    assert torch.equal(torch.get_rng_state(), before)
    model.train()
    assert not torch.equal(call(model, ids), call(model, ids))


@law
@given(draw.attentions(st.one_of(draw.causal_masks, draw.open_masks)))
def test_every_heads_output_lies_between_the_least_and_greatest_visible_value(part):
    model = make(S.LanguageModel(S.Embedding(draw.VOCAB), S.Stack(8, ((S.Residual(part),),))))
    attention, ids = model.stack.layers[0].attention, tokens(1, 6)
    seen = {}
    attention.attend.register_forward_hook(lambda _m, args, out: seen.update(args=args, out=out))
    call(model, ids)
    _, _, v, visible, _ = seen["args"]
    v = v.repeat_interleave(part.heads // v.shape[1], 1)
    allowed = visible.tensor(6, 6, v.device)
    allowed = torch.ones(1, 1, 6, 6, dtype=torch.bool) if allowed is None else allowed.expand(1, 1, 6, 6)
    for q in range(6):
        keys = allowed[0, 0, q]
        if not keys.any():
            assert seen["out"][:, :, q].abs().sum() == 0
            continue
        assert (seen["out"][:, :, q] <= v[:, :, keys].amax(2) + 1e-12).all()
        assert (seen["out"][:, :, q] >= v[:, :, keys].amin(2) - 1e-12).all()


def test_the_strategy_draws_what_it_promises():
    found = []

    @law
    @given(draw.models)
    def look(spec):
        text = S.dumps(spec)
        found.extend(
            k for k in ("Rotary", "ALiBi", "RelativeBias", "Parallel", "Window", "EncoderDecoder") if k in text
        )

    look()
    assert set(found) >= {"Rotary", "ALiBi", "RelativeBias", "Parallel", "Window", "EncoderDecoder"}


def test_window_hides_gradients_exactly():
    spec = S.LanguageModel(
        S.Embedding(draw.VOCAB), S.Stack(8, ((S.Residual(S.Attention(2, 4, mask=M.Causal() & M.Window(3))),),))
    )
    model = make(spec)
    embeds = torch.randn(1, 7, 8, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(call(model, None, inputs_embeds=embeds)[0, 5].sum(), embeds)
    assert [bool(g.abs().sum() > 0) for g in grad[0]] == [False, False, False, True, True, True, False]
