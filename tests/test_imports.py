"""Imports run downward only, from a room to one below it (see CONTRIBUTING); also inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# The rooms from the ground up. A room imports rooms of lower floors, and itself.
FLOORS = (
    ("errors",),
    ("values", "files"),
    ("ranges",),
    ("mask",),
    ("spec",),
    ("shapes",),
    ("nn", "kernels", "cache"),
    ("weights", "families", "hub", "tokenizer"),
    ("generate", "train", "data", "evaluate", "measure"),
    ("lab", "view", "serve"),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
# Rooms of one floor that may see each other.
NEIGHBOURS = {
    "nn": {"kernels", "cache"},
    "cache": {"nn"},
    "kernels": {"nn"},
    "hub": {"tokenizer", "weights", "families"},
    "families": {"weights"},
    "train": {"data", "generate", "evaluate"},
    "evaluate": {"generate", "data"},
    "data": set[str](),
}


def imported_rooms(source: str, module: str) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of `regard` in a module's source; `import regard` itself gives the room ""."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            parent = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{parent}.{alias.name}" for alias in node.names] if parent == "regard" else [parent]
        for name in names:
            if name == "regard" or name.startswith("regard."):
                yield node.lineno, (name.split(".") + [""])[1]


def wrong_imports(source: str, module: str) -> list[str]:
    """The imports of a module that go up or sideways."""
    room = (module.split(".") + [""])[1]
    wrong = []
    for line, other in imported_rooms(source, module):
        if room == "" or other == room:  # the package itself names everything, lazily
            continue
        if other not in FLOOR:  # `import regard`, and public names of it: for the top floors only
            allowed = FLOOR[room] >= FLOOR["view"]
        else:
            allowed = FLOOR[other] < FLOOR[room] or other in NEIGHBOURS.get(room, ())
        if not allowed:
            wrong.append(f"{module}:{line} ({room}) imports {other or 'regard'}")
    return wrong


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((SOURCE / "regard").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_room_has_a_floor() -> None:
    rooms = {name.split(".")[1] for name, _ in modules() if "." in name}
    assert rooms - FLOOR.keys() == set()


def test_imports_run_downward() -> None:
    wrong = [fault for name, path in modules() for fault in wrong_imports(path.read_text(encoding="utf-8"), name)]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("regard.data.sources", "def f():\n    from regard.train import loop", 1),
        ("regard.data.sources", "def f():\n    import regard.train.loop", 1),
        ("regard.nn.model", "from regard import hub", 1),
        ("regard.nn.model", "import regard", 1),
        ("regard.spec", "from .nn import build", 1),
        ("regard.train.loop", "from regard.data import load\nfrom regard import hub, nn", 0),
        ("regard.cli.train", "import regard\nfrom regard.view import plots", 0),
        ("regard.view.plots", "from regard.cli import main", 1),
    ],
)
def test_the_check_itself(module: str, source: str, count: int) -> None:
    assert len(wrong_imports(source, module)) == count
