"""`regard translate`."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.generate import Hypothesis

BLOCK = 1024  # lines that are sorted by length together; a translation waits for its block


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder, such as runs/demo.")],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="What to translate [lines of standard input].")
    ] = None,
    beam: Annotated[int, typer.Option("--beam", help="Hypotheses searched; 1 is greedy.")] = 5,
    n_best: Annotated[int, typer.Option("--n-best", help="Translations printed, with their scores.")] = 1,
    max_length: Annotated[
        int | None, typer.Option("--max-length", help="Tokens a translation may have [from the source's length].")
    ] = None,
    length_penalty: Annotated[
        float, typer.Option("--length-penalty", help="score = log-probability / length ** penalty.")
    ] = 1.0,
    no_repeat_ngram: Annotated[
        int, typer.Option("--no-repeat-ngram", help="No N tokens in a row appear twice; 0: they may.")
    ] = 0,
    ban: Annotated[list[str] | None, typer.Option("--ban", help="A word that may not appear; may be repeated.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show the encoder's work and every step of the decoder.")] = False,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", help="Source tokens a batch.")] = 4096,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a text.")] = False,
) -> None:
    """Translate texts, or the lines of standard input, in their order.

    \b
    Examples:
      regard translate runs/demo "Je t'aime." --trace
      regard translate runs/demo --json < french.txt > english.jsonl
    """
    import regard
    from regard.generate import translate

    if as_json and trace:
        raise InputError("--json and --trace exclude each other: leave one out")
    net = regard.load(model)
    options = {"length_penalty": length_penalty, "max_length": max_length, "no_repeat_ngram": no_repeat_ngram}
    options |= {"beams": beam, "n_best": n_best, "banned": ban or (), "batch_tokens": batch_tokens}
    number = itertools.count(1)
    for block in progress(blocks(texts or read_lines(), 1 if not texts and sys.stdin.isatty() else BLOCK)):
        filled = [text for text in block if text.strip()]
        found = iter(translate(net, filled, **options) if filled else [])
        for text in block:
            hypotheses = next(found) if text.strip() else []
            print(shown(net, next(number), text, hypotheses, n_best, trace, as_json))
        sys.stdout.flush()


def shown(
    net: Any, number: int, text: str, hypotheses: list[Hypothesis], n_best: int, trace: bool, as_json: bool
) -> str:
    """What is printed for one text; an empty text has no hypotheses, and an empty translation."""
    if as_json:
        return json.dumps(
            {
                "source": text,
                "text": hypotheses[0].text if hypotheses else "",
                "hypotheses": [vars(h) | {"pieces": net.tokenizer.pieces(h.ids)} for h in hypotheses],
            },
            ensure_ascii=False,
        )
    if trace and hypotheses:
        from regard.view import trace as view

        return "\n\n".join(view.render(view.trace(net, text, h)) for h in hypotheses)
    if n_best > 1:
        return "\n".join(f"{number}\t{h.score:.4f}\t{h.text}" for h in hypotheses)
    return hypotheses[0].text if hypotheses else ""


def read_lines() -> Iterator[str]:
    """The lines of standard input, as they come.

    Raises:
        InputError: a line is not UTF-8.
    """
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input, line {number}, byte {error.start + 1}: not UTF-8; convert the text first"
            ) from None


def blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of at most `size` lines."""
    lines = iter(lines)
    while block := list(itertools.islice(lines, size)):
        yield block


def progress(work: Iterator[list[str]]) -> Iterator[list[str]]:
    """Counts the finished lines on standard error, when a person sees that and the translations go elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from work
        return
    from rich.console import Console

    done = 0
    with Console(stderr=True).status("translating") as status:
        for block in work:
            yield block
            done += len(block)
            status.update(f"{done:,} lines translated")
