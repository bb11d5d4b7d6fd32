"""The training loop, readable top to bottom: see `Trainer.run`."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.errors import FailureError, InputError
from regard.hub import WEIGHTS, load_tensors, named_tensors
from regard.train import checkpoint
from regard.train.averaging import EMA
from regard.train.config import TrainConfig
from regard.train.log import Log
from regard.train.objectives import Objective
from regard.train.optim import load_optimizer, optimizer_tensors, set_rate
from regard.train.precision import Precision
from regard.train.progress import Display
from regard.train.schedule import ScheduleConfig, learning_rate


class Batches(Protocol):
    """An endless stream of epochs that knows its place (regard.data.batches.BucketedBatches)."""

    @property
    def batches_per_epoch(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass
class State:
    """What the loop counts; all of it is in every checkpoint.

    update: updates done. drawn: batches drawn. skipped: updates that the float16 scaler skipped. seconds: training time
    used, evaluations and saves included. best: lowest score so far; bad: evaluations since.
    """

    update: int = 0
    drawn: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first_loss: float | None = None
    best: float | None = None
    best_update: int = 0
    bad: int = 0


class Interval:
    """Sums between two lines of the log. Tensors stay tensors until they are read: no waiting for the device."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.tokens = self.places = 0
        self.norm: Tensor | None = None
        self.start = time.monotonic()

    def add(self, losses: dict[str, tuple[Tensor, int, float]], batch: Any) -> None:
        """Adds one micro-batch."""
        for name, (total, count, _) in losses.items():
            total = total.detach().double()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
            self.counts[name] = self.counts.get(name, 0) + count
        self.tokens += batch.tokens
        self.places += batch.labels.numel() if getattr(batch, "labels", None) is not None else batch.tokens

    def figures(self) -> dict[str, float]:
        """Means per token, tokens a second, share of padding, norm of the last gradient."""
        out = {name: total.item() / max(1, self.counts[name]) for name, total in self.sums.items()}
        out["tokens_per_second"] = self.tokens / max(1e-9, time.monotonic() - self.start)
        out["padding"] = 1 - self.tokens / max(1, self.places)
        out["gradient_norm"] = math.nan if self.norm is None else self.norm.item()
        return out


