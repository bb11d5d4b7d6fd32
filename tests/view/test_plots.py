"""The pictures: what is drawn, in which colours and fonts, and that nothing outside is changed."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from regard.errors import InputError
from regard.view import fonts, plots
from regard.view.maps import Maps, Place

PNG = b"\x89PNG\r\n\x1a\n"


def _maps(rows: tuple[str, ...], columns: tuple[str, ...], layers: int = 1, heads: int = 2) -> Maps:
    draw = np.random.default_rng(0)
    places = [Place(layer, head) for layer in range(layers) for head in range(heads)]
    weights = {p: draw.dirichlet(np.ones(len(columns)), len(rows)).astype(np.float32) for p in places}
    return Maps("Cross-attention", rows, columns, "target token being written", "source token looked at (key)", weights)


def _bright(picture: Path) -> np.ndarray:
    from matplotlib.image import imread

    return imread(picture)[..., :3].mean(-1)


def test_png_has_every_map_and_leaves_settings_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    notes = plots.heat_maps([_maps(("I", " love", " you"), ("Je", " t", "'aime"))], tmp_path / "a.png", "Je t'aime")
    assert notes == []
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert dict(matplotlib.rcParams) == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_svg_keeps_tokens_as_text(tmp_path: Path) -> None:
    maps = _maps(("I", "$x_1$", "<s>"), ("我", "爱你", "\n", "  "), layers=2)
    assert plots.heat_maps([maps], tmp_path / "a.svg", "我爱你 & <b>") == []
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for text in (
        "我爱你 &amp; &lt;b&gt;",
        ">$x_1$<",
        ">&lt;s&gt;<",
        ">爱你<",
        r">\n<",
        ">␣␣<",
        ">head 1<",
        ">layer 1<",
    ):
        assert text in svg
    assert "target token being written" in svg and "source token looked at (key)" in svg
    assert "'Noto Sans CJK SC'" in svg and svg.count("<text ") == svg.count("sans-serif")
    # the same maps give the same file
    again = tmp_path / "b.svg"
    plots.heat_maps([maps], again, "我爱你 & <b>")
    assert again.read_text(encoding="utf-8") == svg


def test_characters_without_a_font_become_code_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_candidates", lambda: [])
    assert fonts.families(["héé →", "你"]) == (["DejaVu Sans"], {"你"})
    assert fonts.escaped("我 爱你!\u200d", {"爱", "你", "\u200d"}) == "我 U+7231 U+4F60 !"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notes = plots.heat_maps([_maps(("I",), ("你", "a"))], tmp_path / "a.png", "你")
    assert notes == [plots.NO_FONT]


def test_an_installed_font_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {
        "DejaVu Sans": frozenset("ab"),
        "Gone": frozenset(),
        "Noto Sans CJK SC": frozenset("你ab"),
        "Kana": frozenset("か"),
    }
    monkeypatch.setattr(fonts, "_candidates", lambda: ["Gone", "Noto Sans CJK SC", "Kana"])
    monkeypatch.setattr(fonts, "_characters", have.__getitem__)
    assert fonts.families(["a你", "か ☃"]) == (["DejaVu Sans", "Noto Sans CJK SC", "Kana"], {"☃"})
    assert fonts.families(["ab"]) == (["DejaVu Sans"], set())


def test_fonts_that_draw_boxes_are_not_taken() -> None:
    assert not any(name.startswith("Last Resort") for name in fonts._candidates())
    assert fonts._characters("No such family") == frozenset()


def test_hidden_cells_are_grey_and_said_so(tmp_path: Path) -> None:
    causal = np.array([[1, 0], [0.5, 0.5]], dtype=np.float32)
    maps = Maps("Self-attention", ("a", "b"), ("a", "b"), "query", "key", {Place(0, 0): causal})
    notes = plots.heat_maps([maps], tmp_path / "a.png")
    assert notes == ["Grey: the weight is exactly 0 (hidden by the mask)."]
    grey = np.isclose(_bright(tmp_path / "a.png"), 0xE6 / 255, atol=1e-3).sum()
    assert grey == pytest.approx((0.24 * plots.DPI) ** 2, rel=0.15)


def test_darker_is_more(tmp_path: Path) -> None:
    from matplotlib import colormaps

    shades = colormaps["Blues"](np.linspace(0, 1, 20))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(shades) < 0).all()
    for value in (0.9, 0.1):
        weights = np.full((2, 2), value, dtype=np.float32)
        maps = Maps("Self-attention", ("a", "b"), ("a", "b"), "query", "key", {Place(0, 0): weights})
        plots.heat_maps([maps, _maps(("a",), ("b",))], tmp_path / f"{value}.png")
    assert _bright(tmp_path / "0.9.png").mean() < _bright(tmp_path / "0.1.png").mean()


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jpg: the name must end in \.png or \.svg"):
        plots.heat_maps([_maps(("a",), ("b",))], tmp_path / "a.jpg")
