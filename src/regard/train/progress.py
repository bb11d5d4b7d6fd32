"""Showing how a run goes: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class Display:
    """Told after every logging interval; writes to standard error."""

    def __init__(self, quiet: bool = False, every: float = 20.0, console: Console | None = None) -> None:
        """quiet: nothing but messages. every: seconds between plain lines when this is not a terminal."""
        self.console = console or Console(stderr=True, highlight=False)
        self.quiet, self.every = quiet, every
        self.live: Progress | None = None
        self._task: Any = None
        self._last = 0.0

    def __enter__(self) -> Display:
        if self.console.is_terminal and not self.quiet:
            columns = TextColumn("{task.fields[figures]}"), BarColumn(bar_width=20), TextColumn("{task.fields[left]}")
            self.live = Progress(*columns, console=self.console)
            self.live.start()
            self._task = self.live.add_task("", total=1.0, figures="starting", left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def show(self, figures: dict[str, Any], share: float, seconds: float) -> None:
        """figures: of the last interval. share: how much of the run is done. seconds: used so far."""
        if self.quiet:
            return
        text = describe(figures)
        left = f"{clock(seconds * (1 / share - 1))} left" if share > 0 else ""
        if self.live is not None:
            self.live.update(self._task, completed=share, figures=text, left=left)
        elif time.monotonic() - self._last >= self.every:
            self._last = time.monotonic()
            self.console.print(f"{text} | {share:.0%}, {left}", soft_wrap=True, markup=False)

    def say(self, message: str) -> None:
        """A message that stays, above the live line."""
        self.console.print(message, soft_wrap=True, markup=False)


def describe(figures: dict[str, Any]) -> str:
    """One line of figures."""
    return (
        f"update {figures['update']} | loss {figures['loss']:.3f} | {figures['tokens_per_second']:,.0f} tokens/s | "
        f"padding {figures['padding']:.0%} | lr {figures['lr']:.2e}"
    )


def clock(seconds: float) -> str:
    """90 -> 1:30; 4000 -> 1:06:40."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
