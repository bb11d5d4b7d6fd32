"""README and docs tell the truth: Python blocks run, and `regard` command lines name commands and options that exist.

A fenced block after a line `<!-- no-run: why -->` is not run. The Python blocks of a file run in order and share names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from regard import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\s*$")


class Block(NamedTuple):
    line: int
    language: str
    text: str
    run: bool


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text."""
    lines = text.splitlines()
    start, language = None, ""
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if match and start is None:
            start, language = number, match[1]
        elif match and start is not None:
            before = next((text for text in reversed(lines[:start]) if text.strip()), "")
            run = not before.startswith("<!-- no-run")
            yield Block(start + 2, language, "\n".join(lines[start + 1 : number]), run)
            start = None
    assert start is None, f"the block that begins in line {start} does not end"


def command_lines(block: Block) -> Iterator[tuple[int, list[str]]]:
    """(line, words after `regard`) of a console block's command lines, up to a pipe, redirection or comment."""
    for number, line in enumerate(block.text.splitlines(), block.line):
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["regard"]:
            end = next((i for i, word in enumerate(words) if word in ("|", ">", "<", "&&", "&")), len(words))
            yield number, words[1:end]


def options(name: str) -> set[str]:
    """The options of a command."""
    group: Any = typer.main.get_command(cli._program([name]))
    names = group.commands[name].params if name else group.params
    return {option for parameter in names for option in parameter.opts if option.startswith("-")} | {
        "--help",
        "-h",
        "--debug",
    }


def problem(words: list[str]) -> str:
    """What is wrong with a command line; "" if nothing is."""
    name = next((word for word in words if not word.startswith("-")), "")
    if name and name not in cli.COMMANDS:
        return f"no command {name}"
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    unknown = given - options(name)
    return f"regard {name} has no option {', '.join(sorted(unknown))}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python" and block.run:
            # blank lines in front, so that a traceback names the page's line
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_command_lines_exist(page: Path) -> None:
    wrong = [
        f"line {line}: {fault}"
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in ("console", "bash", "sh")
        for line, words in command_lines(block)
        if (fault := problem(words))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_examples_in_help_exist(name: str) -> None:
    group: Any = typer.main.get_command(cli._program([name]))
    text = group.commands[name].help
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("regard ")]
    assert lines, "the help has no example"
    assert [
        fault for _, words in command_lines(Block(1, "console", "\n".join(lines), True)) if (fault := problem(words))
    ] == []


def test_the_check_itself() -> None:
    page = "<!-- no-run: why -->\n```python\n1 / 0\n```\n\n"
    page += "```console\n$ regard translate x --nonsense 3 | head\nregard fly\n```\n"
    first, second = blocks(page)
    assert (first.language, first.line, first.run) == ("python", 3, False)
    faults = [(line, problem(words)) for line, words in command_lines(second)]
    assert faults == [(7, "regard translate has no option --nonsense"), (8, "no command fly")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_repository_exist(page: Path) -> None:
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [link for link in found if "://" not in link and not (page.parent / link).exists()] == []
