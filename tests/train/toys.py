"""A tiny model, tiny batches and a trainer for the tests of training; run as a script it trains (for the kill tests).

python toys.py FOLDER [resume]
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from regard import shapes
from regard.nn import build, set_generator
from regard.train import checkpoint
from regard.train.config import TrainConfig
from regard.train.loop import Trainer
from regard.train.objectives import Seq2Seq, seq2seq_inputs
from regard.train.optim import OptimizerConfig, make_optimizer
from regard.train.progress import Display
from regard.train.schedule import ScheduleConfig

VOCAB, PAD, START, END = 13, 0, 1, 2


@dataclass(frozen=True)
class Batch:
    source: torch.Tensor
    source_lengths: torch.Tensor
    inputs: torch.Tensor
    labels: torch.Tensor
    lengths: torch.Tensor
    ids: tuple[int, ...]
    tokens: int


def padded(rows, fill):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


def make_batch(pairs, ids, pad=PAD, end=END):
    sides = [seq2seq_inputs(target, START, end) for _, target in pairs]
    return Batch(
        padded([s for s, _ in pairs], pad),
        torch.tensor([len(s) for s, _ in pairs]),
        padded([i for i, _ in sides], pad),
        padded([labels for _, labels in sides], -100),
        torch.tensor([len(i) for i, _ in sides]),
        tuple(ids),
        sum(len(labels) for _, labels in sides),
    )


def make_pairs(count, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    sources = [[draw(3, VOCAB) for _ in range(draw(1, 6))] for _ in range(count)]
    return [(source, source[::-1]) for source in sources]


class Batches:
    """An endless shuffled stream with a position."""

    def __init__(self, pairs, size, seed=0):
        self.pairs, self.size, self.seed, self.place = pairs, size, seed, 0

    @property
    def batches_per_epoch(self):
        return -(-len(self.pairs) // self.size)

    def order(self, epoch):
        generator = torch.Generator().manual_seed(1000 * self.seed + epoch)
        return torch.randperm(len(self.pairs), generator=generator).tolist()

    def __iter__(self):
        while True:
            epoch, index = divmod(self.place, self.batches_per_epoch)
            chosen = self.order(epoch)[index * self.size : (index + 1) * self.size]
            self.place += 1
            yield make_batch([self.pairs[i] for i in chosen], chosen)

    def once(self):
        for start in range(0, len(self.pairs), self.size):
            part = self.pairs[start : start + self.size]
            yield make_batch(part, range(start, start + len(part)))

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def make_model(dropout=0.1, seed=1, dtype=torch.float32):
    made = shapes.encoder_decoder(VOCAB, 16, 1, 2, 32, dropout=dropout, attention_dropout=dropout, norm="pre")
    return build(made, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def make_trainer(folder, dropout=0.1, pairs=40, size=6, lr=3e-3, dtype=torch.float32, objective=None, **config):
    model = make_model(dropout, dtype=dtype)
    generator = torch.Generator().manual_seed(2)
    set_generator(model, generator)
    config = {"updates": 20, "log_every": 2, "evaluate_every": 5, "tensorboard": False} | config
    valid = Batches(make_pairs(10, seed=9), 5)
    return Trainer(
        model,
        objective or Seq2Seq(0.1),
        make_optimizer(model, OptimizerConfig(lr=lr)),
        Batches(make_pairs(pairs), size),
        Path(folder),
        TrainConfig(**config),
        ScheduleConfig("inverse_sqrt", warmup=5),
        lr,
        valid=valid.once,
        generators=checkpoint.Generators(dropout=generator),
        display=Display(quiet=True),
    )


def train(folder, resume=False, **config):
    trainer = make_trainer(folder, **config)
    saved = checkpoint.latest(trainer.checkpoints, print) if resume else None
    if saved is not None:
        trainer.load(saved)
    trainer.run(resumed=saved is not None)
    return trainer


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the global generators are in a checkpoint too, and nothing else seeds them
    random.seed(0)
    numpy.random.seed(0)
    trainer = make_trainer(sys.argv[1], updates=60, save_every=2, ema=0.9, accumulate=2, keep=2)
    found = checkpoint.latest(trainer.checkpoints, print) if "resume" in sys.argv[2:] else None
    if found is not None:
        trainer.load(found)
    print("ready", flush=True)
    trainer.run(resumed=found is not None)
