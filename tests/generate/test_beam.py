"""Beam search against tables and against the search that tries everything."""

import math

import pytest
import torch

from regard.errors import FailureError, InputError
from regard.generate import BeamSearch, Constraints, Sampler
from tests.generate.toys import Table, every_sequence

END = 0


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_wide_search_finds_what_trying_everything_finds(penalty: float, limit: int) -> None:
    sentences = [11, 12, 13]
    found = BeamSearch(200, penalty, 5 if limit > 1 else 3, (END,)).run(Table(4, sentences), [limit] * 3)
    for number, hypotheses in enumerate(found):
        truth = every_sequence(Table(4, sentences), number, END, limit, penalty)[: len(hypotheses)]
        assert [tuple(h.ids) for h in hypotheses] == [ids for _, ids in truth]
        assert [h.score for h in hypotheses] == pytest.approx([s for s, _ in truth], abs=1e-5)


def test_fault_B2() -> None:
    """A finished -2.0 at length 2 does not stop a running -1.5 whose best reachable score is -1.5 / 4."""
    p = math.exp
    table = {
        (): [0.0, p(-1.0), 1 - p(-1.0)],
        (1,): [p(-1.0), p(-0.5), 1 - p(-1.0) - p(-0.5)],  # the end: -2.0, score -1.0; go on: -1.5
        (1, 1): [1e-9, 1 - 1e-9, 0.0],
        (1, 1, 1): [1 - 1e-9, 1e-9, 0.0],
    }
    best = BeamSearch(3, 1.0, 1, (END,)).run(Table(3, [table]), [4])[0][0]
    assert best.ids == [1, 1, 1, END]
    assert best.score == pytest.approx(-1.5 / 4, abs=1e-6)


@pytest.mark.parametrize(("penalty", "steps"), [(0.0, 1), (-1.0, 1), (1.0, 3)])
def test_fault_B2_stops_as_soon_as_nothing_can_win(penalty: float, steps: int) -> None:
    """Finished at -0.5 (length 1), running at -0.93: only with a penalty above 0 can it still win."""
    first = math.exp(-0.5)
    table: dict[tuple[int, ...], list[float]] = {(): [first, 1 - first]}
    for length in range(1, 4):
        table[(1,) * length] = [0.5, 0.5]
    taken = []
    BeamSearch(2, penalty, 1, (END,)).run(Table(2, [table]), [4], lambda length, running: taken.append(length))
    assert len(taken) == steps if steps == 1 else len(taken) > 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_fault_B1(penalty: float) -> None:
    """A sentence alone = in batches of 2, 5 and 30, with limits of their own."""
    sentences, limits = list(range(30)), [3 + i % 7 for i in range(30)]
    search = BeamSearch(3, penalty, 2, (END,))
    alone = [search.run(Table(6, [s]), [m])[0] for s, m in zip(sentences, limits, strict=True)]
    for size in (2, 5, 30):
        for start in range(0, 30, size):
            part = slice(start, start + size)
            assert search.run(Table(6, sentences[part]), limits[part]) == alone[part]


def test_fault_B4_length_counts_new_tokens_only() -> None:
    """A: -2.0 with 2 tokens, B: -2.7 with 4. B wins: -0.675 > -1.0, whatever the prompt's length."""
    p = math.exp
    table = {
        (): [0.0, p(-1.0), p(-0.7), 1 - p(-1.0) - p(-0.7)],
        (1,): [p(-1.0), 1e-9, 1e-9, 0.0],
        (2,): [1e-9, p(-1.0), 1e-9, 0.0],
        (2, 1): [1e-9, p(-0.5), 1e-9, 0.0],
        (2, 1, 1): [p(-0.5), 1e-9, 1e-9, 0.0],
    }
    for prefix, row in table.items():
        table[prefix] = [*row[:3], 1 - sum(row[:3])]
    a, b = (1, END), (2, 1, 1, END)
    scores = {tuple(h.ids): h.score for h in BeamSearch(40, 1.0, 30, (END,)).run(Table(4, [table]), [4])[0]}
    assert scores[a] == pytest.approx(-1.0, abs=1e-6)
    assert scores[b] == pytest.approx(-0.675, abs=1e-6)


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
def test_fault_B6(penalty: float) -> None:
    """Token scores add up to the sequence's, and are the model's own."""
    for sentence in range(8):
        table = Table(5, [sentence])
        for found in BeamSearch(4, penalty, 4, (END,)).run(Table(5, [sentence]), [7])[0]:
            assert len(found.logprobs) == len(found.ids)
            assert sum(found.logprobs) / len(found.ids) ** penalty == pytest.approx(found.score, abs=1e-6)
            own = [float(table.logprobs(sentence, tuple(found.ids[:t]))[i]) for t, i in enumerate(found.ids)]
            assert found.logprobs == pytest.approx(own, abs=1e-6)
            assert found.finish_reason == ("stop" if found.ids[-1] == END else "length")


