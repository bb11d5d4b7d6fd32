"""The `regard` program: one module a command, each with a function `command`; here is what they share.

`regard --help` must be quick, so no command module imports torch (or anything that does) outside its function, and only
the module of the command that was asked for is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

import regard
from regard.errors import FailureError, InputError
from regard.values import FieldError

COMMANDS = ("demo", "train", "translate", "evaluate", "attention", "inspect")
INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line (without the program's name; None: this process's) and returns the exit status.

    0: done. 1: failed while working. 2: bad usage or input. 130: interrupted. Errors are one line on standard error; a
    traceback is printed only with --debug, which may stand anywhere.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    words = [word for word in given if word != "--debug"]
    try:
        status = _program(words)(args=words or ["--help"], prog_name="regard", standalone_mode=False) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        message, status = explain(error)
        print(f"error: {message}", file=sys.stderr)
        return status
    if status == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return int(status)


def explain(error: Exception) -> tuple[str, int]:
    """The one line that is shown for an error, and the exit status."""
    if isinstance(error, TyperException):
        return _one_line(error.format_message()), error.exit_code
    if isinstance(error, InputError | FieldError):
        return _one_line(str(error)), 2
    if isinstance(error, FailureError):
        return _one_line(str(error)), 1
    if isinstance(error, OSError):
        bad_path = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError | PermissionError)
        where = f"{error.filename}: " if error.filename else ""
        return _one_line(f"{where}{error.strerror or error}"), 2 if bad_path else 1
    return _one_line(f"unexpected {type(error).__name__}: {error} (run again with --debug to see where)"), 1


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _program(words: Sequence[str]) -> typer.Typer:
    """The program with the one command that is asked for, or with all of them."""
    program = typer.Typer(
        add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
    )
    program.callback()(_options)
    asked = next((word for word in words if not word.startswith("-")), "")
    for name in [asked] if asked in COMMANDS else COMMANDS:
        program.command(name)(importlib.import_module(f"regard.cli.{name}").command)
    return program


def _version(wanted: bool) -> None:
    if wanted:
        print(f"regard {regard.__version__}")
        raise typer.Exit()


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback with an error (anywhere on the line).")
    ] = False,
) -> None:
    """Train Transformers, translate with them, and look inside.

    MODEL is a folder with config.json, model.safetensors and tokenizer.json, such as a run of `regard train`.
    `regard COMMAND --help` explains a command, with an example.
    """
