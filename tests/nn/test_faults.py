"""Faults that users met in other libraries (masks, positions, caches), each as a test of the right value."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import mask as M
from regard import spec as S
from regard.errors import InputError
from regard.nn.attention import Attend, fused
from regard.nn.build import build_part
from regard.nn.heads import head_loss
from regard.nn.layout import Context, Layout, Visible
from regard.nn.position import ALiBi, RelativeBias, Rotary, Sinusoidal, alibi_slopes, rotate
from tests.laws.strategies import close


def qkv(batch=1, heads=2, queries=6, keys=6, size=4, seed=0, grad=False):
    g = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, heads, n, size, generator=g, dtype=torch.float64).requires_grad_(grad)
        for n in (queries, keys, keys)
    ]


def both(q, k, v, visible, bias=None):
    attend = Attend(q.shape[-1] ** -0.5, None, 0.0)
    return attend.plain(q, k, v, visible, bias), fused(q, k, v, visible, bias, attend.scale)


def lm(attention=None, layers=2, size=8, position=None, dropout=0.0, **rest):
    attention = attention or S.Attention(2, 4, **rest)
    norm = S.RMSNorm()
    layer = (S.Residual(attention, norm, dropout=dropout), S.Residual(S.MLP(12), norm, dropout=dropout))
    model = S.LanguageModel(S.Embedding(11, position), S.Stack(size, (layer,) * layers, norm))
    return regard.build(model, generator=torch.Generator().manual_seed(0), dtype=torch.float64).eval()


def ids(*shape, seed=1):
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(seed))


# ---- masks ----------------------------------------------------------------------------------------------------------


def test_fault_M1_a_row_without_keys_gives_zero_and_finite_gradients():
    q, k, v = qkv(queries=6, keys=10, grad=True)
    allowed = torch.ones(1, 1, 6, 10, dtype=torch.bool)
    allowed[..., 5, :] = False
    for out in both(q, k, v, Visible(allowed=allowed, empty_rows=True)):
        assert out[:, :, 5].abs().sum() == 0
        close(out[:, :, :5], both(q[:, :, :5], k, v, Visible())[0])
        for grad in torch.autograd.grad(out.square().sum(), (q, k, v), retain_graph=True):
            assert grad.isfinite().all() and grad.abs().sum() > 0


def test_fault_M3_both_paths_agree_on_rows_without_keys():
    q, k, v = qkv(batch=2, queries=16, keys=16)
    place = torch.arange(16)
    allowed = (M.Causal() & M.Window(4)).allows(place[:, None], place) & (place < 4)
    plain, fast = both(q, k, v, Visible(allowed=allowed[None, None], empty_rows=True))
    close(plain, fast)
    assert plain[:, :, 8:].abs().sum() == 0 and plain[:, :, :4].abs().min() > 0


def test_fault_M5_nan_in_a_masked_slot_changes_nothing():
    q, k, v = qkv()
    allowed = torch.ones(1, 1, 6, 6, dtype=torch.bool)
    allowed[..., 2] = False
    dirty_k, dirty_v = k.clone(), v.clone()
    dirty_k[:, :, 2], dirty_v[:, :, 2] = torch.nan, torch.nan
    k[:, :, 2], v[:, :, 2] = 0, 0
    visible = Visible(allowed=allowed, empty_rows=True)
    for clean, poisoned in zip(both(q, k, v, visible), both(q, dirty_k, dirty_v, visible), strict=True):
        assert torch.equal(clean, poisoned)
    cache = lm().new_cache(1, 5)
    assert all(t.abs().sum() == 0 for state in cache.states for s in state if s for t in s.tensors().values())


def test_fault_M6_causal_with_more_keys_than_queries_is_aligned_bottom_right():
    expected = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    assert torch.equal(Visible(causal=True).tensor(2, 5, torch.device("cpu")), expected)
    place = torch.arange(5)
    assert torch.equal(M.Causal().allows(place[3:, None], place), expected)
    model, text = lm(), ids(1, 5)
    cache = model.new_cache(1, 5)
    model(text[:, :3], cache=cache)
    close(model(text[:, 3:], cache=cache), model(text)[:, 3:])


def test_fault_M8_true_means_may_attend_in_every_entry():
    q, k, v = qkv()
    only_first = torch.zeros(1, 1, 6, 6, dtype=torch.bool)
    only_first[..., 0] = True
    for out in both(q, k, v, Visible(allowed=only_first)):
        close(out, v[:, :, :1].expand_as(out))
    model, text = lm(), ids(1, 6)
    lower = torch.ones(6, 6, dtype=torch.bool).tril()
    close(model(text, mask=lower), model(text))
    assert M.Causal().allows(3, 2) is True and M.Causal().allows(2, 3) is False


def test_fault_M10_a_per_head_mask_works_the_same_in_train_and_eval():
    model, text = lm(), ids(2, 6)
    g = torch.Generator().manual_seed(4)
    mask = (torch.rand(2, 2, 6, 6, generator=g) < 0.6) | torch.eye(6, dtype=torch.bool)
    with torch.no_grad():
        evaluated = model.eval()(text, mask=mask)
    close(model.train()(text, mask=mask), evaluated)
    close(model(text, mask=mask[:, :1].expand(-1, 2, -1, -1)), model(text, mask=mask[:, 0]))
    with pytest.raises(InputError, match="bool tensor"):
        model(text, mask=mask.float())


def test_fault_M11_no_dropout_after_eval_and_the_global_generator_rests():
    model = lm(S.Attention(2, 4, dropout=0.5), dropout=0.5)
    before = torch.get_rng_state()
    assert torch.equal(model(ids(2, 6)), model(ids(2, 6)))
    assert torch.equal(torch.get_rng_state(), before)


def test_fault_M13_heads_that_do_not_divide_are_refused_at_once():
    with pytest.raises(ValueError, match="kv_heads.*6 query heads cannot share 4 kv heads"):
        S.Attention(6, 8, 4)


def test_fault_M16_tables_are_not_read_out_of_bounds_at_masked_positions():
    """127 entries, length 128, the last position masked: an index past the table is clamped, not read."""
    place = torch.arange(128)
    seen = M.Permuted(tuple(range(127)), itself=True).allows(place[:, None], place)
    assert torch.equal(seen[:127, :127], torch.ones(127, 127, dtype=torch.bool).tril())
    bias = RelativeBias(S.RelativeBias(8, 9), 1)
    assert bias.bucket(torch.tensor([-(10**6), 10**6])).tolist() == [7, 0]
    model, text = lm(mask=M.Permuted(tuple(range(127)), itself=True)), ids(1, 128)
    close(model(text, lengths=torch.tensor([127]))[:, :127], model(text[:, :127]))


def test_fault_M18_padding_is_read_in_self_attention():
    model, text = lm(), ids(2, 6)
    close(model(text, lengths=torch.tensor([6, 3]))[1, :3], model(text[1:, :3])[0])


@pytest.mark.parametrize("length", [43, 77])
def test_fault_M19_odd_lengths_and_block_masks_agree(length):
    documents = (torch.arange(length) // 10)[None]
    model, text = lm(rotary=S.Rotary()), ids(1, length)
    fast = model(text, documents=documents)
    with regard.record(model, "*.probs"):
        close(model(text, documents=documents), fast)
    close(fast[:, 40:50], model(text[:, 40:50]))


# ---- positions ------------------------------------------------------------------------------------------------------


def test_fault_P1_unequal_prompts_keep_their_positions():
    model, text = lm(rotary=S.Rotary(), position=S.Learned(20)), ids(2, 8)
    cache = model.new_cache(2, 12)
    model(text[:, :5], lengths=torch.tensor([2, 5]), cache=cache)
    out = model(torch.stack([text[0, 2], text[1, 5]])[:, None], cache=cache)
    close(out[0, 0], model(text[:1, :3])[0, -1])
    close(out[1, 0], model(text[1:, :6])[0, -1])


def test_fault_P3_phases_are_float32_in_half_precision_models():
    assert torch.tensor(257).to(torch.bfloat16) == 256 and torch.tensor(15962).to(torch.bfloat16) == 15936
    rotary, positions = Rotary(S.Rotary(), 64), torch.tensor([256, 257, 4095, 15962])
    rotary.to(torch.bfloat16)
    context = Context(Layout(positions, counted=False), 4)
    half, full = rotary.turns(context, torch.bfloat16), rotary.turns(context, torch.float32)
    for a, b in zip(half, full, strict=True):
        assert a.dtype == torch.bfloat16 and torch.equal(a, b.to(torch.bfloat16))
    exact = positions[:, None].double() * rotary.frequencies(torch.float64, torch.device("cpu"))
    # float32 angles of up to 16,000 radians are right to 16,000 x 2^-24
    assert (full[0][:, 0] - exact.cos()).abs().max() < 2e-3
    code = Sinusoidal(S.Sinusoidal(), 32)
    assert not torch.equal(code(positions[:1], torch.bfloat16), code(positions[1:2], torch.bfloat16))


def test_fault_P5_half_and_interleaved_rotary():
    cos, sin = torch.tensor([1.0, 0.01]).cos(), torch.tensor([1.0, 0.01]).sin()
    x = torch.tensor([1.0, 0.0, 0.0, 0.0])
    close(rotate(x, cos, sin, interleaved=False), torch.tensor([0.5403, 0, 0.8415, 0]), 1e-4)
    close(rotate(x, cos, sin, interleaved=True), torch.tensor([0.5403, 0.8415, 0, 0]), 1e-4)
    order = torch.tensor([0, 2, 1, 3])  # interleaved weights permuted to halves give equal scores
    q, k = torch.randn(2, 4)
    halves = rotate(q[order], cos, sin, False) @ k[order]
    close(halves, rotate(q, cos, sin, True) @ k, 1e-5)


def test_fault_P6_alibi_slopes_for_any_number_of_heads():
    twelve = [2.0**-i for i in range(1, 9)] + [0.707107, 0.353553, 0.176777, 0.088388]
    assert alibi_slopes(12) == pytest.approx(twelve, abs=1e-6)
    assert alibi_slopes(6) == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]


def test_fault_P8_alibi_in_a_cached_step():
    model = lm(score_bias=S.ALiBi())
    cache = model.new_cache(1, 6)
    model(ids(1, 5), cache=cache)
    cache.reserve(1, None, None)
    context = Context(Layout(cache.next_positions(1), counted=False), 1, cache=cache)
    row = ALiBi(S.ALiBi(), 2)(torch.zeros(1, 2, 1, 4), context)[0, 0]
    assert row.tolist() == [-alibi_slopes(2)[0] * d for d in (5, 4, 3, 2, 1, 0)]


def test_fault_P10_relative_bias_in_a_cached_step():
    model, text = lm(score_bias=S.RelativeBias(8, 9)), ids(1, 6)
    model.stack.layers[0].attention.score_bias.weight.data.normal_()
    cache = model.new_cache(1, 6)
    model(text[:, :5], cache=cache)
    close(model(text[:, 5:], cache=cache)[0, 0], model(text)[0, 5])


def test_fault_P11_relative_buckets():
    both_ways = RelativeBias(S.RelativeBias(32, 128, True), 1).bucket(torch.tensor([-1, 0, 1, -8, 8, 16, 128]))
    assert both_ways.tolist() == [1, 0, 17, 8, 24, 26, 31]
    causal = RelativeBias(S.RelativeBias(32, 128), 1).bucket(torch.tensor([-15, -16, -127, 1, 90]))
    assert causal.tolist() == [15, 16, 31, 0, 0]


def test_fault_P21_the_rotary_dimension_is_the_heads_own():
    model = lm(S.Attention(4, 32, rotary=S.Rotary()), size=64)
    assert model.stack.layers[0].attention.rotary.dim == 32


def test_fault_P23_the_embedding_scale_is_rounded_to_the_activations():
    model = regard.build(S.LanguageModel(S.Embedding(3, scale=3072**0.5), S.Stack(4, ())), dtype=torch.bfloat16)
    out = model(torch.tensor([[1]]), hidden=True)
    assert torch.equal(out[0, 0], model.embedding.weight[1] * 55.5) and round(math.sqrt(3072), 4) == 55.4256


@pytest.mark.parametrize("part", [S.LayerNorm(), S.RMSNorm(), S.RMSNorm(offset=1.0)])
def test_fault_T16_norm_statistics_are_float32_in_half_precision(part):
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(0)) * 3 + 5
    exact, half = build_part(part, 512), build_part(part, 512).to(torch.bfloat16)
    low = x.to(torch.bfloat16)
    # one rounding of the result (2^-8) is allowed; statistics in bfloat16 would be off by several
    assert torch.allclose(half(low).float(), exact(low.float()), rtol=2**-7, atol=2**-8)


def test_fault_L1_and_L2_labels_are_shifted_once_and_within_their_row():
    model, text = lm(), ids(2, 6)
    loss, nll = head_loss(model, model(text[:, :-1], hidden=True), text[:, 1:])
    logits = model(text)[:, :-1]
    close(nll, torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten(), reduction="sum"))
    other = text.clone()
    other[1, 0] = (other[1, 0] + 1) % 11
    first = [head_loss(model, model(t[:1, :-1], hidden=True), t[:1, 1:])[0] for t in (text, other)]
    assert torch.equal(*first) and loss > 0


# ---- cache ----------------------------------------------------------------------------------------------------------


def test_fault_K1_a_window_of_three_sees_itself_and_two():
    assert [k for k in range(9) if (M.Causal() & M.Window(3)).allows(5, k)] == [3, 4, 5]


def test_fault_K3_a_prompt_longer_than_the_window_in_one_prefill():
    model, text = lm(mask=M.Causal() & M.Window(4)), ids(1, 11)
    cache = model.new_cache(1, 11)
    close(model(text[:, :10], cache=cache), model(text)[:, :10])
    close(model(text[:, 10:], cache=cache), model(text)[:, 10:])


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_fault_K10_full_chunked_and_stepwise_agree(chunk):
    model, text = lm(kv_heads=1, rotary=S.Rotary()), ids(2, 9)
    cache = model.new_cache(2, 9)
    out = [model(text[:, i : i + chunk], cache=cache) for i in range(0, 9, chunk)]
    close(torch.cat(out, 1), model(text))


def test_fault_K11_one_position_is_computed_a_step_after_the_prefill():
    model, seen = lm(), []
    model.stack.layers[0].register_forward_hook(lambda _m, args, _o: seen.append(args[0].shape[1]))
    cache = model.new_cache(1, 9)
    model(ids(1, 5), cache=cache)
    for _ in range(3):
        model(ids(1, 1), cache=cache)
    assert seen == [5, 1, 1, 1]


def test_a_full_cache_is_told_and_rollback_forgets():
    model, text = lm(rotary=S.Rotary()), ids(1, 7)
    cache = model.new_cache(1, 7)
    model(text[:, :4], cache=cache)
    mark = cache.mark()
    model(ids(1, 3, seed=9), cache=cache)
    with pytest.raises(InputError, match="holds 7 tokens, 8 are needed"):
        model(text[:, :1], cache=cache)
    cache.rollback(mark)
    close(model(text[:, 4:], cache=cache), model(text)[:, 4:])


def test_beams_as_queries_equal_beams_as_rows():
    """Three beams of a sentence are three queries at one position; `mask` says whose ancestors they see."""
    model, text = lm(rotary=S.Rotary(), score_bias=S.ALiBi()), ids(1, 2)
    cache = model.new_cache(1, 20)
    model(text, cache=cache)
    new = torch.tensor([[3, 4, 5]])
    visible = torch.cat([torch.ones(1, 3, 2, dtype=torch.bool), torch.eye(3, dtype=torch.bool)[None]], -1)
    model(new, cache=cache, positions=torch.full((1, 3), 2), mask=visible)
    parents = torch.tensor([2, 0, 0])
    visible = torch.cat([visible[:, parents], torch.eye(3, dtype=torch.bool)[None]], -1)
    newer = torch.tensor([[6, 7, 8]])
    out = model(newer, cache=cache, positions=torch.full((1, 3), 3), mask=visible)
    for beam in range(3):
        path = torch.cat([text[0], new[0, parents[beam]][None], newer[0, beam][None]])
        close(out[0, beam], model(path[None])[0, -1])
