"""Training speed, target tokens a second without padding: regard, torch.nn.Transformer and the Marian of transformers.

    python benchmarks/training_speed.py                                  the embedded phrasebook
    python benchmarks/training_speed.py --data ../shared/data/multi30k   train.en.gz and train.de.gz of a folder

One process trains all contestants in turn, batch by batch, in rotating order, on the same sentences with the same
optimiser. Two comparisons: all on the same length-bucketed batches; and regard on those against the others on random
batches of the same mean number of sentences. Memory is measured in a process of its own for each contestant.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import itertools
import json
import pickle
import platform
import random
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from peers import CONTESTANTS, Contestant, Shape, assert_alike
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import regard
from regard.data.batches import BucketedBatches, PairBatch
from regard.data.phrasebook import generate
from regard.files import write_text

FORMATS = ("float32", "bfloat16")
Examples = list[tuple[list[int], list[int]]]


# ---- sentences ------------------------------------------------------------------------------------------------------


def read_pairs(folder: Path | None) -> tuple[str, list[tuple[str, str]]]:
    """(what it is, sentence pairs): the phrasebook, or English-German from train.en.gz and train.de.gz."""
    if folder is None:
        return "regard's French-English phrasebook", list(generate(seed=0).train)
    sides = []
    for language in ("en", "de"):
        with gzip.open(folder / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines())
    return f"{folder.name} English-German", list(zip(*sides, strict=True))


def encode(pairs: list[tuple[str, str]], vocab_size: int) -> Examples:
    """Token ids of both sides, by a joint byte-level BPE learnt from them."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<pad>", "<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(itertools.chain.from_iterable(pairs), trainer)
    sides = [[e.ids for e in bpe.encode_batch([pair[side] for pair in pairs])] for side in (0, 1)]
    return list(zip(*sides, strict=True))


class Batches:
    """Endless bucketed batches, and random ones of the same mean number of sentences."""

    def __init__(self, examples: Examples, tokens: int) -> None:
        self.bucketed = BucketedBatches(examples, tokens)
        self.sentences = round(len(examples) / self.bucketed.batches_per_epoch)
        self.count, self.random = len(examples), random.Random(0)
        self.streams = {"bucketed": iter(self.bucketed), "random": self._shuffled()}

    def _shuffled(self) -> Iterator[PairBatch]:
        while True:
            order = self.random.sample(range(self.count), self.count)
            for start in range(0, self.count - self.sentences + 1, self.sentences):
                yield self.bucketed.make(np.array(order[start : start + self.sentences]))

    def next(self, kind: str) -> PairBatch:
        return next(self.streams[kind])

    def padding(self, kind: str, batches: int = 50) -> float:
        """The share of padding among target tokens in some batches."""
        seen = [self.next(kind) for _ in range(batches)]
        return 1 - sum(b.tokens for b in seen) / sum(b.labels.numel() for b in seen)


# ---- timing ---------------------------------------------------------------------------------------------------------


