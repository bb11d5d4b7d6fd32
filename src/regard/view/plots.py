"""Pictures with matplotlib: attention heat maps.

matplotlib is imported when a picture is made, and only its Agg and SVG canvases: no window, no pyplot, no settings
changed outside. Colours are told apart by colour-blind readers (a single-hue scale).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError
from regard.files import atomic_write
from regard.view import fonts
from regard.view.maps import PICTURE, Maps, Place, grouped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
DPI = 150
HIDDEN = "#e6e6e6"
NO_FONT = "No installed font shows some characters, so they are written as code points (U+...): install Noto Sans CJK."

# ---- attention ------------------------------------------------------------------------------------------------------


def heat_maps(
    kinds: Sequence[Maps], path: str | os.PathLike[str], title: str = "", notes: Sequence[str] = ()
) -> list[str]:
    """Draws all maps into one PNG or SVG file: a block a kind, a row a layer, a column a head, tokens on both axes.

    Long axes are grouped (`maps.grouped`). All maps share one colour scale; an exact 0 (hidden by the mask) is grey.

    Returns:
        All notes that stand in the picture: the given ones and what had to be changed to draw it.

    Raises:
        InputError: another suffix than .png or .svg.
    """
    path = _checked(path)
    notes = list(notes)
    small = []
    for maps in kinds:
        fitted, more = grouped(maps, PICTURE.side)
        notes += more
        small.append(_labelled(fitted))
    shown = [title, *(label for maps in small for label in (*maps.rows, *maps.columns))]
    families, missing = fonts.families(shown)
    if path.suffix.lower() == ".svg":
        missing = set()  # text stays text, and the reader's computer has its own fonts
    elif missing:
        notes.append(NO_FONT)
        title, small = fonts.escaped(title, missing), [_escaped(maps, missing) for maps in small]
    if any((weights == 0).any() for maps in small for weights in maps.weights.values()):
        notes.append("Grey: the weight is exactly 0 (hidden by the mask).")
    with _style(families):
        blocks = [_Block(maps, len(kinds)) for maps in small]
        _save(_heat_figure(blocks, title, notes), path)
    return notes


class _Block:
    """The sizes, in inches, of one kind's grid of panels."""

    LEFT, TITLE, GAP = 0.62, 0.5, 0.14  # room for axis name and layer names, for kind and head names, between panels

    def __init__(self, maps: Maps, kinds: int) -> None:
        self.maps, self.layers, self.heads = maps, maps.layers, maps.heads
        rows, columns = len(maps.rows), len(maps.columns)
        room = min(22.0 / len(self.heads) - self.GAP, 7.0) / columns, min(66.0 / kinds / len(self.layers), 7.0) / rows
        self.cell = max(min(0.24, *room), 0.008)
        self.panel = max(self.cell * columns, 0.42), max(self.cell * rows, 0.1)
        self.font = min(max(self.cell * 72 * 0.62, 4.5), 9.0)
        self.every = max(1, math.ceil(self.font * 1.15 / 72 / self.cell))  # labels that would overlap are left out
        self.labels = tuple(max(map(fonts.width, part)) * self.font / 72 + 0.06 for part in (maps.rows, maps.columns))
        self.width = self.LEFT + self.labels[0] + len(self.heads) * (self.panel[0] + self.GAP)
        self.height = self.TITLE + len(self.layers) * (self.panel[1] + self.GAP) + self.labels[1] + 0.32

    def corner(self, layer: str, head: int) -> tuple[float, float]:
        """Left edge, and top edge downwards, of a panel in the block."""
        x = self.LEFT + self.labels[0] + self.heads.index(head) * (self.panel[0] + self.GAP)
        return x, self.TITLE + self.layers.index(layer) * (self.panel[1] + self.GAP)


