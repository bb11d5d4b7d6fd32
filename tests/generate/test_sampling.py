"""Greedy decoding and sampling."""

import math

import pytest
import torch

from regard.errors import FailureError, InputError
from regard.generate.constraints import Constraints, repetition_penalty
from regard.generate.sampling import Sampler, StopWatch, keep
from tests.generate.toys import Table

NONE = torch.zeros(64, 1, dtype=torch.int64)


def run(sampler, sentences, seeds, limit=12):  # type: ignore[no-untyped-def]
    return sampler.run(Table(6, sentences), [limit] * len(sentences), seeds, NONE[: len(sentences)], None)


@pytest.mark.parametrize("top_p", [0.0, 1e-8, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fault_G5(top_p: float, dtype: torch.dtype) -> None:
    probs, ids = keep(torch.tensor([[0.1, 3.0, 0.2]], dtype=dtype), 1.0, top_p=top_p)
    assert ids[0, 0] == 1
    assert (probs > 0).tolist() == [[True, False, False]]
    assert Sampler(1.0, top_p=top_p).choose(torch.tensor([[0.1, 3.0, 0.2]]), torch.tensor([0.999999])).tolist() == [1]


@pytest.mark.parametrize(("top_p", "kept"), [(0.75, 2), (0.8, 2), (0.85, 3), (0.9, 3), (1.0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fault_G6(top_p: float, kept: int, dtype: torch.dtype) -> None:
    logits = torch.tensor([[0.1, 0.5, 0.1, 0.3]], dtype=dtype).log()
    probs, ids = keep(logits, 1.0, top_p=top_p)
    assert int((probs > 0).sum()) == kept
    assert ids[0, :2].tolist() == [1, 3]


def test_fault_G8() -> None:
    """Seen three times counts once: 4 / 2 = 2; a negative logit gets smaller."""
    seen = torch.zeros(1, 3, dtype=torch.bool).scatter_(1, torch.tensor([[0, 0, 0, 1]]), True)
    assert repetition_penalty(torch.tensor([[4.0, -1.0, 4.0]]), seen, 2.0).tolist() == [[2.0, -2.0, 4.0]]


def test_fault_G10() -> None:
    """Seed 42 alone, with an unseeded neighbour, and in batches, in any place: the same tokens."""
    sampler = Sampler(1.0, ends=(0,))
    alone = run(sampler, [7], [42])[0]
    assert run(sampler, [7, 8], [42, None])[0] == alone
    assert run(sampler, [8, 9, 7, 1], [42, 1, 42, None])[2] == alone
    others = [run(sampler, [7], [seed])[0].ids for seed in range(8)]
    assert len({tuple(ids) for ids in others}) > 4


def test_fault_G11() -> None:
    sampler = Sampler(1.0, ends=(0,))
    state = torch.get_rng_state()
    assert run(sampler, [1, 2, 3], [42] * 3) == run(sampler, [1, 2, 3], [42] * 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_draws_follow_the_distribution() -> None:
    """10,000 draws: each share within 4 standard deviations, at temperature 1 and 2, with top-k."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    uniform = torch.rand(10_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for temperature, top_k in ((1.0, 0), (2.0, 0), (1.0, 2)):
        drawn = Sampler(temperature, top_k).choose(logits.expand(10_000, -1), uniform)
        shares = torch.bincount(drawn, minlength=4) / 10_000
        truth = (logits / temperature).softmax(0)
        if top_k:
            truth = torch.tensor([0.625, 0.375, 0.0, 0.0])
        assert (shares - truth).abs().max() < 4 * math.sqrt(0.25 / 10_000)
        assert shares[truth == 0].sum() == 0


def test_a_tiny_temperature_is_greedy() -> None:
    greedy = run(Sampler(0.0, ends=(0,)), list(range(9)), [None] * 9)
    assert run(Sampler(1e-30, ends=(0,)), list(range(9)), [1] * 9) == greedy


def test_logprobs_are_those_of_the_raw_logits() -> None:
    table = Table(6, [5])
    for sampler in (
        Sampler(0.7, 3, 0.9),
        Sampler(1.0, constraints=Constraints(((1,),))),
        Sampler(repetition_penalty=3.0),
    ):
        found = run(sampler, [5], [3])[0]
        own = [float(table.logprobs(5, tuple(found.ids[:t]))[i]) for t, i in enumerate(found.ids)]
        assert found.logprobs == pytest.approx(own, abs=1e-6)
        assert found.finish_reason == "length"
        assert len(found.ids) == 12


def test_the_repetition_penalty_counts_the_prompt() -> None:
    flat = {(): [0.4, 0.3, 0.3]}
    table, prompt = Table(3, [flat, flat]), torch.tensor([[0], [1]])
    # log-probabilities are negative, so a seen token's becomes 3 times as small
    found = Sampler(repetition_penalty=3.0).run(table, [1, 1], [None, None], prompt, None)
    assert [f.ids for f in found] == [[1], [0]]


class Pieces:
    """A tokenizer that knows only how to stream: token i is piece i."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def stream(self):  # type: ignore[no-untyped-def]
        return self

    def push(self, i: int) -> str:
        return self.pieces[i]

    def finish(self) -> str:
        return ""


def test_fault_G3() -> None:
    """A stop string across four tokens, with text before and after it in the first and last one."""
    watch = StopWatch(Pieces("?>", "<|", "end", "|>>"), ["<|end|>"], 1)
    assert [watch.push(0, i) for i in range(4)] == [False, False, False, True]
    assert watch.finish() == ["?>"]
    first = StopWatch(Pieces("ab", "cXdY"), ["Y", "X", "bc"], 1)
    assert [first.push(0, i) for i in range(2)] == [False, True]
    assert first.finish() == ["a"]


def test_values_out_of_range_are_refused() -> None:
    for name, value in (("temperature", -1.0), ("top_k", -1), ("top_p", 1.5), ("repetition_penalty", 0.0)):
        with pytest.raises(InputError, match=f"{name}: got {value}"):
            Sampler(**{name: value})
    with pytest.raises(FailureError, match="no token may follow"):
        run(Sampler(constraints=Constraints(tuple((i,) for i in range(6)))), [1], [None])
