"""Files and functions stay small enough to read, and nothing of one machine is in the repository."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
MOST_FILE, MOST_FUNCTION = 520, 65
# Written so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)" + r"/\w")


def long_functions(source: str, most: int) -> list[tuple[str, int]]:
    """(name, lines) of the functions with more lines than `most`, docstring and decorators not counted."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
            lines = (node.end_lineno or 0) - node.lineno + 1 - docstring
            if lines > most:
                found.append((node.name, lines))
    return found


def test_files_are_short() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > MOST_FILE} == {}


def test_functions_are_short() -> None:
    found = {str(p.relative_to(ROOT)): long_functions(p.read_text(encoding="utf-8"), MOST_FUNCTION) for p in MODULES}
    assert {name: functions for name, functions in found.items() if functions} == {}
    assert long_functions("def f():\n    a = 1\n    b = 2\n", 2) == [("f", 3)]


def test_no_machine_paths() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        if b"\0" in data[:4096]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if MACHINE.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []
    assert MACHINE.search("see /" + "home/someone") and not MACHINE.search("https://x.org/home/page")