class Trainer:
    """Everything a run needs, and the loop.

    Args:
        rescore: called with the model (in eval mode, averaged where there is an EMA); gives more figures of an
            evaluation, such as {"bleu": ...}.
        extras: writes the model's config and tokenizer into a checkpoint's folder.
        identity: plain JSON that tells data and tokenizer apart; a checkpoint with another one is refused.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        batches: Batches,
        folder: Path,
        config: TrainConfig,
        schedule: ScheduleConfig,
        peak: float = 1e-3,
        valid: Callable[[], Iterable[Any]] | None = None,
        rescore: Callable[[nn.Module], dict[str, float]] | None = None,
        generators: checkpoint.Generators | None = None,
        extras: Callable[[Path], None] | None = None,
        hidden_size: int = 1,
        display: Display | None = None,
        identity: dict[str, Any] | None = None,
    ) -> None:
        self.identity = identity or {}
        self.model, self.objective, self.optimizer, self.batches = model, objective, optimizer, batches
        self.folder, self.config, self.schedule, self.peak = folder, config, schedule, peak
        self.valid, self.rescore, self.extras, self.hidden_size = valid, rescore, extras, hidden_size
        self.generators = generators or checkpoint.Generators()
        self.display = display or Display()
        self.device = next(model.parameters()).device
        self.precision = Precision(config.precision, self.device.type)
        self.ema = EMA(model, config.ema) if config.ema else None
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.state = State()
        self.score: float | None = None
        self.rate = 0.0
        self.log: Log | None = None
        self.unchecked: list[tuple[int, Tensor, Tensor, tuple[int, ...]]] = []
        # reading a number from a CPU tensor is free; an accelerator would have to be waited for
        self.check_every = 1 if self.device.type == "cpu" else config.log_every
        self._began = time.monotonic()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def run(self, resumed: bool = False) -> str:
        """Trains until a limit is reached and returns which: "updates", "epochs", "minutes" or "patience".

        Raises:
            FailureError: the loss is not finite or has exploded, or a checkpoint cannot be written.
        """
        self.log = Log(self.folder, self.config.tensorboard, self.state.update if resumed else None)
        self._began = time.monotonic() - self.state.seconds
        windows = self.windows()
        interval = Interval()
        self.model.train()
        with contextlib.closing(self.log), self.display:
            while not (reason := self.reason_to_stop()):
                window = next(windows)
                self.rate = self.learning_rate()
                loss = self.accumulate(window, interval)
                if not self.update(window, loss, interval):
                    continue
                if self.due(self.config.log_every):
                    self.report(interval)
                    interval = Interval()
                if self.due(self.evaluate_every):
                    began = time.monotonic()
                    self.evaluate()
                    interval.start += time.monotonic() - began
                if self.due(self.save_every):
                    self.save()
            if self.state.update and self.score is None:
                self.evaluate()
            self.save()
        return reason

    def windows(self) -> Iterator[list[Any]]:
        """The batches of each update: `accumulate` of them, fewer at the end of an epoch, none left over."""
        window: list[Any] = []
        for batch in self.batches:
            window.append(self.here(batch))
            self.state.drawn += 1
            if len(window) == self.config.accumulate or self.state.drawn % self.batches.batches_per_epoch == 0:
                yield window
                window = []

    def here(self, batch: Any) -> Any:
        """The batch on the model's device."""
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def accumulate(self, window: list[Any], interval: Interval) -> Tensor:
        """Leaves in .grad the gradient of: sum of losses / number of counted tokens, both over the whole window."""
        totals: dict[str, int] = {}
        for batch in window:
            for name, count in self.objective.counts(batch).items():
                totals[name] = totals.get(name, 0) + count
        self.optimizer.zero_grad(set_to_none=True)
        whole = torch.zeros((), dtype=torch.float64, device=self.device)
        for batch in window:
            with self.precision.autocast():
                losses = self.objective(self.model, batch)
            parts = [weight * total / max(1, totals[name]) for name, (total, _, weight) in losses.items() if weight]
            loss = torch.stack(parts).sum() if len(parts) > 1 else parts[0]
            self.precision.backward(loss)
            whole += loss.detach()
            interval.add(losses, batch)
        return whole

    def update(self, window: list[Any], loss: Tensor, interval: Interval) -> bool:
        """Clips the accumulated gradient once and steps; False when the scaler skipped the update."""
        norm = self.precision.clip(self.optimizer, self.parameters, self.config.clip)
        number = self.state.update + 1
        self.unchecked.append((number, loss, norm, tuple(i for b in window for i in getattr(b, "ids", ()))))
        if len(self.unchecked) >= self.check_every:
            self.check()
        set_rate(self.optimizer, self.rate)
        if not self.precision.step(self.optimizer):
            self.state.skipped += 1
            self.state.skipped_in_a_row += 1
            if self.state.skipped_in_a_row > 40:
                raise self.failure(f"float16 overflowed in {self.state.skipped_in_a_row} updates running", number, ())
            return False
        self.state.skipped_in_a_row = 0
        self.state.update = number
        self.state.tokens += sum(batch.tokens for batch in window)
        self.score = None
        interval.norm = norm
        if self.ema is not None:
            self.ema.update()
        return True

    # ---- when --------------------------------------------------------------------------------------------------------

    def due(self, every: int) -> bool:
        return every > 0 and self.state.update % every == 0

    @property
    def updates_per_epoch(self) -> int:
        return math.ceil(self.batches.batches_per_epoch / self.config.accumulate)

    @property
    def evaluate_every(self) -> int:
        """Updates between evaluations; by default an epoch's."""
        return self.updates_per_epoch if self.config.evaluate_every is None else self.config.evaluate_every

    @property
    def save_every(self) -> int:
        return self.evaluate_every if self.config.save_every is None else self.config.save_every

    @property
    def limit(self) -> int | None:
        """The last update by count of updates or epochs."""
        epochs = self.config.epochs
        limits = [self.config.updates, None if epochs is None else math.ceil(epochs * self.updates_per_epoch)]
        return min((x for x in limits if x is not None), default=None)

    @property
    def seconds(self) -> float:
        """Training time used, in all sessions of this run."""
        return time.monotonic() - self._began

    def share(self) -> float:
        """How much of the run is done, by the limit that comes first."""
        shares = [0.0]
        if self.limit is not None:
            shares.append(self.state.update / self.limit)
        if self.config.minutes is not None:
            shares.append(self.seconds / 60 / self.config.minutes)
        return min(1.0, max(shares))

    def reason_to_stop(self) -> str:
        """The limit that is reached; "" when none is."""
        if self.limit is not None and self.state.update >= self.limit:
            return "updates" if self.config.updates == self.limit else "epochs"
        if self.config.minutes is not None and self.seconds >= 60 * self.config.minutes:
            return "minutes"
        if self.config.patience is not None and self.state.bad > self.config.patience:
            return "patience"
        return ""

    def learning_rate(self) -> float:
        """The rate of the coming update."""
        total = self.schedule.total or self.limit
        if self.config.minutes is not None and (total is None or self.schedule.follow == "minutes"):
            # the number of updates this run would come to at its speed so far
            done = self.seconds / 60 / self.config.minutes
            total = math.ceil(self.state.update / done) if done > 0 and self.state.update else 10**9
        return learning_rate(self.schedule, self.state.update + 1, self.peak, total or 0, self.hidden_size)

    # ---- telling, checking, evaluating -------------------------------------------------------------------------------

    def report(self, interval: Interval) -> None:
        figures = interval.figures() | {"lr": self.rate, "seconds": self.seconds, "skipped": self.state.skipped}
        assert self.log is not None
        self.log.write("train", self.state.update, **figures)
        self.display.show({"update": self.state.update, **figures}, self.share(), self.seconds)

    def check(self) -> None:
        """Looks at the losses since the last check; stops the run at the first that is not finite or has exploded."""
        for number, loss_tensor, norm_tensor, ids in self.unchecked:
            loss, norm = loss_tensor.item(), norm_tensor.item()
            if self.precision.scaler is not None and not (math.isfinite(loss) and math.isfinite(norm)):
                continue  # the scaler skips such an update
            if not math.isfinite(loss):
                raise self.failure(f"the loss is {loss}", number, ids)
            if not math.isfinite(norm):
                raise self.failure(f"the gradient's norm is {norm} (loss {loss:.4g})", number, ids)
            if self.state.first_loss is None:
                self.state.first_loss = loss
            if loss > self.config.explode * self.state.first_loss:
                began = self.state.first_loss
                raise self.failure(f"the loss {loss:.4g} has exploded (it began at {began:.4g})", number, ids)
        self.unchecked.clear()

    def failure(self, problem: str, update: int, ids: tuple[int, ...]) -> FailureError:
        good = checkpoint.latest(self.checkpoints)
        kept = f"the last good checkpoint is {good.path}" if good else "there is no checkpoint yet"
        samples = f" (samples {', '.join(map(str, ids[:40]))}{', ...' if len(ids) > 40 else ''})" if ids else ""
        return FailureError(
            f"training stopped at update {update}: {problem}{samples}; {kept}; "
            "lower optimizer.lr, lengthen schedule.warmup or set train.clip, and look at these samples"
        )

    @torch.no_grad()
    def measure(self, batches: Iterable[Any]) -> dict[str, float]:
        """Means per token over a pass of batches, summed in float64; the model is in eval mode meanwhile."""
        interval = Interval()
        was_training = self.model.training
        self.model.eval()
        for batch in batches:
            batch = self.here(batch)
            with self.precision.autocast():
                interval.add(self.objective(self.model, batch), batch)
        self.model.train(was_training)
        return {name: total.item() / max(1, interval.counts[name]) for name, total in interval.sums.items()}

    def evaluate(self) -> None:
        """Loss and, if asked for, scores on the validation set; counts what early stopping needs."""
        if self.valid is None:
            return
        with self.ema.applied() if self.ema is not None else contextlib.nullcontext():
            figures = self.measure(self.valid())
            if self.rescore is not None:
                self.model.eval()
                figures |= self.rescore(self.model)
                self.model.train()
        metric = self.config.metric
        self.score = figures["nll"] if metric == "loss" else -figures[metric]
        if self.state.best is None or self.score < self.state.best:
            self.state.best, self.state.best_update, self.state.bad = self.score, self.state.update, 0
        else:
            self.state.bad += 1
        assert self.log is not None
        self.log.write("valid", self.state.update, **figures, seconds=self.seconds)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        if not self.display.quiet:
            self.display.say(f"update {self.state.update}: validation {shown}")

    # ---- saving and resuming -----------------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes a checkpoint, then deletes old ones; does nothing where this update's is there already."""
        self.check()
        newest = checkpoint.latest(self.checkpoints)
        if newest is not None and newest.step == self.state.update and newest.score == self.score:
            self.rotate()
            return
        self.state.seconds = self.seconds
        assert self.log is not None
        self.log.sync()
        tensors = {
            "model": named_tensors(self.model),
            "optimizer": optimizer_tensors(self.optimizer),
            "generators": self.generators.tensors(),
            "ema": {} if self.ema is None else self.ema.shadow,
        }
        state = {
            "counters": asdict(self.state),
            "batches": self.batches.state_dict(),
            "scaler": self.precision.state_dict(),
            "identity": self.identity,
            "ema_updates": 0 if self.ema is None else self.ema.updates,
        }
        checkpoint.save(self.checkpoints, self.state.update, tensors, state, self.score, self.extras)
        self.rotate()

    def rotate(self) -> None:
        """Deletes checkpoints that neither a resume nor the final average needs."""
        keep_best = max(1, self.config.average if self.config.average_of == "best" else 0)
        checkpoint.rotate(self.checkpoints, max(self.config.keep, self.config.average), keep_best)

    def load(self, saved: checkpoint.Checkpoint) -> None:
        """Takes everything up again where a checkpoint left it."""
        state = saved.state()
        if state.get("identity", {}) != self.identity:
            raise InputError(
                f"{saved.path} was made with other data or another tokenizer; resume with the same, or start a new run"
            )
        load_tensors(self.model, saved.path / WEIGHTS)
        try:
            load_optimizer(self.optimizer, saved.tensors("optimizer"))
            self.batches.load_state_dict(state["batches"])
            self.precision.load_state_dict(state["scaler"])
            self.state = State(**state["counters"])
            if self.ema is not None:
                shadow = saved.tensors("ema")
                self.ema.shadow = {name: shadow[name].to(self.device, copy=True) for name in self.ema.shadow}
                self.ema.updates = state["ema_updates"]
            # last: nothing above may draw a random number after this
            self.generators.load(saved.tensors("generators"))
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{saved.path}: does not fit this recipe ({error}); use the one it was made with"
            raise InputError(problem) from error
        self.score = saved.score
