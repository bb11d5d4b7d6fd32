"""The loop: exact accumulation, clipping, scaler, divergence, stopping."""

import dataclasses

import pytest
import torch
from torch import nn
from toys import Batches, make_batch, make_model, make_pairs, make_trainer, train

from regard.errors import FailureError
from regard.train import checkpoint
from regard.train.log import read
from regard.train.loop import Interval
from regard.train.objectives import Seq2Seq
from regard.train.precision import Precision


class Given:
    """An objective whose losses are given: parameter * sum of the numbers in the batch."""

    def counts(self, batch):
        return {"loss": batch.tokens}

    def __call__(self, model, batch):
        return {"loss": (model.weight.sum() * sum(batch.values), batch.tokens, 1.0)}


@dataclasses.dataclass
class Numbers:
    values: list
    ids: tuple = ()

    @property
    def tokens(self):
        return len(self.values)


class Stream:
    def __init__(self, batches):
        self.batches, self.place = batches, 0

    @property
    def batches_per_epoch(self):
        return len(self.batches)

    def __iter__(self):
        while True:
            self.place += 1
            yield self.batches[(self.place - 1) % len(self.batches)]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def number_trainer(tmp_path, batches, **config):
    """A model of one weight, 1.0, whose gradient is the mean of the numbers of a window."""
    trainer = make_trainer(tmp_path, objective=Given(), evaluate_every=0, save_every=0, **config)
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    trainer.model, trainer.batches, trainer.valid = model, Stream(batches), None
    trainer.optimizer = torch.optim.SGD([{"params": [model.weight], "names": ["weight"]}], lr=1.0)
    trainer.parameters = [model.weight]
    return trainer


def test_fault_T1(tmp_path):
    """One token of loss 4 and three of loss 2 in two micro-batches: 2.5, not 3.0, and the big batch's gradient."""
    trainer = number_trainer(tmp_path, [Numbers([4.0]), Numbers([2.0, 2.0, 2.0])], accumulate=2)
    window = next(trainer.windows())
    loss = trainer.accumulate(window, Interval())
    assert loss.item() == 2.5
    assert trainer.model.weight.grad.item() == 2.5
    trainer.accumulate([Numbers([4.0, 2.0, 2.0, 2.0])], Interval())
    assert trainer.model.weight.grad.item() == 2.5


def test_claim_B9():
    """Averaging micro-batches' means (the document's code) is not the large batch; weighing by tokens is."""
    parts = [[4.0], [2.0, 2.0, 2.0]]
    documents = sum(sum(p) / len(p) for p in parts) / len(parts)
    ours = sum(map(sum, parts)) / sum(map(len, parts))
    assert (documents, ours) == (3.0, 2.5)
    model = make_model(dropout=0.0, dtype=torch.float64)
    pairs = make_pairs(12)
    by_token = gradients(model, [pairs[:3], pairs[3:4], pairs[4:]])
    whole = gradients(model, [pairs])
    means = [gradients(model, [part]) for part in (pairs[:3], pairs[3:4], pairs[4:])]
    by_mean = [sum(parts) / 3 for parts in zip(*means, strict=True)]
    assert max((a - b).abs().max().item() for a, b in zip(by_token, whole, strict=True)) < 1e-10
    assert max((a - b).abs().max().item() for a, b in zip(by_mean, whole, strict=True)) > 1e-3


