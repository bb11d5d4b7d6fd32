"""Worked numbers that teaching texts print, recomputed with the library's own parts. Named after the claims' ids."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import mask as M
from regard import spec as S
from regard.nn.attention import Attend, fused
from regard.nn.layout import Visible
from regard.nn.position import Rotary, Sinusoidal, alibi_slopes, rotate
from tests.laws.strategies import close

CPU = torch.device("cpu")


def codes(count: int, size: int = 512) -> torch.Tensor:
    return Sinusoidal(S.Sinusoidal(), size)(torch.arange(count), torch.float64)


def attend(q, k, v, scale, allowed=None):
    parts = [torch.tensor(x, dtype=torch.float64)[None, None] for x in (q, k, v)]
    visible = Visible() if allowed is None else Visible(allowed=allowed[None, None])
    return Attend(scale, None, 0.0).plain(*parts, visible, None)[0, 0]


def weights(scores, allowed=None):
    """softmax of given scores through Attend: the identity as keys and values gives the weights back."""
    n = len(scores[0])
    return attend(scores, torch.eye(n).tolist(), torch.eye(n).tolist(), 1.0, allowed)


def test_claim_A1_and_A3_low_dimensions_change_fast():
    wavelengths = [2 * math.pi * 10000 ** (2 * i / 512) for i in (0, 128, 255)]
    assert wavelengths == pytest.approx([6.283, 628.3, 60611], rel=1e-4)
    code = codes(3)
    for pair, wavelength in zip((0, 128, 255), wavelengths, strict=True):
        assert code[1, 2 * pair].item() == pytest.approx(math.sin(2 * math.pi / wavelength))
    change = (code[1] - code[0]).abs()
    assert change[0] > change[256] > change[510]


def test_claim_A2_neighbouring_codes_have_a_cosine_of_0_973():
    code = codes(2)
    assert torch.cosine_similarity(code[0], code[1], dim=0).item() == pytest.approx(0.973, abs=5e-4)


def test_claim_A4_rotary_frequencies():
    last = {d: Rotary(S.Rotary(), d).frequencies(torch.float64, CPU)[-1].item() for d in (64, 128)}
    assert last[64] == pytest.approx(0.0001334, rel=1e-3)
    assert 2 * math.pi / last[64] == pytest.approx(47117, abs=1) and 2 * math.pi / last[128] == pytest.approx(
        54410, abs=1
    )


def test_claim_A7_alibi_is_a_penalty_that_grows_with_distance():
    spec = S.LanguageModel(S.Embedding(5), S.Stack(8, ((S.Residual(S.Attention(2, 4, score_bias=S.ALiBi())),),)))
    model = regard.build(spec)
    seen = {}
    attention = model.stack.layers[0].attention
    attention.attend.register_forward_hook(lambda _m, args, _o: seen.update(bias=args[4]))
    model(torch.zeros(1, 4, dtype=torch.long))
    assert seen["bias"][1, 3].tolist() == [-alibi_slopes(2)[1] * d for d in (3, 2, 1, 0)]


def test_claim_A9_permutation_mask_of_order_2_0_3_1():
    drawn = [[int(M.Permuted((2, 0, 3, 1)).allows(q, k)) for k in range(4)] for q in range(4)]
    assert drawn == [[0, 0, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]]
    place = torch.arange(4)
    assert M.Permuted((2, 0, 3, 1)).allows(place[:, None], place).int().tolist() == drawn


def test_claim_A10_padding_causal_and_combined_masks():
    causal = M.Causal().draw(5)
    both = (M.Causal() & M.Prefix(3)).draw(5)
    assert causal == "# . . . .\n# # . . .\n# # # . .\n# # # # .\n# # # # #"
    assert both == "# . . . .\n# # . . .\n# # # . .\n# # # . .\n# # # . ."


def test_claim_A11_mean_visible_context_is_half_of_n_plus_one():
    n = 10
    visible = [sum(M.Causal().allows(q, k) for k in range(n)) for q in range(n)]
    assert sum(visible) / n == 5.5 and sum(visible) / n**2 == pytest.approx(0.55)


def test_claim_A12_nan_only_in_a_row_without_keys_and_minus_1e9_attends_to_forbidden_keys():
    row = torch.full((4,), -torch.inf)
    assert torch.softmax(row, -1).isnan().all()
    assert torch.softmax(torch.full((4,), -1e9), -1).tolist() == [0.25] * 4
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(2, dtype=torch.float16).masked_fill_(torch.tensor([True, False]), -1e9)
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    for path in (lambda *a: Attend(1.0, None, 0.0).plain(*a, None), lambda *a: fused(*a, None, 1.0)):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            q, k, v = (torch.ones(1, 1, n, 2, dtype=dtype) for n in (1, 3, 3))
            out = path(q, k, v, Visible(allowed=nothing[None, None], empty_rows=True))
            assert out.tolist() == [[[[0.0, 0.0]]]]


def test_claim_A14_softmax_of_the_three_scores():
    assert weights([[0.2, 1.0, 0.7]])[0].tolist() == pytest.approx([0.205, 0.457, 0.338], abs=1e-3)


def test_claim_A15_softmax_rows_sum_to_one():
    rows = weights([[0.4234, 0.0781, 0.2985], [0.2123, 0.4234, 0.0643]])
    assert torch.allclose(rows.sum(-1), torch.ones(2, dtype=torch.float64))


def test_claim_A18_sinusoidal_codes_are_unique_and_have_no_common_period():
    # |PE(p) - PE(p + k)| depends on k alone (claim B5), so all distances are those from position 0
    distances = (codes(10_000)[1:] - codes(1)).norm(dim=-1)
    assert distances.min().item() == pytest.approx(3.71, abs=0.01)


def test_claim_A21_rotation_keeps_norms():
    cos, sin = torch.tensor([70000.0, 7.0]).cos(), torch.tensor([70000.0, 7.0]).sin()
    q, k = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    turned = rotate(q, cos, sin, False)
    assert turned.norm().item() == pytest.approx(q.norm().item(), rel=1e-6)
    assert abs(turned @ k) <= q.norm() * k.norm()


def test_claim_B1_attention_of_x_with_itself():
    x = [[1, 0.5], [0.8, 1], [0.5, 0.9]]
    got = attend(x, x, torch.eye(3).tolist(), 2**-0.5)
    expected = [[0.352, 0.364, 0.284], [0.306, 0.389, 0.306], [0.298, 0.381, 0.322]]
    assert torch.allclose(got, torch.tensor(expected, dtype=torch.float64), atol=6e-4)
    out = attend(x, x, x, 2**-0.5)
    values = [[0.785, 0.796], [0.769, 0.817], [0.763, 0.819]]
    assert torch.allclose(out, torch.tensor(values, dtype=torch.float64), atol=6e-4)


def test_claim_B2_and_B3_scores_and_softmax():
    q, k = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], [[0, 1, 0, 1], [1, 1, 1, 1], [2, 2, 2, 2]]
    assert (torch.tensor(q) @ torch.tensor(k).T)[0].tolist() == [0, 2, 4]
    got = attend(q, k, torch.eye(3).tolist(), 0.5)
    expected = [[0.090, 0.245, 0.665], [0.107, 0.107, 0.787], [0.042, 0.114, 0.844]]
    assert torch.allclose(got, torch.tensor(expected, dtype=torch.float64), atol=6e-4)


def test_claim_B4_sinusoidal_codes():
    code = codes(4)
    for position, expected in ((1, (0.822, 0.570)), (2, (0.936, -0.351)), (3, (0.245, -0.970))):
        assert code[position, 2:4].tolist() == pytest.approx(expected, abs=6e-4)
    assert code[1, 4:6].tolist() == pytest.approx((0.802, 0.597), abs=6e-4)
    assert code[3, 511].item() == pytest.approx(math.cos(3 / 9646.6), abs=1e-9)


def test_claim_B5_equal_distances_between_equally_distant_codes():
    code = codes(11)
    assert (code[5] - code[10]).norm().item() == pytest.approx((code[1] - code[6]).norm().item(), rel=1e-12)


def test_claim_B10_attention_without_positions_is_equivariant_not_invariant():
    spec = S.Encoder(S.Embedding(9), S.Stack(8, ((S.Residual(S.Attention(2, 4, mask=M.Everything())),),)))
    model = regard.build(spec, dtype=torch.float64).eval()
    text, order = torch.tensor([[1, 2, 3, 4]]), [3, 1, 0, 2]
    out = model(text)
    close(model(text[:, order]), out[:, order])
    assert (model(text[:, order]) - out).abs().max() > 1e-3
    close(model(text[:, order]).mean(1), out.mean(1))


def test_claim_code_3_only_the_last_two_axes_are_transposed():
    """A batch of q k^T must not reverse all axes."""
    q, k = torch.randn(2, 2, 3, 5, 4)
    v = torch.eye(5).expand(2, 3, 5, 5)
    out = Attend(1.0, None, 0.0).plain(q, k, v, Visible(), None)
    close(out, torch.einsum("bhtd,bhsd->bhts", q, k).softmax(-1), 1e-6)


def test_claim_code_2_rotary_positions_belong_to_time_not_to_heads():
    """With as many heads as positions a wrong broadcast would be silent."""
    from regard.nn.layout import Context, Layout

    rotary = Rotary(S.Rotary(), 4)
    x = torch.ones(1, 3, 3, 4, dtype=torch.float64)  # [B, T, H, D]
    turned = rotary(x, Context(Layout(torch.arange(3)), 3))
    assert torch.equal(turned[:, :, 0], turned[:, :, 2]) and not torch.equal(turned[:, 0], turned[:, 2])
