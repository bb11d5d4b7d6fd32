"""Specs as values: reading, refusing, comparing."""

from __future__ import annotations

import dataclasses
import json
import tomllib

import pytest

from regard import mask as M
from regard import shapes
from regard import spec as S
from regard.errors import InputError
from regard.values import FieldError


def test_equal_changes_in_all_layers_are_one_entry():
    a = shapes.decoder(50, 32, layers=6, heads=4)
    b = shapes.decoder(50, 32, layers=6, heads=4, positions="alibi")
    assert S.diff(a, b) == {
        "embedding.position": (S.Learned(1024), None),
        "stack.layers[*][0].body.score_bias": (None, S.ALiBi()),
    }
    assert S.diff(a, a) == {}
    c = dataclasses.replace(a, stack=dataclasses.replace(a.stack, layers=a.stack.layers[:5]))
    assert list(S.diff(a, c)) == ["stack.layers"]


def test_repeated_layers_are_folded_and_unfolded():
    spec = shapes.decoder(50, 32, layers=6, heads=4)
    folded = S.dump(spec)
    assert [run["repeat"] for run in folded["stack"]["layers"]] == [6]
    assert S.parse(folded) == spec
    folded["stack"]["layers"][0]["repeat"] = 10**9
    with pytest.raises(FieldError, match=r"stack\.layers\[0\].*1 \.\. 10000"):
        S.parse(folded)


def test_a_spec_reads_from_toml():
    text = """
    kind = "LanguageModel"
    [embedding]
    vocab_size = 50
    [stack]
    hidden_size = 8
    final_norm = {kind = "RMSNorm"}
    layers = [{repeat = 2, layer = [{kind = "Residual", body = {kind = "MLP", intermediate_size = 16}}]}]
    """
    layer = (S.Residual(S.MLP(16)),)
    assert S.parse(tomllib.loads(text)) == S.LanguageModel(S.Embedding(50), S.Stack(8, (layer, layer), S.RMSNorm()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["stack"].update(hiden_size=3), r"stack\.hiden_size: unknown key; allowed here: final_norm"),
        (lambda d: d["stack"].pop("hidden_size"), r"stack\.hidden_size: this key is required"),
        (lambda d: d["stack"].update(hidden_size="8"), r"stack\.hidden_size: expected a whole number, got '8'"),
        (lambda d: d["stack"].update(hidden_size=True), r"stack\.hidden_size: expected a whole number, got True"),
        (lambda d: d["embedding"].update(vocab_size=0), r"embedding\.vocab_size: got 0, must be at least 1"),
        (
            lambda d: d["stack"]["layers"][0]["layer"][0]["body"].update(heads=3, kv_heads=2),
            r"layers\[0\].*kv_heads: 3 query",
        ),
        (
            lambda d: d["stack"]["layers"][0]["layer"][0]["body"].update(kind="Atention"),
            r"body\.kind: got 'Atention', allowed",
        ),
        (
            lambda d: d["stack"]["layers"][0]["layer"][0]["body"].update(dropout=1.0),
            r"dropout: got 1.0, a dropout rate",
        ),
        (lambda d: d.update(kind="os.system"), r"kind: got 'os.system', allowed"),
    ],
)
def test_refusals_name_the_field_and_what_is_allowed(change, message):
    data = S.dump(shapes.decoder(50, 32, layers=2, heads=4))
    change(data)
    with pytest.raises(FieldError, match=message):
        S.parse(data)


def test_odd_rotary_sizes_and_foreign_cross_attention_are_refused():
    with pytest.raises(FieldError, match="head_dim: got 5"):
        S.Attention(2, 5, rotary=S.Rotary())
    with pytest.raises(FieldError, match="more than head_dim 4"):
        S.Attention(2, 4, rotary=S.Rotary(dim=8))
    import regard

    lonely = S.LanguageModel(S.Embedding(5), S.Stack(8, ((S.Residual(S.CrossAttention(2, 4)),),)))
    with pytest.raises(InputError, match="needs an encoder"):
        regard.build(lonely)
    with pytest.raises(InputError, match="hidden_size 30 cannot be divided by 4"):
        shapes.decoder(50, 30, heads=4)


def test_not_json_is_one_clear_error():
    for text in ("", "{", "[" * 100_000, "3", '{"kind": 3}', json.dumps({"kind": "Stack"})):
        with pytest.raises(FieldError):
            S.loads(text)


def test_masks_draw_and_join():
    picture = (M.Causal() & M.Window(2) | M.Prefix(1)).draw(4)
    assert picture == "# . . .\n# # . .\n# # # .\n# . # #"
    assert (~M.Causal()).draw(2) == ". #\n. ."
    assert M.is_causal(M.Causal() & M.Window(3)) and not M.is_causal(M.Causal() | M.Prefix(2))


def test_published_shapes_exist_as_values():
    base = shapes.encoder_decoder(37000)
    assert base.decoder.stack.layers[0][0] == S.Residual(
        S.Attention(8, 64, bias=True), post_norm=S.LayerNorm(), dropout=0.1
    )
    assert base.encoder.embedding.scale == pytest.approx(512**0.5)