def _heat_figure(blocks: list[_Block], title: str, notes: list[str]) -> Figure:
    import textwrap

    from matplotlib.figure import Figure

    width = max(6.5, *(block.width for block in blocks)) + 0.9
    lines = [line for note in notes for line in textwrap.wrap(note, max(60, int(width * 15)))]
    head = textwrap.wrap(title, max(30, int(width * 9)), max_lines=3, placeholder=" …")
    top, bottom = 0.2 + 0.24 * len(head), 0.15 + 0.17 * len(lines)
    height = top + sum(block.height for block in blocks) + bottom
    figure = Figure(figsize=(width, height))

    def axes(left: float, down: float, wide: float, high: float) -> Any:
        return figure.add_axes((left / width, 1 - (down + high) / height, wide / width, high / height))

    def text(left: float, down: float, words: str, **options: Any) -> None:
        figure.text(left / width, 1 - down / height, words, parse_math=False, **options)

    text(0.12, 0.12, "\n".join(head), va="top", fontsize=12, fontweight="bold")
    text(0.12, height - 0.08, "\n".join(lines), va="bottom", fontsize=7.5, color="#444444")
    scale, clipped = _scale(blocks)
    down = top
    image: Any = None
    for block in blocks:
        text(0.12, down + 0.05, block.maps.kind, va="top", fontsize=10.5, fontweight="bold")
        for place, weights in block.maps.weights.items():
            left, below = block.corner(place.row, place.head)
            panel = axes(left, down + below, *block.panel)
            image = _panel(panel, block, place, weights, scale)
        middle = down + block.TITLE + (block.height - block.TITLE - block.labels[1] - 0.32) / 2
        text(0.12, middle, block.maps.row_axis, rotation=90, va="center", ha="left", fontsize=8)
        left = block.LEFT + block.labels[0]
        text(left, down + block.height - 0.3, block.maps.column_axis, va="center", ha="left", fontsize=8)
        down += block.height
    bar = axes(width - 0.78, top + 0.62, 0.14, min(2.5, height - top - bottom - 0.9))
    figure.colorbar(image, cax=bar, extend="max" if clipped else "neither")
    bar.tick_params(labelsize=7.5)
    bar.set_title("weight\n(a row adds\nup to 1)", fontsize=7.5, loc="left", pad=5)
    return figure


def _scale(blocks: list[_Block]) -> tuple[float, bool]:
    """The weight of the darkest colour, and whether a few cells lie above it: in long texts most weights are small."""
    weights = np.concatenate([w.ravel() for block in blocks for w in block.maps.weights.values()])
    seen = weights[weights > 0]
    high = float(np.percentile(seen, 99.5)) if seen.size else 1.0
    scale = 1.0 if high > 0.5 else max(0.05, math.ceil(high * 20) / 20)
    return scale, bool((weights > scale + 1e-3).any())


def _panel(axes: Any, block: _Block, place: Place, weights: Any, scale: float) -> Any:
    from matplotlib import colormaps

    colours = colormaps["Blues"].with_extremes(bad=HIDDEN)
    seen = np.ma.masked_equal(weights, 0.0)
    image = axes.imshow(seen, cmap=colours, vmin=0, vmax=scale, aspect="auto", interpolation="none")
    axes.spines[:].set(linewidth=0.4, color="#888888")
    axes.tick_params(length=1.5, width=0.4, pad=1.5, labelsize=block.font)
    first, last = place.head == block.heads[0], place.row == block.layers[-1]
    for axis, labels, visible, options in (
        (axes.yaxis, block.maps.rows, first, {}),
        (axes.xaxis, block.maps.columns, last, {"rotation": 90}),
    ):
        # ticks are slow to make: only where their labels are read
        ticks = range(0, len(labels), block.every) if visible else ()
        axis.set_ticks(ticks, [labels[i] for i in ticks], parse_math=False, **options)
    if place.row == block.layers[0]:
        axes.set_title(f"head {place.head}", fontsize=8, pad=3)
    if first:
        here = -(block.labels[0] + 0.12) / block.panel[0]
        axes.text(here, 0.5, place.row, transform=axes.transAxes, rotation=90, va="center", ha="right", fontsize=8)
    return image


def _labelled(maps: Maps) -> Maps:
    return replace(maps, rows=tuple(map(fonts.label, maps.rows)), columns=tuple(map(fonts.label, maps.columns)))


def _escaped(maps: Maps, missing: set[str]) -> Maps:
    rows, columns = (tuple(fonts.escaped(t, missing) for t in labels) for labels in (maps.rows, maps.columns))
    return replace(maps, rows=rows, columns=columns)


def _checked(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"cannot draw {path.name}: the name must end in {' or '.join(SUFFIXES)}")
    return path


@contextlib.contextmanager
def _style(families: list[str]) -> Iterator[None]:
    """Our settings while the block runs; the caller's own are left as they were."""
    import matplotlib

    ours: Any = {
        "font.family": families,
        "svg.fonttype": "none",
        "svg.hashsalt": "regard",
        "image.composite_image": False,
    }
    with warnings.catch_warnings(), matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(ours)
        # in an SVG file, glyphs that are not here are drawn by the reader's fonts
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _save(figure: Figure, path: Path) -> None:
    kind = path.suffix.lower()[1:]
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata)
        if kind == "svg":
            stack = fonts.STACK.replace('"', "'")
            text = temporary.read_text(encoding="utf-8")
            text = re.sub(rf"(style=\"[^\"]*\bfont(?:-family)?: [^\";]*'{fonts.BASE}')", rf"\1, {stack}", text)
            temporary.write_text(text, encoding="utf-8")
