"""What a batch says about itself: checked when it comes, kept when a tree is rebuilt, realised once."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree

import regard
from regard import shapes
from regard import spec as S
from regard.errors import InputError
from regard.nn.layout import Context, Layout, Memory, document_turns

DECODER = shapes.decoder(11, 8, 3, 2, positions="alibi")


def ids(*shape):
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(1))


def test_counted_positions_are_told_from_given_ones_after_a_tree_is_rebuilt():
    """Positions 3, 1, 2 under a causal mask: token 0 stands last and sees all; counted anew it would see itself."""
    layout = Layout.of((1, 3), torch.device("cpu"), positions=torch.tensor([3, 1, 2]))
    memory = Memory(torch.zeros(1, 3, 4), layout)
    for again in (_pytree.tree_map(lambda t: t, layout), _pytree.tree_map(lambda t: t, memory).layout):
        assert again.counted is False and again.lengths is None and torch.equal(again.positions, layout.positions)
        visible = Context(again, 3).visible(S.Causal(), "mask")
        assert visible.allowed is not None and visible.allowed[0, 0].tolist() == [
            [True, True, True], [False, True, False], [False, True, True],
        ]  # fmt: skip
    plain = Layout.of((1, 3), torch.device("cpu"))
    assert _pytree.tree_map(lambda t: t, plain).counted is True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lengths": torch.tensor([3, -1])}, "lengths: got -1, a row of this batch has from 0 to 4 tokens"),
        ({"lengths": torch.tensor([5, 2])}, "lengths: got 5, a row of this batch has from 0 to 4 tokens"),
        ({"lengths": torch.tensor([3])}, r"lengths: got torch.int64 \[1\]; give 2 integers"),
        ({"lengths": torch.tensor([3, 2, 1])}, r"lengths: got torch.int64 \[3\]; give 2 integers"),
        ({"lengths": torch.tensor([3.0, 2.0])}, "lengths: got torch.float32"),
        ({"documents": torch.zeros(2, 5, dtype=torch.long)}, r"documents: got \[2, 5\] for tokens \[2, 4\]"),
        ({"positions": torch.arange(3)}, r"positions: got \[3\] for tokens \[2, 4\]"),
        ({"mask": torch.ones(3, 4, dtype=torch.bool)}, "T = 4 and S = 4"),
        ({"mask": torch.ones(4, 5, dtype=torch.bool)}, "T = 4 and S = 4"),
    ],
)
def test_what_does_not_fit_the_batch_is_refused(given, message):
    model = regard.build(DECODER).eval()
    with pytest.raises(InputError, match=message):
        model(ids(2, 4), **given)
    translator = regard.build(shapes.encoder_decoder(11, 8, 1, 2, 16)).eval()
    if "lengths" in given:
        with pytest.raises(InputError, match=message):
            translator(ids(2, 3), source=ids(2, 4), source_lengths=given["lengths"])


def test_lengths_from_0_to_all_are_right():
    model = regard.build(DECODER).eval()
    assert model(ids(2, 4), lengths=torch.tensor([0, 4])).isfinite().all()


def test_a_document_whose_id_comes_again_does_not_see_the_first_one():
    model, text = regard.build(DECODER, dtype=torch.float64).eval(), ids(1, 6)
    packed = model(text, documents=torch.tensor([[7, 7, 3, 3, 7, 7]]))
    assert torch.equal(packed, model(text, documents=torch.tensor([[0, 0, 1, 1, 2, 2]])))
    # one row of one document, through another path of the same kernel: float64 rounding
    assert torch.allclose(packed[:, 4:], model(text[:, 4:]), atol=1e-12, rtol=0)
    assert document_turns(torch.tensor([[7, 7, 3, 7, 3, 3, 7]])).tolist() == [[1, 1, 1, 2, 2, 2, 3]]


@pytest.mark.parametrize("plain", [False, True])
def test_the_causal_mask_is_made_once_a_forward_pass(monkeypatch, plain):
    model, made = regard.build(DECODER).eval(), []
    tril = torch.Tensor.tril
    monkeypatch.setattr(torch.Tensor, "tril", lambda self, *rest: made.append(1) or tril(self, *rest))
    if plain:
        with regard.record(model, "*.probs"):
            model(ids(2, 4))
    else:
        model(ids(2, 4))
    assert len(made) == 1
