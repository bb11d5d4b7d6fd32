"""Choosing, limiting and grouping maps."""

import numpy as np
import pytest

from regard.errors import InputError
from regard.view.maps import PAGE, PICTURE, Limits, Maps, Place, choose, fit, grouped, pool

PLACES = [Place(layer, head) for layer in range(3) for head in range(2)]


def test_choose_layers_and_heads() -> None:
    assert choose(PLACES, None, None) == PLACES
    assert choose(PLACES, [2, 0], [1]) == [Place(0, 1), Place(2, 1)]
    with pytest.raises(InputError, match=r"there is no layer 3; layers are 0 \.\. 2"):
        choose(PLACES, [3], None)
    with pytest.raises(InputError, match=r"there is no head -1; heads are 0 \.\. 1"):
        choose(PLACES, None, [-1])


def test_pool_by_hand_keeps_row_sums() -> None:
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 0.6, 0.4]], dtype=np.float32)
    assert np.allclose(pool(weights, 2, 2), [[0.5, 0.5], [0.6, 0.4]])
    large = np.random.default_rng(0).dirichlet(np.ones(101), size=77).astype(np.float32)
    small = pool(large, 5, 3)
    assert small.shape == (16, 34)
    assert np.allclose(small.sum(1), 1, atol=1e-5)


def test_short_maps_are_left_as_they_are() -> None:
    maps = Maps("Self-attention", ("a", "b"), ("a", "b"), "query", "key", {Place(0, 0): np.eye(2, dtype=np.float32)})
    assert grouped(maps, 2) == (maps, [])


def test_fault_V3() -> None:
    """1,000 tokens and 24 layers: groups of tokens, chosen layers, and a note for each; nothing grows without bound."""
    labels = tuple(f"t{i}" for i in range(1000))
    weights = np.full((1000, 1000), 1e-3, dtype=np.float32)
    small, notes = grouped(Maps("Self-attention", labels, labels, "query", "key", {Place(0, 0): weights}), PAGE.side)
    assert len(small.rows) == len(small.columns) == 143 <= PAGE.side
    assert small.rows[0] == "t0 … t6" and small.rows[-1] == "t994 … t999"
    assert small.weights[Place(0, 0)].shape == (143, 143)
    assert np.allclose(small.weights[Place(0, 0)].sum(1), 1, atol=1e-4)
    assert "1000 x 1000 tokens, drawn in groups of 7 x 7" in notes[0]

    places = [Place(layer, head) for layer in range(24) for head in range(16)]
    kinds, side, notes = fit({"Self-attention": places}, PICTURE)
    assert sorted({p.layer for p in kinds["Self-attention"]}) == [0, 5, 9, 14, 18, 23]
    assert len(kinds["Self-attention"]) == 96 == PICTURE.maps
    assert "96 of 384 maps are shown (layers 0, 5, 9, 14, 18, 23)" in notes[0]

    kinds, side, notes = fit({"Self-attention": places}, PAGE)
    assert (len(kinds["Self-attention"]), notes) == (384, [])
    assert 384 * side**2 <= 2_000_000 < 384 * (side + 1) ** 2

    huge = [Place(layer, head) for layer in range(96) for head in range(96)]
    kinds, side, notes = fit({"Self-attention": huge}, PAGE)
    assert len(kinds["Self-attention"]) * side**2 <= 2_000_000 and side >= 32
    assert "of 9216 maps are shown" in notes[0]


def test_one_layer_with_too_many_heads_is_cut() -> None:
    kinds, _, notes = fit({"Self-attention": [Place(0, head) for head in range(9)]}, Limits(side=10, maps=4))
    assert kinds["Self-attention"] == [Place(0, head) for head in range(4)]
    assert "4 of 9 maps" in notes[0]
