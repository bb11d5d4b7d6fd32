"""The HTML page: whole, self-contained, and safe whatever the tokens are."""

import base64
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import InputError
from regard.view import page
from regard.view.maps import Maps, Place


def _maps(rows: tuple[str, ...], columns: tuple[str, ...]) -> Maps:
    draw = np.random.default_rng(0)
    places = [Place(layer, head) for layer in range(2) for head in range(3)]
    weights = {p: draw.dirichlet(np.ones(len(columns)), len(rows)).astype(np.float32) for p in places}
    return Maps("Cross-attention", rows, columns, "query", "key", weights)


def read(path: Path) -> dict[str, Any]:
    """The data in a page."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2") / 65535


def test_weights_and_tokens_come_back(tmp_path: Path) -> None:
    maps = _maps(("I", " love"), ("我", "爱", "你"))
    assert page.write([maps], tmp_path / "a.html", "我爱你", ["a note"]) == ["a note"]
    data = read(tmp_path / "a.html")
    assert (data["title"], data["notes"]) == ("我爱你", ["a note"])
    kind = data["kinds"][0]
    assert (kind["kind"], kind["rows"], kind["columns"]) == ("Cross-attention", ["I", " love"], ["我", "爱", "你"])
    assert [(m["layer"], m["head"]) for m in kind["maps"]] == [(f"layer {i}", h) for i in range(2) for h in range(3)]
    for m, weights in zip(kind["maps"], maps.weights.values(), strict=True):
        assert np.abs(unpacked(m["weights"]).reshape(2, 3) - weights).max() <= 0.5 / 65535 + 1e-7


def test_only_an_exact_zero_is_zero() -> None:
    assert list(unpacked(page.packed(np.array([0.0, 1e-9, 1.0]))) * 65535) == [0, 1, 65535]


def test_tokens_cannot_break_out(tmp_path: Path) -> None:
    evil = ("</script><img src=x onerror=alert(1)>", "<!--", "\u2028", '"', "&amp;")
    page.write([_maps(evil, evil)], tmp_path / "a.html", "</title><script>x</script>")
    tags: list[str] = []

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Tags().feed((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert tags.count("script") == 2 and tags.count("title") == 1 and "img" not in tags
    assert read(tmp_path / "a.html")["kinds"][0]["columns"][3:] == ['"', "&amp;"]


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    page.write([_maps(("a",), ("b", "c"))], tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|<link|<img|src=|fetch\(|XMLHttpRequest", text)
    assert "/*" not in text.replace("/*DATA*/", "") and "Noto Sans CJK" in text


def test_long_inputs_are_grouped_and_small(tmp_path: Path) -> None:
    labels = tuple(f"t{i}" for i in range(1000))
    weights = {Place(layer, 0): np.full((1000, 1000), 1e-3, dtype=np.float32) for layer in range(4)}
    notes = page.write([Maps("Self-attention", labels, labels, "query", "key", weights)], tmp_path / "a.html")
    assert "drawn in groups of 7 x 7" in notes[0] and read(tmp_path / "a.html")["notes"] == notes
    assert (tmp_path / "a.html").stat().st_size < 300_000


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.html"):
        page.write([_maps(("a",), ("b",))], tmp_path / "a.htm")
