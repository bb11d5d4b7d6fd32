"""Sentence pairs from where they are. What cannot be read is told with file and line; what is left out is counted."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.config import DataConfig
from regard.errors import InputError


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


@dataclass
class Report:
    """What was read and what was left out, a line a split."""

    lines: list[str] = field(default_factory=list)

    def add(self, name: str, kept: int, left_out: dict[str, int]) -> None:
        why = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        self.lines.append(f"{name}: {kept:,} pairs" + (f" (left out: {why})" if why else ""))

    def __str__(self) -> str:
        return "; ".join(self.lines)


@dataclass(frozen=True)
class Corpus:
    """The pairs of a recipe's data. test: {name of the set: pairs}."""

    train: list[Pair]
    valid: list[Pair]
    test: dict[str, list[Pair]]
    report: Report


def load(config: DataConfig) -> Corpus:
    """Reads all splits.

    Raises:
        InputError: a file is missing, empty, not UTF-8, not aligned or without a column; with the file and line.
    """
    report = Report()
    if config.kind == "phrasebook":
        from regard.data.phrasebook import generate

        book = generate(config.seed, config.size)
        made = {"train": book.train, "valid": book.valid, "held-out combinations": book.test}
        turned = config.source == "en"
        raw: dict[str, Iterable[Pair]] = {
            name: [Pair(english, french) if turned else Pair(french, english) for french, english in pairs]
            for name, pairs in made.items()
        }
    else:
        paths = {"train": config.train, "valid": config.valid} | config.test
        raw = {name: _read(config, path) for name, path in paths.items() if path}
    splits = {name: _clean(name, pairs, config, name == "train", report) for name, pairs in raw.items()}
    train, valid = splits.pop("train"), splits.pop("valid", [])
    if not train:
        raise InputError(
            f"data.train: no pair is left in {config.train or config.kind}; see what was left out: {report}"
        )
    return Corpus(train, valid, splits, report)


def _clean(name: str, pairs: Iterable[Pair], config: DataConfig, training: bool, report: Report) -> list[Pair]:
    """Test sets keep every line; training and validation pairs go through the filters."""
    kept: list[Pair] = []
    seen: set[Pair] = set()
    out = {
        "with an empty side": 0,
        f"over {config.max_characters} characters": 0,
        "of unlike lengths": 0,
        "repeated": 0,
    }
    empty, long, unlike, repeated = out
    for pair in pairs:
        pair = Pair(pair.source.strip(), pair.target.strip())
        if config.lowercase:
            pair = Pair(pair.source.lower(), pair.target.lower())
        a, b = len(pair.source), len(pair.target)
        if name in ("train", "valid") and not (a and b):
            out[empty] += 1
        elif training and max(a, b) > config.max_characters:
            out[long] += 1
        elif training and config.max_ratio and max(a, b) + 10 > config.max_ratio * (min(a, b) + 10):
            out[unlike] += 1
        elif training and config.unique and pair in seen:
            out[repeated] += 1
        else:
            kept.append(pair)
            if config.unique:
                seen.add(pair)
    report.add(name, len(kept), out)
    return kept


def _read(config: DataConfig, path: str) -> Iterator[Pair]:
    if config.kind == "files":
        return aligned(*(_path(config, path.replace("{lang}", side)) for side in (config.source, config.target)))
    if config.kind == "tsv":
        return tsv(_path(config, path), config.source, config.target)
    if config.kind == "jsonl":
        return jsonl(_path(config, path), config.source, config.target)
    return hub(expand(config.root), path, config.source, config.target)


def _path(config: DataConfig, path: str) -> Path:
    return Path(expand(config.root)) / expand(path)


def expand(text: str) -> str:
    """Puts environment variables in: ${NAME}, or ${NAME:-default}.

    Raises:
        InputError: the variable is not set and there is no default.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        found = os.environ.get(name) or default
        if found is None:
            raise InputError(f"data: the environment variable {name} is not set; set it, or change {text!r}")
        return found

    return re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", value, text)


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file (plain or .gz; UTF-8, a BOM is tolerated; LF or CRLF), without their ends.

    Raises:
        InputError: the file is missing, empty, damaged, or not UTF-8 (with the line).
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.rstrip("\n").removesuffix("\r")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the [data] table's root and paths") from None
    except UnicodeDecodeError as error:
        at = f"line {number}, byte {error.start}"
        raise InputError(f"{path}: {at}: not UTF-8; convert the file (for example with iconv)") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); get the file again") from None
    if number == 0:
        raise InputError(f"{path}: the file is empty; give one sentence a line")


def aligned(source: Path, target: Path) -> Iterator[Pair]:
    """Two files whose lines belong together; InputError when they have different numbers of lines."""
    a, b = list(lines(source)), list(lines(target))
    if len(a) != len(b):
        raise InputError(f"{source} has {len(a):,} lines, {target} has {len(b):,}; aligned files have the same number")
    yield from map(Pair, a, b)


def tsv(path: Path, source: str, target: str) -> Iterator[Pair]:
    """Tab-separated columns, by number from 1 or by the names in the first line."""
    columns: list[int] | None = None
    if source.isdigit() and target.isdigit():
        columns = [int(source) - 1, int(target) - 1]
    for number, line in enumerate(lines(path), 1):
        cells = line.split("\t")
        if columns is None:
            missing = [name for name in (source, target) if name not in cells]
            if missing:
                raise InputError(
                    f"{path}: line 1: no column {missing[0]!r}; it has {', '.join(cells)} (or give numbers)"
                )
            columns = [cells.index(source), cells.index(target)]
        elif not line:
            yield Pair("", "")
        elif max(columns) >= len(cells):
            raise InputError(f"{path}: line {number}: {len(cells)} columns, number {max(columns) + 1} is needed")
        else:
            yield Pair(cells[columns[0]], cells[columns[1]])


def jsonl(path: Path, source: str, target: str) -> Iterator[Pair]:
    """One JSON object a line; keys may look inside ("translation.fr")."""
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            yield Pair("", "")
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number}: not JSON ({error})") from None
        yield Pair(*(_look(row, key, f"{path}: line {number}") for key in (source, target)))


def hub(name: str, split: str, source: str, target: str) -> Iterator[Pair]:
    """A data set by its hub name; needs the extra `regard[hub]`."""
    try:
        import datasets
    except ImportError:
        raise InputError("data.kind = \"hub\" needs the `datasets` library: pip install 'regard[hub]'") from None
    try:
        rows = datasets.load_dataset(name, split=split)
    except Exception as error:  # the library raises many kinds
        raise InputError(f"data set {name!r}, split {split!r}: {str(error).splitlines()[0]}") from None
    for number, row in enumerate(rows):
        yield Pair(*(_look(row, key, f"{name}: row {number}") for key in (source, target)))


def _look(row: Any, key: str, where: str) -> str:
    for part in key.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    if not isinstance(row, str):
        raise InputError(f"{where}: no text under {key!r}; set data.source and data.target to the right keys")
    return row
