"""A plan as tables for people."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from regard.measure.plan import Plan

if TYPE_CHECKING:
    from rich.table import Table


def tables(plan: Plan, shapes: bool = True) -> list[Table]:
    """Rich tables: parameters by part, shapes (if wanted), memory, FLOPs."""
    made = [_parameters(plan), _memory(plan), _flops(plan)]
    return [made[0], _shapes(plan), *made[1:]] if shapes else made


def text(plan: Plan, shapes: bool = True, width: int = 100) -> str:
    """The same tables as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    for table in tables(plan, shapes):
        console.print(table)
        console.print()
    return console.file.getvalue()  # type: ignore[attr-defined]


def human(number: float) -> str:
    """A count in short: 63_082_496 -> "63.1 M"."""
    return _scaled(number, 1000, ("", " k", " M", " G", " T", " P"))


def human_bytes(number: float) -> str:
    """Bytes in short, binary units: 252_329_984 -> "240.6 MiB"."""
    return _scaled(number, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    # a number that would be printed as 1000.0 belongs to the next unit
    while power + 1 < len(units) and abs(number) >= base - (0.05 if power else 0):
        number, power = number / base, power + 1
    return f"{number:.{1 if power else 0}f}{units[power]}"


def _parameters(plan: Plan) -> Table:
    table = _table("Parameters", "part", "parameters", "share")
    for part, count in plan.parts.items():
        table.add_row(part, f"{count:,}", f"{count / plan.parameters:.1%}")
    table.add_section()
    table.add_row("all", f"{plan.parameters:,}", human(plan.parameters))
    return table


def _shapes(plan: Plan) -> Table:
    table = _table("Shapes", "tensor", "shape")
    for name, shape in plan.shapes.items():
        table.add_row(name, " x ".join(f"{n:,}" for n in shape))
    return table


def _memory(plan: Plan) -> Table:
    m = plan.memory
    table = _table(f"Memory, {_rows(plan)}", "what", "training", "inference")
    table.add_row("weights", human_bytes(m.weights), human_bytes(m.inference_weights))
    table.add_row("gradients", human_bytes(m.gradients), "")
    table.add_row("optimizer", human_bytes(m.optimizer), "")
    table.add_row("activations (estimate)", human_bytes(m.activations), "")
    table.add_row("key-value cache", "", human_bytes(m.kv_cache))
    table.add_section()
    table.add_row("all", human_bytes(m.training), human_bytes(m.inference))
    return table


def _flops(plan: Plan) -> Table:
    f = plan.flops
    one = f"{plan.length} tokens" + (f" from {plan.source_length}" if plan.source_length else "")
    table = _table(f"FLOPs of one row ({one})", "what", "forward", "training")
    for name, value in (("projections", f.projections), ("attention", f.attention), ("head", f.head)):
        table.add_row(name, human(value), human(3 * value))
    table.add_section()
    table.add_row("all", human(f.forward), human(f.training))
    table.add_row("a token", human(f.per_token), human(3 * f.per_token))
    return table


def _rows(plan: Plan) -> str:
    rows = f"{plan.batch} row" + ("s" if plan.batch > 1 else "")
    return f"{rows} of {plan.length} tokens" + (f", source {plan.source_length}" if plan.source_length else "")


def _table(title: str, *columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.min_width = len(title)  # or the title of a narrow table is folded
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    return table
