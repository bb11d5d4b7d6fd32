"""Checkpoints: whole or not there; rotation; resuming bit for bit."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from toys import Batches, make_pairs, make_trainer, train

from regard.errors import FailureError, InputError
from regard.hub import read_tensors
from regard.train import checkpoint
from regard.train.log import Log, draw_loss, read

TENSORS = {"model": {"w": torch.arange(4.0)}, "generators": {"torch": torch.get_rng_state()}, "ema": {}}


def weights(folder):
    newest = checkpoint.latest(Path(folder) / "checkpoints")
    names = ("model", "optimizer", "generators")
    return newest.step, {n: read_tensors(newest.path / f"{n}.safetensors") for n in names}


def assert_same(first, second):
    assert first[0] == second[0]
    for name, tensors in first[1].items():
        assert tensors.keys() == second[1][name].keys()
        for key, value in tensors.items():
            assert torch.equal(value, second[1][name][key]), (name, key)


def test_fault_C1():
    """64 samples, stopped at 20: the order after the resume is what it would have been; each sample once an epoch."""
    whole, first = Batches(make_pairs(64), 4), Batches(make_pairs(64), 4)
    stream = iter(whole)
    expected = [next(stream).ids for _ in range(32)]
    stream = iter(first)
    seen = [next(stream).ids for _ in range(5)]
    second = Batches(make_pairs(64), 4)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    stream = iter(second)
    seen += [next(stream).ids for _ in range(27)]
    assert seen == expected
    assert sorted(i for ids in seen[:16] for i in ids) == list(range(64))


class Noisy(Batches):
    """Random augmentation from torch's, numpy's and Python's global generators: one source token changes."""

    def __iter__(self):
        for batch in super().__iter__():
            batch.source[0, 0] = 3 + (int(torch.randint(10, ())) + random.randrange(10) + np.random.randint(10)) % 10
            yield batch


def test_fault_C3(tmp_path):
    """Random augmentation in the data: parameters and losses after a resume are those of the uninterrupted run."""

    def run(folder, updates, resume=False):
        trainer = make_trainer(folder, updates=updates, accumulate=2)
        trainer.batches = Noisy(make_pairs(40), 6)
        saved = checkpoint.latest(trainer.checkpoints) if resume else None
        if saved:
            trainer.load(saved)
        trainer.run(resumed=resume)

    def seed():
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)

    seed()
    run(tmp_path / "whole", 20)
    seed()
    run(tmp_path / "parts", 10)
    torch.manual_seed(77)
    random.seed(77)
    np.random.seed(77)
    run(tmp_path / "parts", 20, resume=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    losses = [[r["nll"] for r in read(tmp_path / f / "log.jsonl") if "nll" in r] for f in ("whole", "parts")]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 14


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    """Dropout, EMA, accumulation, best score and counters included; the log has every line once."""
    options = dict(ema=0.9, accumulate=3, save_every=2, keep=1)
    whole = train(tmp_path / "whole", updates=21, **options)
    train(tmp_path / "parts", updates=7, **options)
    shutil.rmtree(tmp_path / "parts/checkpoints/step-7")  # go on from 6, as after a kill
    parts = train(tmp_path / "parts", resume=True, updates=21, **options)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    for name, shadow in whole.ema.shadow.items():
        assert torch.equal(shadow, parts.ema.shadow[name])
    kept = ("update", "drawn", "tokens", "best", "best_update", "bad", "first_loss", "skipped")
    assert [getattr(whole.state, k) for k in kept] == [getattr(parts.state, k) for k in kept]
    updates = [r["update"] for r in read(tmp_path / "parts/log.jsonl") if r["event"] == "train"]
    assert updates == list(range(2, 21, 2))


def test_a_float16_run_resumes_with_its_scaler(tmp_path):
    train(tmp_path / "whole", updates=8, precision="float16")
    train(tmp_path / "parts", updates=4, precision="float16")
    parts = train(tmp_path / "parts", resume=True, updates=8, precision="float16")
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert parts.precision.state_dict()["_growth_tracker"] == 8


def save(folder, step, score=None):
    return checkpoint.save(folder, step, TENSORS, {"counters": step}, score)


def test_fault_C5(tmp_path):
    """Truncated, unfinished and unmarked checkpoints are skipped with a message; the one before is taken."""
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    (tmp_path / "step-40" / checkpoint.MARKER).unlink()
    model = tmp_path / "step-30" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-5])
    (tmp_path / ".step-50.tmp").mkdir()
    told = []
    newest = checkpoint.latest(tmp_path, told.append)
    assert newest.step == 20
    assert newest.state() == {"counters": 20}
    assert torch.equal(newest.tensors("model")["w"], torch.arange(4.0))
    assert newest.tensors("ema") == {}
    size = len(model.read_bytes())
    assert sorted(m.split("step-")[1] for m in told) == [
        f"30: model.safetensors has {size} bytes instead of {size + 5} (truncated)",
        "40: COMPLETE is missing (the save was interrupted)",
    ]
    checkpoint.rotate(tmp_path, 2)
    assert not (tmp_path / ".step-50.tmp").exists()


def test_a_failing_save_leaves_the_old_ones(tmp_path):
    save(tmp_path, 1)

    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(FailureError, match="No space left on device; earlier checkpoints are whole"):
        checkpoint.save(tmp_path, 2, TENSORS, {}, extras=full)
    assert [p.name for p in tmp_path.iterdir()] == ["step-1"]