class Trainer:
    """A contestant and its optimiser."""

    def __init__(self, model: Contestant) -> None:
        self.model = model
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(self, batch: PairBatch, number_format: str) -> float:
        """One update; its seconds."""
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=number_format == "bfloat16"):
            loss = self.model(batch)
        (loss / batch.tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - start
        assert torch.isfinite(loss), f"the loss of {type(self.model).__name__} is not finite"
        return seconds


Entry = tuple[str, str]  # (contestant, kind of batches)


@dataclass
class Result:
    """Rates of one number format, a round each, by entry; `marian` is the faster of Marian's two attentions."""

    marian: str
    trial: dict[str, float]
    rates: dict[Entry, list[float]]


def race(
    trainers: dict[str, Trainer], batches: Batches, number_format: str, rounds: int, steps: int, tick: Any
) -> Result:
    """Rounds of `steps` batches each. Before them, Marian's two attentions run against each other; the faster stays."""
    marians = [name for name in trainers if name.startswith("Marian")]
    trial = _round(trainers, [(n, "bucketed") for n in marians], batches, number_format, steps, 0, warmups=2)
    marian = max(trial, key=lambda entry: trial[entry])[0]
    entries: list[Entry] = [(n, "bucketed") for n in ("regard", "nn.Transformer", marian)]
    entries += [(n, "random") for n in ("nn.Transformer", marian)]
    rates: dict[Entry, list[float]] = {entry: [] for entry in entries}
    _round(trainers, entries, batches, number_format, 1, 0)  # warm-up
    for number in range(rounds):
        for entry, rate in _round(trainers, entries, batches, number_format, steps, number).items():
            rates[entry].append(rate)
        tick()
    return Result(marian, {name: rate for (name, _), rate in trial.items()}, rates)


def _round(
    trainers: dict[str, Trainer], entries: list[Entry], batches: Batches, number_format: str, steps: int, turn: int,
    warmups: int = 0,
) -> dict[Entry, float]:  # fmt: skip
    """Tokens a second of every entry over `steps` batches; after each batch another entry begins."""
    seconds, tokens = dict.fromkeys(entries, 0.0), dict.fromkeys(entries, 0)
    for step in range(-warmups, steps):
        given = {kind: batches.next(kind) for kind in sorted({kind for _, kind in entries})}
        first = (turn + step) % len(entries)
        for name, kind in entries[first:] + entries[:first]:
            spent = trainers[name].step(given[kind], number_format)
            if step >= 0:
                seconds[name, kind] += spent
                tokens[name, kind] += given[kind].tokens
    return {entry: tokens[entry] / seconds[entry] for entry in entries}


def ratio(above: list[float], below: list[float]) -> dict[str, float]:
    """The ratio of the medians, and the least and greatest ratio of a round."""
    each = [a / b for a, b in zip(above, below, strict=True)]
    return {"median": statistics.median(above) / statistics.median(below), "min": min(each), "max": max(each)}


def summary(result: Result) -> dict[str, Any]:
    """The figures of one number format, ready for JSON."""
    rates = {
        f"{name}, {kind}": {"median": statistics.median(r), "min": min(r), "max": max(r), "rounds": r}
        for (name, kind), r in result.rates.items()
    }
    ours = result.rates["regard", "bucketed"]
    ratios = {f"{n}, {k}": ratio(ours, r) for (n, k), r in result.rates.items() if n != "regard"}
    return {"marian": result.marian, "trial": result.trial, "tokens_per_second": rates, "regard_is_faster_by": ratios}


# ---- memory ---------------------------------------------------------------------------------------------------------


def memory(arguments: argparse.Namespace, name: str, number_format: str, given: Sequence[PairBatch]) -> float:
    """MiB of a contestant's training above what the process held before the model was built, in a new process."""
    command = [sys.executable, __file__, "--probe", name, number_format]
    command += ["--threads", str(arguments.threads), "--heads", str(arguments.heads)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, input=pickle.dumps(given)).stdout)


def probe(arguments: argparse.Namespace) -> None:
    """The child of `memory`: trains on the batches from standard input and prints its peak in MiB."""
    name, number_format = arguments.probe
    batches = pickle.load(sys.stdin.buffer)
    before = reset_peak()
    trainer = Trainer(CONTESTANTS[name](Shape(heads=arguments.heads)))
    for batch in batches:
        trainer.step(batch, number_format)
    print(peak() - before)


def reset_peak() -> float:
    """MiB in use now; from here on `peak` counts anew where the system allows it (Linux), else from the start."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> float:
    """The process's greatest resident size in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


# ---- report ---------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Processor and versions. bfloat16: whether the processor has instructions for it."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    return {
        "processor": fields.get("model name") or platform.processor() or platform.machine(),
        "bfloat16": bool(flags & {"avx512_bf16", "amx_bf16", "bf16"}),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "regard": regard.__version__,
    }


def markdown(report: dict[str, Any]) -> str:
    """The report as a page of docs/results/."""
    m, d = report["machine"], report["data"]
    native = "has" if m["bfloat16"] else "has no"
    lines = [
        "# Training speed",
        "",
        f"Made by `{report['command']}` on {report['date']}.",
        "",
        f"{m['processor']}, {report['threads']} threads; the processor {native} bfloat16 instructions. Python "
        f"{m['python']}, torch {m['torch']}, transformers {m['transformers']}, regard {m['regard']}.",
        "",
        f"The model: encoder-decoder, {report['shape']['layers']} + {report['shape']['layers']} layers, hidden size "
        f"{report['shape']['hidden_size']}, feed-forward {report['shape']['intermediate_size']}, "
        f"{report['shape']['heads']} heads, joint vocabulary {report['shape']['vocab_size']:,}, dropout "
        f"{report['shape']['dropout']} on embeddings, attention weights, residual branches and inside the feed-forward "
        "part; label smoothing 0.1, Adam (fused), gradient clipping.",
        "",
        f"The sentences: {d['name']}, {d['pairs']:,} pairs. Bucketed batches hold "
        f"{report['batch_tokens']:,} target tokens at most, with padding ({d['padding']['bucketed']:.1%} padding); "
        f"random ones {d['sentences']} sentences each ({d['padding']['random']:.1%} padding). Making them is untimed.",
        "",
        "| | parameters | loss a token at start |",
        "| --- | ---: | ---: |",
        *(f"| {n} | {report['parameters'][n]:,} | {loss:.2f} |" for n, loss in report["first_losses"].items()),
        "",
    ]
    for number_format, figures in report["speed"].items():
        lines += _section(number_format, figures, report["memory"].get(number_format, {}), report)
    return "\n".join(lines)


