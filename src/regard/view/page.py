"""One self-contained HTML page in which a reader chooses kind, layer and head. No request leaves it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.files import write_text
from regard.view import fonts
from regard.view.maps import PAGE, Maps, grouped


def write(
    kinds: Sequence[Maps],
    path: str | os.PathLike[str],
    title: str = "",
    notes: Sequence[str] = (),
    side: int = PAGE.side,
) -> list[str]:
    """Writes the page; maps with more than `side` tokens on an axis are grouped.

    Returns:
        All notes that stand in the page.

    Raises:
        InputError: another suffix than .html.
    """
    if Path(path).suffix.lower() != ".html":
        raise InputError(f"cannot write {Path(path).name}: the name of a page must end in .html")
    notes, small = list(notes), []
    for maps in kinds:
        fitted, more = grouped(maps, side)
        notes += more
        small.append(_data(fitted))
    template = resources.files("regard.view").joinpath("attention.html").read_text(encoding="utf-8")
    data = json.dumps({"title": title, "notes": notes, "kinds": small}, ensure_ascii=False)
    # inside a script element only "<" could end it; the two separators end lines in older JavaScript
    for character in "<\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    write_text(path, template.replace("/*FONTS*/", fonts.STACK).replace("/*DATA*/", data))
    return notes


def _data(maps: Maps) -> dict[str, Any]:
    return {
        "kind": maps.kind,
        "rows": [fonts.label(piece) for piece in maps.rows],
        "columns": [fonts.label(piece) for piece in maps.columns],
        "rowAxis": maps.row_axis,
        "columnAxis": maps.column_axis,
        "maps": [{"layer": p.row, "head": p.head, "weights": packed(w)} for p, w in maps.weights.items()],
    }


def packed(weights: np.ndarray[Any, Any]) -> str:
    """Weights in [0, 1] as base64 of little-endian 16-bit numbers, 65535 for 1; only an exact 0 becomes 0."""
    whole = np.rint(np.clip(np.nan_to_num(weights), 0, 1) * 65535)
    return base64.b64encode(np.where(weights > 0, np.maximum(whole, 1), 0).astype("<u2").tobytes()).decode()
