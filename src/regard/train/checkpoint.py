"""Checkpoints that are whole or not there.

    checkpoints/
      step-300/                 written as .step-300.tmp, every file synced, then renamed
        model.safetensors       parameters and persistent buffers (tied ones once)
        optimizer.safetensors   "parameter name/key" -> tensor
        generators.safetensors  the state of every random generator
        ema.safetensors         the running average, where there is one
        state.json              counters, data position, scaler ...: plain JSON, no pickle anywhere
        COMPLETE                written last: serial number, score, and the size of every file

A folder without a fitting COMPLETE is skipped with a message. Which checkpoint is the newest is said by the serial
number, not by the step: a run that starts over below an old step still finds and keeps its own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import FailureError, InputError
from regard.files import sync
from regard.hub import named_tensors_in_place, read_tensors

MARKER = "COMPLETE"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint.

    score: of the evaluation just before it, lower is better; None: there was none.
    """

    path: Path
    step: int
    serial: int
    score: float | None

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of one file ("model", "optimizer", "generators", "ema"); empty where the file is not there."""
        file = self.path / f"{name}.safetensors"
        return read_tensors(file) if file.exists() else {}

    def state(self) -> dict[str, Any]:
        """The content of state.json."""
        try:
            state = json.loads((self.path / "state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = f"{self.path}/state.json: damaged ({error}); delete {self.path} and resume again"
            raise InputError(problem) from error
        assert isinstance(state, dict)
        return state


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: dict[str, Any],
    score: float | None = None,
    extras: Callable[[Path], None] | None = None,
) -> Checkpoint:
    """Writes `folder/step-N` so that it appears whole or not at all.

    Args:
        tensors: {file name without ending: {name: tensor}}; files without tensors are left out.
        state: goes to state.json.
        extras: writes more files (the model's config, the tokenizer) into the folder it is given.

    Raises:
        FailureError: the disk is full or the folder cannot be written; what was there before stays.
    """
    temporary, final = folder / f".step-{step}.tmp", folder / f"step-{step}"
    try:
        remove(temporary)
        temporary.mkdir(parents=True)
        for name, group in tensors.items():
            if group:
                save_file({k: v.detach().contiguous() for k, v in group.items()}, temporary / f"{name}.safetensors")
        (temporary / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        if extras is not None:
            extras(temporary)
        sizes = {f.name: f.stat().st_size for f in sorted(temporary.iterdir())}
        for name in sizes:
            sync(temporary / name)
        serial = 1 + max((c.serial for c in complete(folder)), default=0)
        marker = {"step": step, "serial": serial, "score": score, "sizes": sizes}
        (temporary / MARKER).write_text(json.dumps(marker), encoding="utf-8")
        sync(temporary / MARKER)
        sync(temporary)
        if final.exists():  # the same step again: at every moment one of the two is whole and in its place
            beside = folder / f"step-{step}.{serial}"
            os.rename(temporary, beside)
            sync(folder)
            remove(final)
            temporary = beside
        os.rename(temporary, final)
        sync(folder)
    except (OSError, SafetensorError) as error:
        remove(temporary)
        reason = getattr(error, "strerror", None) or error
        raise FailureError(
            f"cannot write checkpoint {final}: {reason}; earlier checkpoints are whole: free space, then --resume"
        ) from error
    return Checkpoint(final, step, serial, score)


def complete(folder: Path, tell: Tell | None = None) -> list[Checkpoint]:
    """The complete checkpoints of a folder, oldest first; `tell` gets a message for each one that is not complete."""
    found: dict[int, Checkpoint] = {}
    for path in sorted(folder.glob("step-*")) if folder.is_dir() else ():
        problem, checkpoint = _read(path)
        if checkpoint is None:
            if tell is not None:
                tell(f"skipping {path}: {problem}")
        elif checkpoint.step not in found or found[checkpoint.step].serial < checkpoint.serial:
            found[checkpoint.step] = checkpoint  # of two for one step (a kill while one replaced the other) the newer
    return sorted(found.values(), key=lambda c: c.serial)


def _read(path: Path) -> tuple[str, Checkpoint | None]:
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
        for name, size in marker["sizes"].items():
            if (path / name).stat().st_size != size:
                return f"{name} has {(path / name).stat().st_size} bytes instead of {size} (truncated)", None
        return "", Checkpoint(path, int(marker["step"]), int(marker["serial"]), marker["score"])
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing (the save was interrupted)", None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return f"{MARKER} cannot be read", None


def latest(folder: Path, tell: Tell | None = None) -> Checkpoint | None:
    """The checkpoint that was saved last, skipping what is not complete."""
    found = complete(folder, tell)
    return found[-1] if found else None


def best(checkpoints: Iterable[Checkpoint], count: int = 1) -> list[Checkpoint]:
    """The `count` checkpoints with the lowest scores, best first; of equal ones the earlier."""
    scored = [c for c in checkpoints if c.score is not None]
    return sorted(scored, key=lambda c: (c.score, c.serial))[:count]


def rotate(folder: Path, keep: int, keep_best: int = 1) -> None:
    """Deletes all complete checkpoints but the `keep` saved last and the `keep_best` best.

    Leftovers of killed saves go too. To be called after a successful save. At least the newest one always stays.
    """
    found = complete(folder)
    kept = {c.path for c in found[-max(keep, 1) :]} | {c.path for c in best(found, keep_best)}
    for path in folder.glob("step-*"):
        # a damaged checkpoint that has its marker is left for people to look at
        if path not in kept and (_read(path)[1] is not None or not (path / MARKER).exists()):
            remove(path)
    for leftover in folder.glob(".step-*.tmp"):
        remove(leftover)


def remove(path: Path) -> None:
    """Deletes a folder if it is there; its marker first, so that it is no checkpoint even if this is interrupted."""
    (path / MARKER).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


@torch.no_grad()
def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies tensors into the parameters (and buffers) of these names."""
    places = named_tensors_in_place(model)
    for name, tensor in tensors.items():
        places[name].copy_(tensor)


class Generators:
    """Every source of random numbers of a run: the named generators and torch's, numpy's and Python's global ones."""

    def __init__(self, **named: torch.Generator) -> None:
        self.named = named

    def tensors(self) -> dict[str, Tensor]:
        """Their states as byte and integer tensors."""
        version, words, gauss = random.getstate()
        state: Any = np.random.get_state(legacy=True)
        _, keys, position, has_gauss, cached = state
        out = {f"named/{name}": generator.get_state() for name, generator in self.named.items()}
        out["torch"] = torch.get_rng_state()
        out["python"] = torch.tensor([version, *words], dtype=torch.int64)
        out["python_gauss"] = torch.tensor([] if gauss is None else [gauss], dtype=torch.float64)
        out["numpy"] = torch.tensor([*keys.tolist(), position, has_gauss], dtype=torch.int64)
        out["numpy_gauss"] = torch.tensor([cached], dtype=torch.float64)
        if torch.cuda.is_available():
            out |= {f"cuda/{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
        return out

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Puts back what `tensors` gave."""
        for name, generator in self.named.items():
            generator.set_state(tensors[f"named/{name}"].clone())
        torch.set_rng_state(tensors["torch"].clone())
        version, *words = tensors["python"].tolist()
        gauss = tensors["python_gauss"].tolist()
        random.setstate((version, tuple(words), gauss[0] if gauss else None))
        *keys, position, has_gauss = tensors["numpy"].tolist()
        cached = tensors["numpy_gauss"].item()
        np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, cached))
        for i in range(torch.cuda.device_count()):
            if f"cuda/{i}" in tensors:
                torch.cuda.set_rng_state(tensors[f"cuda/{i}"].clone(), i)
