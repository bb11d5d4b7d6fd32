"""Text in pictures: labels that any installed set of fonts can show."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable

BASE = "DejaVu Sans"  # comes with matplotlib
PREFERRED = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans CJK TC", "Source Han Sans SC",
    "Source Han Sans", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "PingFang SC", "Hiragino Sans",
    "Hiragino Sans GB", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei",
    "Droid Sans Fallback", "SimHei", "Arial Unicode MS", "AR PL UMing CN", "Unifont",
)  # fmt: skip
"""Looked at first, in this order; then every other installed font."""

STACK = (
    'system-ui, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", '
    '"Malgun Gothic", "WenQuanYi Micro Hei", "Noto Color Emoji", sans-serif'
)
"""For pages, whose reader's computer has the fonts."""

LONGEST = 18


def label(piece: str) -> str:
    """A token's piece as one line: control characters are escaped, a piece of spaces is drawn, long ones are cut."""
    if not piece.strip(" "):
        return "␣" * max(1, len(piece))
    shown = "".join(repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in piece)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def families(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """The font families that together show `texts`, best first, and the characters that no installed font has."""
    missing = {c for text in texts for c in text if not c.isspace()} - _characters(BASE)
    chosen = [BASE]
    for family in _candidates() if missing else ():
        found = missing & _characters(family)
        if found:
            chosen.append(family)
            missing -= found
        if not missing:
            break
    return chosen, missing


def escaped(text: str, missing: set[str]) -> str:
    """`text` with the characters that cannot be shown as code points: "U+4F60"; invisible ones are dropped."""
    if not missing.intersection(text):
        return text
    parts = [f" U+{ord(c):04X} " if c in missing else c for c in text if c not in missing or _visible(c)]
    return " ".join("".join(parts).split())


def width(text: str) -> float:
    """About how wide `text` is, in units of the font size."""
    return sum(0.0 if not _visible(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in text)


def _visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Cf", "Mn", "Me")


def _candidates() -> list[str]:
    from matplotlib import font_manager

    installed = sorted({font.name for font in font_manager.fontManager.ttflist})
    # "Last Resort" has a picture of a box for every character
    others = [f for f in installed if f not in PREFERRED and not f.startswith(("Last Resort", "cm", "STIX", "DejaVu"))]
    return [f for f in PREFERRED if f in installed] + others


@functools.cache
def _characters(family: str) -> frozenset[str]:
    """What the regular face of a family can show; nothing if its file is gone or has only bitmaps (some emoji)."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    try:
        path = font_manager.findfont(font_manager.FontProperties(family=family), fallback_to_default=False)
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (OSError, RuntimeError, ValueError):
        return frozenset()
