"""`regard translate`."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.generate import Hypothesis
    from regard.generate.translation import Progress

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
    trace: Annotated[
        bool, typer.Option("--trace", help="Show the encoder's work and every step of the decoder.")
    ] = False,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", help="Source tokens a batch.")] = 4096,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a text.")] = False,
) -> None:
    """Translate texts, or lines of standard input.

    \b
    Examples:
      regard translate runs/demo "Je t'aime." --trace
      regard translate runs/demo --json < french.txt > english.jsonl
    """
    if as_json and trace:
        raise InputError("--json and --trace exclude each other: leave one out")
    import regard
    from regard.generate import translate

    net = regard.load(model)
    options: dict[str, Any] = {"beams": beam, "n_best": n_best, "max_length": max_length, "banned": ban or ()}
    options |= {"length_penalty": length_penalty, "no_repeat_ngram": no_repeat_ngram, "batch_tokens": batch_tokens}
    done = 0
    with counter() as count:
        for block in blocks(texts or read_lines(), 1 if not texts and sys.stdin.isatty() else BLOCK):
            found = translate(net, block, **options, progress=count(done))
            for number, (text, hypotheses) in enumerate(zip(block, found, strict=True), done + 1):
                print(shown(net, number, text, hypotheses, n_best, trace, as_json))
            sys.stdout.flush()
            done += len(block)


def shown(
    net: Any, number: int, text: str, hypotheses: list[Hypothesis], n_best: int, trace: bool, as_json: bool
) -> str:
    """What is printed for one text."""
    if as_json:
        shown = [vars(h) | {"pieces": net.tokenizer.pieces(h.ids)} for h in hypotheses]
        return json.dumps({"source": text, "text": hypotheses[0].text, "hypotheses": shown}, ensure_ascii=False)
    if trace and text.strip():
        from regard.view import trace as view

        return "\n\n".join(view.render(view.trace(net, text, h)) for h in hypotheses)
    if n_best > 1:
        return "\n".join(f"{number}\t{h.score:.4f}\t{one_line(h.text)}" for h in hypotheses)
    return one_line(hypotheses[0].text)


def one_line(text: str) -> str:
    """A model may write line ends; a line of output is one text."""
    return " ".join(text.splitlines())


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


@contextlib.contextmanager
def counter() -> Iterator[Callable[[int], Progress | None]]:
    """Counts finished texts on standard error, when a person sees that and the translations go elsewhere.

    Gives a function from the number of texts that were finished before to the callback for `translate`.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda before: None
        return
    from rich.console import Console

    with Console(stderr=True).status("translating") as status:
        yield lambda before: lambda done, _: status.update(f"{before + done:,} texts translated")