def steps(folder):
    return {c.step for c in checkpoint.complete(folder)}


@pytest.mark.parametrize("limit", [0, 1])
def test_fault_C6(tmp_path, limit):
    """An old step-1000 and a new step-10: the new one is kept and resumed from; limit 0 does not delete everything."""
    save(tmp_path, 1000)
    save(tmp_path, 10)
    checkpoint.rotate(tmp_path, limit)
    assert steps(tmp_path) == {10}
    save(tmp_path, 20)
    assert checkpoint.latest(tmp_path).step == 20


def test_rotation_keeps_the_best(tmp_path):
    for step, score in ((1, 3.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, None)):
        save(tmp_path, step, score)
        checkpoint.rotate(tmp_path, 1, 1)
        assert step in steps(tmp_path)
    assert steps(tmp_path) == {2, 5}
    assert [c.step for c in checkpoint.best(checkpoint.complete(tmp_path), 3)] == [2]


def test_saving_the_same_step_again_replaces_it(tmp_path):
    save(tmp_path, 5)
    again = checkpoint.save(tmp_path, 5, TENSORS, {"counters": "new"})
    assert checkpoint.latest(tmp_path).state() == {"counters": "new"}
    assert again.serial == 2
    assert [p.name for p in tmp_path.iterdir()] == ["step-5"]


def test_a_checkpoint_of_another_model_or_other_data_is_refused(tmp_path):
    train(tmp_path, updates=2)
    saved = checkpoint.latest(tmp_path / "checkpoints")
    other = make_trainer(tmp_path)
    other.identity = {"tokenizer": "x"}
    with pytest.raises(InputError, match="other data or another tokenizer"):
        other.load(saved)
    smaller = make_trainer(tmp_path)
    smaller.model = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="do not fit"):
        smaller.load(saved)


def test_generators_go_out_and_in():
    mine = torch.Generator().manual_seed(5)
    generators = checkpoint.Generators(mine=mine)
    random.gauss(0, 1)  # leaves a second value waiting

    def draw():
        return (
            torch.rand(2, generator=mine).tolist(), torch.rand(2).tolist(), random.random(), random.gauss(0, 1),
            np.random.rand(), np.random.randn(),
        )  # fmt: skip

    saved = {k: v.clone() for k, v in generators.tensors().items()}
    first = draw()
    draw()
    generators.load(saved)
    assert draw() == first


def test_log_is_cut_at_the_resumed_update(tmp_path):
    log = Log(tmp_path, tensorboard=True)
    for update in (1, 2, 3):
        log.write("train", update, nll=1.0 / update, lr=0.1)
    log.write("valid", 3, nll=0.5)
    log.close()
    with open(tmp_path / "log.jsonl", "a", encoding="utf-8") as file:
        file.write('{"event": "train", "upd')  # killed in the middle of a line
    again = Log(tmp_path, tensorboard=False, resumed=2)
    again.write("train", 3, nll=0.25, lr=0.1)
    again.close()
    assert [(r["update"], r["nll"]) for r in read(tmp_path / "log.jsonl")] == [(1, 1.0), (2, 0.5), (3, 0.25)]
    assert list((tmp_path / "tensorboard").iterdir())
    draw_loss(tmp_path / "log.jsonl", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes()[:4] == b"\x89PNG"


SCRIPT = Path(__file__).with_name("toys.py")


def run_script(folder, *more, kill_after=None):
    """Trains in another process; kill -9 after so many seconds of training. True when it came to its end."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            break
    if kill_after is not None:
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode == 0


@pytest.mark.slow
def test_ten_kills(tmp_path):
    """Kill -9 at ten random moments, saves included (every second update saves): the same final weights each time."""
    start = time.monotonic()
    assert run_script(tmp_path / "whole")
    length = time.monotonic() - start
    expected = weights(tmp_path / "whole")
    generator = random.Random(3)
    killed = 0
    for attempt in range(10):
        folder = tmp_path / f"killed-{attempt}"
        killed += not run_script(folder, kill_after=generator.uniform(0.02, 0.35 * length))
        while not run_script(folder, "resume"):
            pass
        assert_same(expected, weights(folder))
    assert killed >= 5  # else the moments were too late to test anything


def test_a_kill_in_every_stage_of_a_save(tmp_path, monkeypatch):
    """The process dies after 0, 1, 2 ... files, syncs or renames: the resume always ends in the same weights."""

    class Killed(BaseException):
        pass

    options = dict(updates=2, save_every=1, evaluate_every=0, pairs=4, size=2)
    train(tmp_path / "whole", **options)
    expected = weights(tmp_path / "whole")
    for stage in range(40):
        folder, left = tmp_path / f"stage-{stage}", stage

        def die(function):
            def wrapped(*args, **kwargs):
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return function(*args, **kwargs)

            return wrapped

        with monkeypatch.context() as patch:
            for owner, name in ((checkpoint, "save_file"), (checkpoint, "sync"), (checkpoint.os, "rename")):
                patch.setattr(owner, name, die(getattr(owner, name)))
            try:
                train(folder, **options)
                break
            except Killed:
                pass
        train(folder, resume=True, **options)
        assert_same(expected, weights(folder))
        (only,) = (folder / "checkpoints").iterdir()
        assert only.name.startswith("step-2")
    assert stage >= 20  # both saves have been cut at every step
