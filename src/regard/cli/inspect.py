"""`regard inspect`."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Annotated, Any

import typer


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder.")],
    batch: Annotated[int, typer.Option("--batch", help="Rows, for the memory.")] = 1,
    length: Annotated[int | None, typer.Option("--length", help="Tokens a row [128, or as many as fit].")] = None,
    source_length: Annotated[
        int | None, typer.Option("--source-length", help="Source tokens a row [as --length].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the spec and all figures as JSON.")] = False,
) -> None:
    """Print structure, parameters, memory and FLOPs.

    Only config.json is read, no weights. Memory is for training and for inference.

    \b
    Example:
      regard inspect runs/demo --batch 32 --length 64
    """
    from regard import spec
    from regard.hub import read_spec
    from regard.measure import plan, table

    found = read_spec(model)
    costs = plan.plan(found, batch=batch, length=length, source_length=source_length)
    if as_json:
        print(json.dumps({"spec": spec.dump(found), **costs.to_dict()}))
        return
    print("\n".join(["Structure", *outline(found, depth=1), ""]))
    print(table.text(costs))


def outline(part: Any, name: str = "", depth: int = 0) -> list[str]:
    """A spec as indented lines: what fits stays on one line, equal neighbours are counted; defaults are left out."""
    line = "  " * depth + name + inline(part)
    if len(line) <= 116 and "layers=" not in line:
        return [line]
    if isinstance(part, tuple):
        head, below = (
            "" if name.endswith(": ") else "layer",
            [(f"{len(list(same))} x ", item) for item, same in itertools.groupby(part)],
        )
        if not any(isinstance(item, tuple) for item in part):
            below = [("", item) for item in part]
    else:
        values = [(field, value) for field, value in _fields(part)]
        simple = ", ".join(f"{field}={inline(v)}" for field, v in values if not _is_tree(v))
        head = f"{type(part).__name__}({simple})"
        below = [(f"{field}: ", value) for field, value in values if _is_tree(value)]
    return [("  " * depth + name + head).rstrip(), *(line for n, item in below for line in outline(item, n, depth + 1))]


def inline(value: Any) -> str:
    """A part of a spec on one line, as Python would write it without the defaults."""
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{name}={inline(v)}' for name, v in _fields(value))})"
    if isinstance(value, tuple):
        return f"({', '.join(inline(v) for v in value)})"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _fields(part: Any) -> list[tuple[str, Any]]:
    values = [(field, getattr(part, field.name)) for field in dataclasses.fields(part)]
    return [(field.name, value) for field, value in values if value != field.default]


def _is_tree(value: Any) -> bool:
    return isinstance(value, tuple) or dataclasses.is_dataclass(value)
