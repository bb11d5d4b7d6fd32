"""Learning rates."""

import math

import pytest

from regard.train.schedule import ScheduleConfig, learning_rate
from regard.values import FieldError

KINDS = ["noam", "inverse_sqrt", "cosine", "linear", "constant", "wsd"]


def rates(config, peak, total, **more):
    return [learning_rate(config, s, peak, total, **more) for s in range(1, total + 1)]


def test_claim_B7():
    """d^-0.5 min(s^-0.5, s w^-1.5): the peak is at s = w, 0.000699 for d = 512, w = 4000; no step divides by 0."""
    config = ScheduleConfig("noam", warmup=4000)
    values = [learning_rate(config, s, 0.0, hidden_size=512) for s in (1, 3999, 4000, 4001, 16000)]
    assert values[2] == pytest.approx(0.000699, abs=5e-7)
    assert values[2] == max(values)
    assert values[0] == pytest.approx(512**-0.5 * 4000**-1.5)
    assert values[4] == pytest.approx(values[2] / 2)
    with pytest.raises(ValueError, match="count from 1"):
        learning_rate(config, 0, 0.0)


def test_the_documents_step_zero_is_not_an_update():
    """Claim section 4, item 5: their formula divides by zero at step 0; here the first update has the number 1."""
    assert learning_rate(ScheduleConfig("noam", warmup=0), 1, 0.0, hidden_size=4) == 0.5


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant", "wsd"])
def test_fault_T10(kind):
    """Warm-up 4 to a rate of 1: 0.25, 0.5, 0.75, 1.0; the first update is not wasted."""
    config = ScheduleConfig(kind, warmup=4)
    assert [learning_rate(config, s, 1.0, 100) for s in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("warmup", "share"), [(0, 0.0), (0, 0.5), (10, 0.0), (10, 0.5), (20, 0.5)])
@pytest.mark.parametrize("total", [1, 10])
def test_fault_T11(kind, warmup, share, total):
    """Warm-up 0, decay 0, warm-up = total or beyond: finite, never below the minimum at the end, never 0."""
    config = ScheduleConfig(kind, warmup, minimum=1e-5, decay_share=share)
    found = rates(config, 1e-3, total, hidden_size=512)
    assert all(math.isfinite(r) and r > 0 for r in found)
    if kind != "noam":
        assert max(found) <= 1e-3
        assert found[-1] >= 1e-5


def test_cosine_linear_and_wsd_values():
    assert rates(ScheduleConfig("linear", 0), 1.0, 4) == pytest.approx([0.8, 0.6, 0.4, 0.2])
    cosine = rates(ScheduleConfig("cosine", 1, minimum=0.2), 1.0, 4)
    assert cosine == pytest.approx([1.0, 0.2 + 0.8 * 0.8535534, 0.6, 0.2 + 0.8 * 0.1464466])
    wsd = rates(ScheduleConfig("wsd", 2, decay_share=0.3), 1.0, 10)
    assert wsd == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert learning_rate(ScheduleConfig("cosine", 1, minimum=0.2), 99, 1.0, 4) == pytest.approx(0.2)


def test_bad_values_name_their_field():
    with pytest.raises(FieldError, match="warmup: got -1, must not be negative"):
        ScheduleConfig(warmup=-1)
    with pytest.raises(FieldError, match="decay_share: got 2"):
        ScheduleConfig(decay_share=2)
