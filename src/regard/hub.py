"""A model folder in and out: config.json, model.safetensors, tokenizer files.

The layout of our own: config.json holds {"regard": layout version, "spec": the spec}. Tensors are named like the
module's parameters; a tied table is stored once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard import spec
from regard.errors import FailureError, InputError
from regard.files import atomic_write, write_text
from regard.nn.build import build
from regard.tokenizer import Tokenizer
from regard.values import FieldError

LAYOUT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source_tokenizer.json"


def save(model: Any, folder: str | os.PathLike[str]) -> None:
    """Writes the model, its spec and its tokenizers to `folder`; every file is written atomically, config.json last.

    Raises:
        FailureError: the disk is full or the folder cannot be written.
    """
    folder = Path(folder)
    with atomic_write(folder / WEIGHTS) as path:
        write_tensors(path, named_tensors(model))
    if model.tokenizer is not None:
        model.tokenizer.save(folder, TOKENIZER)
    if model.source_tokenizer is not None and model.source_tokenizer is not model.tokenizer:
        model.source_tokenizer.save(folder, SOURCE_TOKENIZER)
    config = {"regard": LAYOUT, "spec": spec.dump(model.spec)}
    write_text(folder / CONFIG, json.dumps(config, indent=1) + "\n")


def load(name: str | os.PathLike[str], dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Any:
    """The model of a folder, in eval mode, with `.spec`, `.tokenizer` and `.source_tokenizer`.

    Raises:
        InputError: the folder or a file is missing or damaged, or tensors and spec do not fit (all names are listed).
    """
    folder = Path(name)
    model = build(read_spec(folder), device="meta", dtype=dtype)
    model.to_empty(device=device)
    if isinstance(model.spec, spec.EncoderDecoder) and model.spec.tied_embeddings:
        model.encoder.embedding.tokens = model.decoder.embedding.tokens
    load_tensors(model, folder / WEIGHTS)
    if (folder / TOKENIZER).is_file():
        model.tokenizer = model.source_tokenizer = Tokenizer.load(folder, TOKENIZER)
    if (folder / SOURCE_TOKENIZER).is_file():
        model.source_tokenizer = Tokenizer.load(folder, SOURCE_TOKENIZER)
    _check_vocabulary(model, folder)
    return model.eval()


def read_spec(folder: str | os.PathLike[str]) -> spec.Model:
    """The spec in a folder's config.json; InputError when there is none."""
    path = Path(folder) / CONFIG
    if not Path(folder).is_dir():
        raise InputError(
            f"{folder}: no such folder; give a folder with {CONFIG} and {WEIGHTS}, or a run of `regard train`"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(
            f"{folder}: no {CONFIG} in this folder; is it a model, or a run that has not been saved yet?"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); get the file again") from None
    if not isinstance(config, dict) or "spec" not in config:
        raise InputError(f'{path}: no "spec" in it, so this is not a model that regard wrote')
    try:
        return spec.parse(config["spec"], "spec")
    except FieldError as error:
        raise InputError(f"{path}: {error}") from None


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by its first name, and the persistent buffers; contiguous."""
    named = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    kept = model.state_dict(keep_vars=True)
    return named | {name: b.contiguous() for name, b in model.named_buffers() if name in kept}


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes one safetensors file.

    Raises:
        FailureError: the disk is full or the file cannot be written.
    """
    try:
        save_file(tensors, path, metadata={"format": "pt"} | (metadata or {}))
    except (OSError, SafetensorError) as error:
        raise FailureError(f"cannot write {path.name}: {error}; free space or choose another folder") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file.

    Raises:
        InputError: the file is missing, truncated or damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; the model's weights are missing") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{path}: not a whole safetensors file ({error}); get or train it again") from None


@torch.no_grad()
def load_tensors(model: nn.Module, path: Path) -> None:
    """Fills every parameter from the file; strict both ways.

    Raises:
        InputError: with the missing, unexpected and misshapen names.
    """
    tensors, wanted = read_tensors(path), named_tensors_in_place(model)
    missing = sorted(wanted.keys() - tensors.keys())
    extra = sorted(tensors.keys() - wanted.keys())
    shaped = [
        f"{n} is {list(tensors[n].shape)}, the spec says {list(t.shape)}"
        for n, t in wanted.items()
        if n in tensors and tensors[n].shape != t.shape
    ]
    problems = [f"missing: {_few(missing)}"] * bool(missing) + [f"unexpected: {_few(extra)}"] * bool(extra)
    problems += [f"wrong shape: {_few(shaped)}"] * bool(shaped)
    if problems:
        raise InputError(f"{path}: weights and spec do not fit; {'; '.join(problems)}")
    for name, target in wanted.items():
        target.copy_(tensors[name])


def named_tensors_in_place(model: nn.Module) -> dict[str, Tensor]:
    """As `named_tensors`, but the tensors themselves, to be written to."""
    kept = model.state_dict(keep_vars=True)
    return dict(model.named_parameters()) | {n: b for n, b in model.named_buffers() if n in kept}


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _check_vocabulary(model: Any, folder: Path) -> None:
    towers = (
        [("decoder", model.tokenizer, model.decoder), ("encoder", model.source_tokenizer, model.encoder)]
        if isinstance(model.spec, spec.EncoderDecoder)
        else [("model", model.tokenizer, model)]
    )
    for name, tokenizer, tower in towers:
        size = tower.embedding.vocab_size
        if tokenizer is not None and tokenizer.vocab_size > size:
            has = f"the tokenizer has {tokenizer.vocab_size} tokens, the {name} only {size}"
            raise InputError(f"{folder}: {has}; they belong to different models")
