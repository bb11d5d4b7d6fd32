"""Batches: their tensors, the token budget, padding, and the exact place in an endless stream."""

import json
import random
from itertools import islice

import pytest
import torch

from regard.data.batches import BucketedBatches

PAD, START, END = 0, 1, 2


def examples(count, seed=0, longest=30):
    """Pairs whose first source id is the sample's number, so that every row can be told."""
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        length = rng.randint(1, longest)
        source = [1000 + number, *(rng.randint(3, 99) for _ in range(max(0, length + rng.randint(-3, 3))))]
        pairs.append((source, [rng.randint(3, 99) for _ in range(length)]))
    return pairs


def epoch_of(batches):
    return list(islice(batches, batches.batches_per_epoch))


def seen(batch):
    return (batch.ids, batch.source.tolist(), batch.inputs.tolist(), batch.labels.tolist())


def test_the_tensors_of_a_batch():
    batches = BucketedBatches([([5, 6, 7], [8]), ([9], [10, 11])], max_tokens=100)
    batch = next(batches.once())
    assert batch.ids == (0, 1)
    assert batch.source.tolist() == [[5, 6, 7, END], [9, END, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.inputs.tolist() == [[START, 8, PAD], [START, 10, 11]]
    assert batch.labels.tolist() == [[8, END, -100], [10, 11, END]]
    assert batch.lengths.tolist() == [2, 3]
    assert (batch.tokens, batch.source_tokens) == (5, 6)
    assert {t.dtype for t in (batch.source, batch.source_lengths, batch.inputs, batch.labels, batch.lengths)} == {
        torch.int64
    }
    moved = batch.to("cpu")
    assert seen(moved) == seen(batch) and moved.tokens == 5


def test_empty_sides_make_rows():
    batch = next(BucketedBatches([([], []), ([5], [6])], 100).once())
    assert batch.source.tolist() == [[END, PAD], [5, END]]
    assert batch.labels.tolist() == [[END, -100], [6, END]]


def test_other_special_ids():
    batch = next(BucketedBatches([([5], [6]), ([5, 5], [6, 6])], 100, pad_id=90, start_id=91, end_id=92).once())
    assert batch.source.tolist() == [[5, 92, 90], [5, 5, 92]]
    assert batch.inputs.tolist() == [[91, 6, 90], [91, 6, 6]]
    assert batch.labels.tolist() == [[6, 92, -100], [6, 6, 92]]


def test_fault_L6():
    """With one id for padding and end, the end is still learnt and only padding is left out."""
    batch = next(BucketedBatches([([5], [6]), ([5], [6, 7])], 100, pad_id=2, end_id=2).once())
    assert batch.labels.tolist() == [[6, 2, -100], [6, 7, 2]]
    assert batch.tokens == 5


def test_every_row_is_its_example():
    pairs = examples(300)
    for batch in epoch_of(BucketedBatches(pairs, 256, seed=3)):
        for row, number in enumerate(batch.ids):
            source, target = pairs[number]
            assert batch.source[row, : batch.source_lengths[row]].tolist() == [*source, END]
            assert batch.inputs[row, : batch.lengths[row]].tolist() == [START, *target]
            assert batch.labels[row, : batch.lengths[row]].tolist() == [*target, END]
            assert set(batch.labels[row, batch.lengths[row] :].tolist()) <= {-100}
        assert batch.tokens == int((batch.labels != -100).sum()) == int(batch.lengths.sum())
        assert batch.source_tokens == int(batch.source_lengths.sum())


@pytest.mark.parametrize("bucketed", [True, False])
def test_an_epoch_has_every_example_once_within_the_budget(bucketed):
    batches = BucketedBatches(examples(500), 256, bucketed=bucketed)
    for number in range(3):
        batches.load_state_dict(batches.state_dict() | {"epoch": number, "index": 0})
        epoch = epoch_of(batches)
        assert batches.epoch == number
        assert sorted(i for batch in epoch for i in batch.ids) == list(range(500))
        assert max(batch.inputs.numel() for batch in epoch) <= 256


def test_a_pair_over_the_budget_stands_alone():
    pairs = [*examples(20, longest=5), ([7], [7] * 50)]
    epoch = epoch_of(BucketedBatches(pairs, 32))
    assert [batch.ids for batch in epoch if batch.inputs.shape[1] > 32] == [(20,)]


def test_epochs_differ_and_seeds_decide():
    pairs = examples(400)
    first, second = BucketedBatches(pairs, 256, seed=1), BucketedBatches(pairs, 256, seed=1)
    one, two = epoch_of(first), epoch_of(first)
    assert [seen(b) for b in epoch_of(second)] == [seen(b) for b in one]
    assert [b.ids for b in one] != [b.ids for b in two]
    assert [b.ids for b in epoch_of(BucketedBatches(pairs, 256, seed=2))] != [b.ids for b in one]


def test_batches_leave_the_global_random_state_alone():
    state = torch.random.get_rng_state()
    epoch_of(BucketedBatches(examples(50), 64))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("stop", [0, 1, 7, 20, 21, 45])
def test_fault_C1(stop):
    """A resumed stream goes on with the very batches that would have followed, in mid-epoch and over its end."""
    pairs = examples(64)
    whole = BucketedBatches(pairs, 64, seed=5)
    everything = [seen(batch) for batch in islice(whole, 60)]
    assert whole.epoch >= 1
    first = BucketedBatches(pairs, 64, seed=5)
    before = [seen(batch) for batch in islice(first, stop)]
    state = json.loads(json.dumps(first.state_dict()))
    resumed = BucketedBatches(pairs, 64, seed=5)
    resumed.load_state_dict(state)
    assert before + [seen(batch) for batch in islice(resumed, 60 - stop)] == everything


def test_no_sample_twice_or_missing_over_a_stop():
    pairs = examples(64)
    first = BucketedBatches(pairs, 64, seed=5)
    ids = [i for batch in islice(first, 9) for i in batch.ids]
    resumed = BucketedBatches(pairs, 64, seed=5)
    resumed.load_state_dict(first.state_dict())
    ids += [i for batch in islice(resumed, resumed.batches_per_epoch - 9) for i in batch.ids]
    assert sorted(ids) == list(range(64))


def test_evaluation_does_not_move_the_stream():
    batches = BucketedBatches(examples(64), 64)
    passes = [[seen(batch) for batch in batches.once()] for _ in range(2)]
    assert passes[0] == passes[1]
    assert sorted(i for ids, *_ in passes[0] for i in ids) == list(range(64))
    assert batches.state_dict() == BucketedBatches(examples(64), 64).state_dict()


def test_another_seed_is_refused():
    saved = BucketedBatches(examples(10), 64, seed=1).state_dict()
    with pytest.raises(ValueError, match=r"seed 1.*has 2"):
        BucketedBatches(examples(10), 64, seed=2).load_state_dict(saved)


def test_no_examples_no_batches():
    batches = BucketedBatches([], 64)
    assert list(batches) == [] and list(batches.once()) == []


def test_padding_share_is_what_the_batches_hold():
    batches = BucketedBatches(examples(300), 256)
    shares, epoch = batches.padding_share, epoch_of(batches)
    assert shares[0] == pytest.approx(1 - sum(b.source_tokens for b in epoch) / sum(b.source.numel() for b in epoch))
    assert shares[1] == pytest.approx(1 - sum(b.tokens for b in epoch) / sum(b.inputs.numel() for b in epoch))


def test_buckets_save_most_of_the_padding():
    """The targets, by which the budget counts, are nearly even; the sources follow as far as they are alike."""
    pairs = examples(5000, longest=40)
    bucketed, mixed = (BucketedBatches(pairs, 4096, bucketed=b).padding_share for b in (True, False))
    assert bucketed[1] < 0.05 < 0.3 < mixed[1]
    assert bucketed[0] < 0.2 < 0.3 < mixed[0]


@pytest.mark.parametrize(("count", "max_tokens"), [(65, 64), (64, 128)])
def test_other_data_or_batch_size_is_refused(count, max_tokens):
    saved = BucketedBatches(examples(64), 64).state_dict()
    with pytest.raises(ValueError):
        BucketedBatches(examples(count), max_tokens).load_state_dict(saved)


def test_fault_L9():
    """Ids that are already padded are refused: their padding must not be taken for text."""
    with pytest.raises(ValueError, match="pad"):
        BucketedBatches([([5, PAD, PAD], [6])], 64)


def test_padding_share_without_examples():
    assert BucketedBatches([], 64).padding_share == (0.0, 0.0)
