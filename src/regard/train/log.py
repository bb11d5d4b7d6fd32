"""What a run leaves behind to read: log.jsonl, TensorBoard files and a picture of the loss."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from regard.errors import FailureError
from regard.files import atomic_write, write_text


class Log:
    """One JSON object a line: {"event": "train" | "valid" | ..., "update": N, ...}; numbers go to TensorBoard too."""

    def __init__(self, folder: Path, tensorboard: bool = True, resumed: int | None = None) -> None:
        """resumed: the update from which the run goes on; later lines of an earlier attempt are cut. None: afresh."""
        self.path = folder / "log.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        kept = [] if resumed is None else [line for line in read(self.path) if line.get("update", 0) <= resumed]
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115  open as long as the run
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            purge = None if resumed is None else resumed + 1
            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def write(self, event: str, update: int, **values: Any) -> None:
        """Appends a line. Values: anything JSON can hold."""
        try:
            self._file.write(json.dumps({"event": event, "update": update, **values}) + "\n")
            self._file.flush()
        except OSError as error:
            problem = (
                f"cannot write {self.path}: {error.strerror}; earlier checkpoints are whole: free space, then --resume"
            )
            raise FailureError(problem) from error
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._board.add_scalar(f"{event}/{name}", value, update)

    def sync(self) -> None:
        """Forces the lines to disk: done before a checkpoint, so that a log is never behind it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; a last line that was cut off by a kill is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def draw_loss(log: Path, picture: Path) -> None:
    """Draws training and validation loss (natural log, per token) and the learning rate against updates, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = read(log)
    train = [line for line in lines if line.get("event") == "train"]
    valid = [line for line in lines if line.get("event") == "valid"]
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.plot([r["update"] for r in train], [r["nll"] for r in train], label="training", color="#4878a8", lw=1)
    marks = dict(color="#c05030", lw=1.5, marker="o", ms=3)
    axes.plot([r["update"] for r in valid], [r["nll"] for r in valid], label="validation", **marks)  # type: ignore[arg-type]
    axes.set(xlabel="update", ylabel="-log p a token (nats)", title="Loss without label smoothing")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")
    rates = axes.twinx()
    rates.plot([r["update"] for r in train], [r["lr"] for r in train], color="#999999", lw=0.8, ls=":")
    rates.set_ylabel("learning rate (dotted)")
    rates.set_ylim(bottom=0)
    FigureCanvasAgg(figure)
    with atomic_write(picture) as temporary:
        figure.savefig(temporary, format="png")