def test_fault_B7() -> None:
    """The best does not depend on how many are asked for; and more only adds to fewer."""
    sentences = list(range(40))
    full = BeamSearch(5, 1.0, 5, (END,)).run(Table(6, sentences), [8] * 40)
    for n in (1, 2, 4):
        found = BeamSearch(5, 1.0, n, (END,)).run(Table(6, sentences), [8] * 40)
        assert found == [hypotheses[:n] for hypotheses in full]
    assert all(len(h) == 5 and h == sorted(h, key=lambda f: -f.score) for h in full)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_fault_B13(penalty: float) -> None:
    """Beam 1 = greedy."""
    sentences, limits = list(range(40)), [9] * 40
    beam = BeamSearch(1, penalty, 1, (END,)).run(Table(5, sentences), limits)
    greedy = Sampler(ends=(END,)).run(Table(5, sentences), limits, [None] * 40, torch.zeros(40, 1).long(), None)
    assert [h[0].ids for h in beam] == [g.ids for g in greedy]
    assert [h[0].finish_reason for h in beam] == [g.finish_reason for g in greedy]
    assert len({len(g.ids) for g in greedy}) > 3


def test_finished_sentences_leave_the_batch() -> None:
    """One long sentence among short ones: the work shrinks."""
    short = {(): [1.0, 0.0], **{(1,) * n: [1.0, 0.0] for n in range(1, 9)}}
    long = {(1,) * n: [0.0, 1.0] for n in range(9)}
    table = Table(2, [short] * 9 + [long])
    found = BeamSearch(1, 1.0, 1, (END,)).run(table, [8] * 10)
    assert table.sizes == [1] * 7
    assert [h[0].ids for h in found] == [[END]] * 9 + [[1] * 8]


def test_several_ends() -> None:
    found = BeamSearch(30, 1.0, 30, (0, 1)).run(Table(4, [3]), [4])[0]
    assert {h.ids[-1] for h in found if h.finish_reason == "stop"} == {0, 1}
    assert all(0 not in h.ids[:-1] and 1 not in h.ids[:-1] for h in found)


def test_no_repeated_ngrams() -> None:
    sentences, free = list(range(20)), 0
    for n in (1, 2, 3):
        for hypotheses in BeamSearch(3, 1.0, 3, (END,), Constraints((), n)).run(Table(5, sentences), [12] * 20):
            for h in hypotheses:
                grams = [tuple(h.ids[i : i + n]) for i in range(len(h.ids) - n + 1)]
                assert len(grams) == len(set(grams))
    for hypotheses in BeamSearch(3, 1.0, 3, (END,)).run(Table(5, sentences), [12] * 20):
        free += sum(len(h.ids) > len(set(h.ids)) for h in hypotheses)
    assert free > 0


def test_banned_sequences_and_brute_force() -> None:
    """The best of all sequences without the banned ones; the probabilities stay the model's."""
    banned = ((2,), (1, 3), (3, 3, 1))

    def clean(ids: tuple[int, ...]) -> bool:
        return not any(ids[i : i + len(b)] == b for b in banned for i in range(len(ids)))

    for sentence in range(6):
        truth = [(s, i) for s, i in every_sequence(Table(4, [sentence]), 0, END, 5, 1.0) if clean(i)]
        found = BeamSearch(300, 1.0, 4, (END,), Constraints(banned)).run(Table(4, [sentence]), [5])[0]
        assert [tuple(h.ids) for h in found] == [ids for _, ids in truth[:4]]
        assert [h.score for h in found] == pytest.approx([s for s, _ in truth[:4]], abs=1e-5)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="beams: got 0"):
        BeamSearch(0)
    with pytest.raises(InputError, match="n_best: got 3, must be from 1 to the number of beams, 2"):
        BeamSearch(2, n_best=3)
    with pytest.raises(FailureError, match="sentence 0: no token may follow"):
        BeamSearch(2, constraints=Constraints(((0,), (1,)))).run(Table(2, [1]), [3])