def gradients(model, parts):
    """The gradients of the loop for one window with these micro-batches."""
    trainer = make_trainer("unused", dropout=0.0, accumulate=len(parts))
    trainer.model = model
    trainer.optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer.accumulate([make_batch(part, range(len(part))) for part in parts], Interval())
    return [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("cuts", [(1,), (2, 9), (1, 2, 3, 4, 11), tuple(range(1, 12))])
def test_law_8_micro_batches_are_exact(cuts):
    """The gradient of split batches is that of the whole, whatever the split, to 1e-10 in float64."""
    model = make_model(dropout=0.0, dtype=torch.float64)
    pairs = make_pairs(12, seed=5)
    edges = [0, *cuts, 12]
    split = gradients(model, [pairs[a:b] for a, b in zip(edges, edges[1:], strict=False)])
    whole = gradients(model, [pairs])
    assert max(g.abs().max().item() for g in whole) > 1e-2
    assert max((a - b).abs().max().item() for a, b in zip(split, whole, strict=True)) < 1e-10


def test_fault_T3(tmp_path):
    """Ten batches, accumulate 4: three updates an epoch, of 4, 4 and 2, the last divided by its own tokens."""
    trainer = number_trainer(tmp_path, [Numbers([float(i)] * (i + 1)) for i in range(10)], accumulate=4)
    stream = trainer.windows()
    windows = [next(stream) for _ in range(4)]
    assert [len(w) for w in windows] == [4, 4, 2, 4]
    assert windows[3][0].values == [0.0]
    loss = trainer.accumulate(windows[2], Interval())
    assert loss.item() == pytest.approx((9 * 8 + 10 * 9) / 19)
    assert trainer.updates_per_epoch == 3
    trainer = number_trainer(tmp_path, [Numbers([0.5])] * 10, accumulate=4, updates=None, epochs=1.0)
    assert trainer.run() == "epochs"
    assert trainer.state.update == 3


def test_fault_T6(tmp_path):
    """Gradients 3 and -2.5 in two micro-batches of one window: their sum is small, so nothing is clipped."""
    batches = [Numbers([3.0]), Numbers([-2.5])]
    trainer = number_trainer(tmp_path, batches, accumulate=2, updates=1, clip=1.0, explode=100.0)
    trainer.peak, trainer.schedule = 1.0, dataclasses.replace(trainer.schedule, kind="constant", warmup=0)
    trainer.run()
    assert trainer.model.weight.item() == pytest.approx(1.0 - 0.25)  # clipped one by one it would stay 1.0
    big = number_trainer(tmp_path / "big", [Numbers([3.0]), Numbers([5.0])], accumulate=2, updates=1, clip=1.0)
    big.peak, big.schedule = trainer.peak, trainer.schedule
    big.run()
    assert big.model.weight.item() == pytest.approx(0.0, abs=1e-5)  # a mean gradient of 4 has become 1


def test_fault_T8(tmp_path):
    """An overflowing first batch: no update is counted, the rate stays, the skip is reported, the scale halves."""
    batches = [Numbers([float("inf")]), Numbers([1.0]), Numbers([1.0])]
    trainer = number_trainer(tmp_path, batches, updates=2, log_every=1)
    trainer.precision = Precision("float16", first_scale=1024.0)
    rates = []
    original = trainer.learning_rate
    trainer.learning_rate = lambda: rates.append(original()) or rates[-1]
    trainer.run()
    assert (trainer.state.update, trainer.state.skipped) == (2, 1)
    assert trainer.precision.scaler.get_scale() == 512.0
    assert rates[0] == rates[1] == pytest.approx(3e-3 / 5)
    assert rates[2] == pytest.approx(2 * 3e-3 / 5)
    assert [line["skipped"] for line in read(tmp_path / "log.jsonl") if line["event"] == "train"] == [1, 1]
    assert trainer.model.weight.item() == pytest.approx(1 - 3e-3 / 5 - 6e-3 / 5)


def test_the_documents_float16_loop_does_not_clip():
    """Claim section 4, item 8: gradients are unscaled first, so the limit is that of true gradients."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    precision = Precision("float16", first_scale=1024.0)
    precision.backward(model.weight.sum() * 0.5)
    assert model.weight.grad.item() == 512.0
    norm = precision.clip(optimizer, list(model.parameters()), 1.0)
    assert norm.item() == 0.5
    assert model.weight.grad.item() == 0.5  # clipped while scaled it would have become 1/1024
    assert precision.step(optimizer)
    assert model.weight.item() == 0.5


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_every_precision_learns(tmp_path, precision):
    """The loss falls, and parameters and optimizer states stay float32."""
    trainer = train(tmp_path, precision=precision, updates=60, lr=1e-2)
    lines = [line["nll"] for line in read(tmp_path / "log.jsonl") if line["event"] == "valid"]
    assert lines[-1] < lines[0] - 0.3
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert {s["exp_avg"].dtype for s in trainer.optimizer.state.values()} == {torch.float32}


def test_fault_T10_parameters_move_at_the_first_update(tmp_path):
    before = make_model()
    trainer = train(tmp_path, updates=1)
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), trainer.model.parameters(), strict=True)]
    assert all(moved)


def test_nan_stops_with_step_samples_and_advice(tmp_path):
    """The last good checkpoint stays, and the poisoned gradient has not reached the weights."""

    class Poisoned(Seq2Seq):
        calls = 0

        def __call__(self, model, batch):
            losses = super().__call__(model, batch)
            if model.training:
                Poisoned.calls += 1
                if Poisoned.calls == 8:
                    losses["loss"] = (losses["loss"][0] * float("nan"), *losses["loss"][1:])
            return losses

    trainer = make_trainer(tmp_path, objective=Poisoned(0.1))
    expected = Batches(make_pairs(40), 6)
    stream = iter(expected)
    ids = [next(stream).ids for _ in range(8)][-1]
    with pytest.raises(FailureError) as caught:
        trainer.run()
    message = str(caught.value)
    assert "update 8: the loss is nan" in message
    assert f"samples {', '.join(map(str, ids))}" in message
    assert "step-5" in message
    assert "lower optimizer.lr" in message
    assert "\n" not in message
    assert checkpoint.latest(trainer.checkpoints).step == 5
    assert all(p.isfinite().all() for p in trainer.model.parameters())


def test_exploding_loss_stops(tmp_path):
    batches = [Numbers([1.0])] * 3 + [Numbers([50.0])]
    with pytest.raises(FailureError, match=r"update 4: the loss .* has exploded \(it began at 1\)"):
        number_trainer(tmp_path, batches, updates=9).run()


def test_early_stopping_counts_evaluations(tmp_path):
    """Best at the third evaluation and patience 2: the run ends at the sixth, and the best checkpoint is kept."""
    trainer = make_trainer(tmp_path, updates=500, evaluate_every=2, patience=2)
    values = iter([5.0, 4.0, 3.0, 3.5, 3.0, 3.2, 1.0])
    trainer.measure = lambda batches: {"nll": next(values)}
    assert trainer.run() == "patience"
    assert trainer.state.update == 12
    assert (trainer.state.best, trainer.state.best_update) == (3.0, 6)
    assert sorted(c.step for c in checkpoint.complete(trainer.checkpoints)) == [6, 12]


def test_minutes_limit_counts_time_of_all_sessions(tmp_path):
    trainer = make_trainer(tmp_path, updates=None, minutes=10.0)
    trainer.state.seconds = 600.0
    assert trainer.run() == "minutes"
    assert trainer.state.update == 0
    trainer = make_trainer(tmp_path, updates=None, minutes=10.0)
    trainer.schedule = dataclasses.replace(trainer.schedule, kind="linear", warmup=0)
    trainer._began -= 300.0
    trainer.state.update = 50
    assert trainer.learning_rate() == pytest.approx(3e-3 * 0.5, rel=0.05)  # half of the time is over


def test_evaluation_draws_nothing_and_is_exact(tmp_path):
    trainer = make_trainer(tmp_path)
    before = torch.get_rng_state(), trainer.generators.named["dropout"].get_state()
    first = trainer.measure(trainer.valid())
    second = trainer.measure(Batches(make_pairs(10, seed=9), 1).once())
    assert first["nll"] == pytest.approx(second["nll"], rel=1e-6)
    assert trainer.model.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(trainer.generators.named["dropout"].get_state(), before[1])
