"""Losses: what is counted, what is shifted, and label smoothing."""

import math

import pytest
import torch
import torch.nn.functional as F
from toys import END, PAD, VOCAB, make_batch, make_model, make_pairs

from regard import shapes
from regard.nn import build
from regard.train.objectives import IGNORED, CausalLM, Seq2Seq, TokenBatch, label_smoothed_nll, seq2seq_inputs


def language_model():
    made = shapes.decoder(VOCAB, 16, 1, 2, context=16)
    return build(made, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


IDS = torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


def test_fault_L1():
    """The loss of ids is cross-entropy of logits[:, :-1] against ids[:, 1:]: shifted once."""
    model = language_model()
    total, count, _ = CausalLM()(model, TokenBatch(IDS, (4, 4)))["loss"]
    logits = model(IDS)[:, :-1]
    expected = F.cross_entropy(logits.reshape(-1, VOCAB), IDS[:, 1:].reshape(-1), reduction="sum")
    assert count == 6
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=0)
    assert seq2seq_inputs([5, 6], 1, 2) == ([1, 5, 6], [5, 6, 2])


def test_fault_L2():
    """Changing row 2's first token moves no loss of row 1."""
    model = language_model()
    changed = IDS.clone()
    changed[1, 0] = 12
    batches = [TokenBatch(ids, (4, 4), torch.stack([ids[0], torch.full((4,), IGNORED)])) for ids in (IDS, changed)]
    first, second = (CausalLM()(model, b)["loss"] for b in batches)
    assert first[1] == second[1] == 3
    assert torch.equal(first[0], second[0])
    both = CausalLM()(model, TokenBatch(changed, (4, 4)))["loss"][0]
    assert not torch.equal(both, CausalLM()(model, TokenBatch(IDS, (4, 4)))["loss"][0])


@pytest.mark.parametrize("convention", ["uniform", "others"])
def test_fault_L4(convention):
    """Smoothing without any padding works; a target equal to the padding class is a class like any other and finite."""
    logits = torch.randn(4, VOCAB, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    loss, nll = label_smoothed_nll(logits, torch.tensor([PAD, 3, 4, PAD]), 0.1, convention)
    assert math.isfinite(loss.item())
    expected = F.cross_entropy(logits, torch.tensor([PAD, 3, 4, PAD]), reduction="sum")
    torch.testing.assert_close(nll, expected)
    ignored, _ = label_smoothed_nll(logits, torch.tensor([IGNORED, 3, IGNORED, IGNORED]), 0.1, convention)
    alone, _ = label_smoothed_nll(logits[1:2], torch.tensor([3]), 0.1, convention)
    torch.testing.assert_close(ignored, alone)
    none, count = label_smoothed_nll(logits, torch.full((4,), IGNORED), 0.1, convention)
    assert (none.item(), count.item()) == (0.0, 0.0)


def test_fault_L6():
    """With pad = end, the real end token is trained and only padding is left out: told by lengths, not by the id."""
    pairs = [([3, 4], [5]), ([3, 4, 5], [6, 7, 8])]
    batch = make_batch(pairs, (0, 1), pad=END)
    assert batch.labels.tolist() == [[5, END, IGNORED, IGNORED], [6, 7, 8, END]]
    model = make_model(dropout=0.0, dtype=torch.float64)
    total, count, _ = Seq2Seq()(model, batch)["loss"]
    singles = [Seq2Seq()(model, make_batch([p], (0,)))["loss"][0] for p in pairs]
    assert count == 6
    torch.testing.assert_close(total, sum(singles), rtol=1e-10, atol=0)
    rows = TokenBatch(torch.tensor([[5, END, END, END], [6, 7, 8, END]]), (2, 4))
    assert rows.targets.tolist() == [[END, IGNORED, IGNORED], [7, 8, END]]
    assert rows.tokens == 4


def test_claim_B6():
    """Smoothing 0.1 of 5 classes: eps/(K-1) gives .900 and .025, eps/K .92 and .02; it is cross-entropy, not KL."""
    logits = torch.tensor([[1.0, 2.0, 0.0, -1.0, 0.5]], dtype=torch.float64)
    logp = torch.log_softmax(logits[0], -1)
    for convention, right, other in (("others", 0.900, 0.025), ("uniform", 0.92, 0.02)):
        target = torch.full((5,), other, dtype=torch.float64)
        target[1] = right
        assert target.sum().item() == pytest.approx(1.0)
        loss, _ = label_smoothed_nll(logits, torch.tensor([1]), 0.1, convention)
        assert loss.item() == pytest.approx(-(target * logp).sum().item(), rel=1e-12)
        divergence = F.kl_div(logp, target, reduction="sum").item()
        entropy = -(target * target.log()).sum().item()
        assert loss.item() == pytest.approx(divergence + entropy, rel=1e-12)
    torchs = F.cross_entropy(logits, torch.tensor([1]), label_smoothing=0.1)
    torch.testing.assert_close(label_smoothed_nll(logits, torch.tensor([1]), 0.1, "uniform")[0], torchs)


def test_the_objective_is_the_plain_formula():
    """Through the model's head, fused or not: the smoothed loss of all logits, in float64."""
    model = make_model(dropout=0.0, dtype=torch.float64)
    batch = make_batch(make_pairs(5), range(5))
    logits = model(
        batch.inputs, source=batch.source, source_lengths=batch.source_lengths, lengths=batch.lengths
    ).flatten(0, 1)
    for convention in ("uniform", "others"):
        expected = label_smoothed_nll(logits, batch.labels.flatten(), 0.2, convention)
        found = Seq2Seq(0.2, convention)(model, batch)
        torch.testing.assert_close(found["loss"][0], expected[0], rtol=1e-10, atol=0)
        torch.testing.assert_close(found["nll"][0], expected[1], rtol=1e-10, atol=0)
        assert found["loss"][1:] == (batch.tokens, 1.0)
        assert found["nll"][2] == 0.0