def _section(
    number_format: str, figures: dict[str, Any], memories: dict[str, float], report: dict[str, Any]
) -> list[str]:
    title = number_format if number_format == "float32" else f"{number_format} autocast"
    lines = [
        f"## {title}",
        "",
        f"Target tokens a second, padding not counted, over {report['rounds']} rounds of {report['steps']} batches.",
        "",
        "| batches | | median | least | greatest | regard is faster by (rounds) |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for entry, r in figures["tokens_per_second"].items():
        name, kind = entry.rsplit(", ", 1)
        by = figures["regard_is_faster_by"].get(entry)
        factor = "" if by is None else f"**{by['median']:.2f} x** ({by['min']:.2f} - {by['max']:.2f})"
        lines.append(f"| {kind} | {name} | {r['median']:,.0f} | {r['min']:,.0f} | {r['max']:,.0f} | {factor} |")
    trial = ", ".join(f"{n} {rate:,.0f}" for n, rate in figures["trial"].items())
    lines += ["", f"Marian's attention was chosen by a trial on bucketed batches: {trial}."]
    if memories:
        each = ", ".join(f"{n} {mib:,.0f} MiB" for n, mib in memories.items())
        lines += ["", f"Peak memory of {report['probe_steps']} updates on bucketed batches, in a process each: {each}."]
    return [*lines, ""]


def show(console: Console, report: dict[str, Any]) -> None:
    """The tables on the terminal."""
    for number_format, figures in report["speed"].items():
        table = Table(title=f"{number_format}: target tokens a second")
        for column in ("batches, contestant", "median", "least", "greatest", "regard is faster by"):
            table.add_column(column, justify="left" if "," in column else "right")
        for entry, r in figures["tokens_per_second"].items():
            by = figures["regard_is_faster_by"].get(entry)
            factor = "" if by is None else f"{by['median']:.2f} x ({by['min']:.2f} - {by['max']:.2f})"
            table.add_row(entry, *(f"{r[k]:,.0f}" for k in ("median", "min", "max")), factor)
        console.print(table)
        for name, mib in report["memory"].get(number_format, {}).items():
            console.print(f"  peak memory {name}: {mib:,.0f} MiB", highlight=False)


def measure(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Runs everything and gives the report."""
    shape = Shape(heads=arguments.heads)
    what, pairs = read_pairs(arguments.data)
    batches = Batches(encode(pairs, shape.vocab_size), arguments.batch_tokens)
    torch.manual_seed(0)
    contestants = {name: make(shape) for name, make in CONTESTANTS.items()}
    losses = assert_alike(contestants, batches.next("bucketed"))
    padding = {kind: batches.padding(kind) for kind in ("bucketed", "random")}
    trainers = {name: Trainer(c.train()) for name, c in contestants.items()}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    speed: dict[str, Any] = {}
    memories: dict[str, dict[str, float]] = {}
    with Progress(*columns, console=console) as progress:
        for number_format in arguments.formats:
            task = progress.add_task(f"{number_format} rounds", total=arguments.rounds)
            result = race(
                trainers, batches, number_format, arguments.rounds, arguments.steps, lambda t=task: progress.advance(t)
            )
            speed[number_format] = summary(result)
        wanted = [(f, n) for f in speed for n in ("regard", "nn.Transformer", speed[f]["marian"])]
        task = progress.add_task("memory", total=len(wanted))
        given = [batches.next("bucketed") for _ in range(arguments.probe_steps)]
        for number_format, name in wanted:
            memories.setdefault(number_format, {})[name] = memory(arguments, name, number_format, given)
            progress.advance(task)
    return {
        "command": shlex.join(["python", "benchmarks/training_speed.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "threads": arguments.threads,
        "shape": asdict(shape),
        "data": {"name": what, "pairs": len(pairs), "sentences": batches.sentences, "padding": padding},
        "parameters": {name: c.parameter_count for name, c in contestants.items()},
        "first_losses": losses,
        "rounds": arguments.rounds, "steps": arguments.steps, "probe_steps": arguments.probe_steps,
        "batch_tokens": arguments.batch_tokens,
        "speed": speed,
        "memory": memories,
    }  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with train.en.gz and train.de.gz (default: the phrasebook)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of a number format")
    parser.add_argument("--steps", type=int, default=4, help="batches of a round")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="target tokens of a bucketed batch")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--probe-steps", type=int, default=20, help="updates of a memory measurement")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 1 batch of 512 tokens: to see that it runs")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--report", type=Path, help="write the page to this file (docs/results/training-speed.md)")
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.steps, arguments.probe_steps, arguments.batch_tokens = 2, 1, 3, 512
    return arguments


def main() -> None:
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    if arguments.probe:
        return probe(arguments)
    console = Console(stderr=True)
    report = measure(arguments, console)
    show(Console(), report)
    if arguments.json:
        write_text(arguments.json, json.dumps(report, indent=2) + "\n")
    if arguments.report:
        write_text(arguments.report, markdown(report))


if __name__ == "__main__":
    main()
