"""Learning rates: plain functions of the number of the update, which counts from 1.

No schedule gives 0 at the first update, none divides by zero, and none is stateful: after a resume, or an update that
a scaler skipped, the rate follows from the count of updates that really happened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from regard.ranges import check_numbers
from regard.values import FieldError


@dataclass(frozen=True)
class ScheduleConfig:
    """The [schedule] table of a recipe. `peak` below is `optimizer.lr`; s is the number of the update, w the warm-up.

    kind:
        "noam"          scale * d^-0.5 * min(s^-0.5, s * w^-1.5), d the hidden size (arXiv:1706.03762, equation 3);
                        `optimizer.lr` is not used
        "inverse_sqrt"  peak * min(s / w, sqrt(w / s)): the same curve, given by its peak
        "cosine"        warm-up, then half a cosine from peak to `minimum` (arXiv:1608.03983)
        "linear"        warm-up, then a straight line from peak to `minimum`
        "constant"      warm-up, then peak
        "wsd"           warm-up, peak, then a straight line to `minimum` over the last `decay_share` (arXiv:2404.06395)
    total: the update at which a decay ends; not given: the run's limit. follow = "minutes": the decay follows the
    training time used instead of the count of updates (such a run is not reproducible bit for bit). Without a limit in
    updates or epochs this is what happens.
    """

    kind: Literal["noam", "inverse_sqrt", "cosine", "linear", "constant", "wsd"] = "inverse_sqrt"
    warmup: int = 4000
    scale: float = 1.0
    minimum: float = 0.0
    decay_share: float = 0.2
    total: int | None = None
    follow: Literal["updates", "minutes"] = "updates"

    def __post_init__(self) -> None:
        check_numbers(self)
        for name in ("warmup", "minimum"):
            if getattr(self, name) < 0:
                raise FieldError(f"got {getattr(self, name)}, must not be negative", name)
        if not 0 <= self.decay_share <= 1:
            raise FieldError(f"got {self.decay_share}, must lie between 0 and 1", "decay_share")
        if self.scale <= 0:
            raise FieldError(f"got {self.scale}, must be positive", "scale")
        if self.total is not None and self.total < 1:
            raise FieldError(f"got {self.total}, must be at least 1", "total")


def learning_rate(config: ScheduleConfig, update: int, peak: float, total: int = 0, hidden_size: int = 1) -> float:
    """The learning rate of an update.

    Args:
        update: its number, from 1.
        peak: the highest rate.
        total: the number of updates of the whole run, where the schedule decays towards an end.
        hidden_size: d of the "noam" kind.
    """
    if update < 1:
        raise ValueError(f"updates count from 1, got {update}")
    warmup = max(config.warmup, 1)
    if config.kind == "noam":
        return config.scale * hidden_size**-0.5 * min(update**-0.5, update * warmup**-1.5)
    if config.kind == "inverse_sqrt":
        return peak * min(update / warmup, math.sqrt(warmup / update))
    if update <= config.warmup:
        return peak * update / config.warmup
    return config.minimum + (peak - config.minimum) * _decay(config, update, total)


def _decay(config: ScheduleConfig, update: int, total: int) -> float:
    """The share of the way from minimum up to peak after the warm-up: 1 to (nearly) 0."""
    start = config.warmup
    if config.kind == "wsd":
        start = max(start, total - round(config.decay_share * total))
    if config.kind == "constant" or update <= start:
        return 1.0
    if update > total:
        # without decay the rate stays; with one, training past its end goes on at the minimum
        return 1.0 if config.kind == "wsd" and config.decay_share == 0 else 0.0
    # + 1: the minimum would come just after the last update, so that no update is spent at a rate of 0
    share = (update - start) / (total - start + 1)
    return 0.5 * (1 + math.cos(math.pi * share)) if config.kind == "cosine" else 1 - share
