"""Attention of real models: recorded, named by the tokenizer's pieces, and written."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import shapes
from regard import spec as S
from regard.errors import InputError
from regard.nn.build import build
from regard.nn.hook import record
from regard.tokenizer import Tokenizer
from regard.view import attention
from regard.view.maps import PAGE, Limits, Place

from .test_page import read, unpacked

TEXTS = ["Je t'aime.", "I love you.", "我爱你。", "Tu m'aimes."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 5, 300)


def _model(spec: S.Model, tokenizer: Tokenizer) -> Any:
    model = build(spec, generator=torch.Generator().manual_seed(0)).eval()
    model.tokenizer = model.source_tokenizer = tokenizer
    return model


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Any:
    return _model(shapes.encoder_decoder(tokenizer.vocab_size, 16, 2, 4, 32), tokenizer)


def test_fault_V1(translator: Any) -> None:
    """Asking for weights takes the plain path for that call: they exist, rows add up to 1, and the output is equal."""
    source = torch.tensor([[5, 9, 12, 7], [4, 6, 0, 0]])
    target = torch.tensor([[1, 8, 9], [1, 3, 0]])
    given = dict(source=source, source_lengths=torch.tensor([4, 2]), lengths=torch.tensor([3, 2]))
    with torch.no_grad():
        fused = translator(target, **given)
        with record(translator, "*.attend.probs") as acts:
            plain = translator(target, **given)
        after = translator(target, **given)
    assert len(acts) == 6
    for name, probs in acts.items():
        assert isinstance(probs, torch.Tensor), name
        assert torch.allclose(probs.sum(-1), torch.ones(probs.shape[:-1]), atol=1e-6), name
    valid = torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    assert torch.allclose(plain[valid], fused[valid], atol=1e-5)
    assert torch.equal(after, fused)


def test_kinds_tokens_and_weights_of_a_translator(translator: Any, tokenizer: Tokenizer) -> None:
    kinds, _, title, target, notes = attention.look(translator, "Je t'aime.", "I love you.")
    source, written = [*tokenizer.encode("Je t'aime."), tokenizer.end_id], tokenizer.encode("I love you.")
    assert [k.kind for k in kinds] == ["Encoder self-attention", "Decoder self-attention", "Cross-attention"]
    encoder, decoder, cross = kinds
    assert encoder.rows == encoder.columns == cross.columns == tuple(tokenizer.pieces(source))
    assert decoder.rows == cross.rows == (*tokenizer.pieces(written), "</s>")
    assert decoder.columns == ("<s>", *tokenizer.pieces(written))
    assert (title, target, notes) == ("Attention: Je t'aime. → I love you.", "I love you.", [])
    with torch.no_grad(), record(translator, "*.attend.probs") as acts:
        translator(torch.tensor([[tokenizer.start_id, *written]]), source=torch.tensor([source]))
    for maps, name in (
        (encoder, "encoder.stack.layers.{}.attention.attend.probs"),
        (decoder, "decoder.stack.layers.{}.attention.attend.probs"),
        (cross, "decoder.stack.layers.{}.cross_attention.attend.probs"),
    ):
        assert list(maps.weights) == [Place(layer, head) for layer in range(2) for head in range(4)]
        for place, weights in maps.weights.items():
            recorded = acts[name.format(place.layer)]
            assert isinstance(recorded, torch.Tensor)
            assert np.array_equal(weights, recorded[0, place.head].numpy())


def test_the_models_own_translation_is_attended_over(translator: Any, tmp_path: Path) -> None:
    from regard.generate import translate

    best = translate(translator, ["Je t'aime."], beams=1)[0][0]
    saved = attention.save(translator, "Je t'aime.", tmp_path / "a.html")
    assert saved.target == best.text
    assert read(tmp_path / "a.html")["kinds"][2]["rows"] == [_short(p) for p in translator.tokenizer.pieces(best.ids)]


def _short(piece: str) -> str:
    from regard.view.fonts import label

    return label(piece)


@pytest.mark.parametrize("suffix", ["png", "svg", "html", "PNG"])
def test_every_kind_of_file(translator: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    saved = attention.save(translator, "Je t'aime.", path, target="I love you.", layers=[1], heads=[0, 2])
    assert saved.path == path and path.stat().st_size > 5_000
    if suffix == "html":
        cross = read(path)["kinds"][2]
        assert [(m["layer"], m["head"]) for m in cross["maps"]] == [("layer 1", 0), ("layer 1", 2)]
        rows = unpacked(cross["maps"][0]["weights"]).reshape(len(cross["rows"]), -1).sum(1)
        assert np.allclose(rows, 1, atol=1e-3)
    if suffix == "svg":
        assert ">layer 1<" in path.read_text(encoding="utf-8") and ">layer 0<" not in path.read_text(encoding="utf-8")


def test_a_language_model_and_an_encoder(tokenizer: Tokenizer) -> None:
    decoder = shapes.decoder(tokenizer.vocab_size, 16, 2, 4, kv_heads=2, positions="rotary")
    thrice = dataclasses.replace(decoder, stack=dataclasses.replace(decoder.stack, order=(0, 1, 0)))
    kinds, *_ = attention.look(_model(thrice, tokenizer), "I love you.", heads=[3])
    assert [(k.kind, k.layers) for k in kinds] == [("Self-attention", ["layer 0, run 1", "layer 0, run 2", "layer 1"])]
    first, second, _ = kinds[0].weights.values()
    assert not np.allclose(first, second)
    assert np.allclose(first, np.tril(first)) and np.allclose(first.sum(1), 1, atol=1e-6)
    encoder = _model(shapes.encoder(tokenizer.vocab_size, 16, 1, 4), tokenizer)
    assert attention.look(encoder, "I love you.")[0][0].rows == tuple(tokenizer.pieces(tokenizer.encode("I love you.")))


def test_many_weights_are_recorded_in_several_passes(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attention.look(translator, "Je t'aime.", "I love you.", limits=Limits(side=4))
    monkeypatch.setattr(attention, "AT_ONCE", 1)
    parts = attention.look(translator, "Je t'aime.", "I love you.", limits=Limits(side=4))
    assert whole[4] == parts[4] and len(whole[4]) == 3 and "drawn in groups of" in whole[4][0]
    for one, other in zip(whole[0], parts[0], strict=True):
        assert one.rows == other.rows and list(one.weights) == list(other.weights)
        # a layer that is not watched takes the fused path: equal up to float32 rounding
        assert all(np.allclose(one.weights[p], other.weights[p], atol=1e-6) for p in one.weights)


def test_fault_V3_long_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A long text ends in a page of bounded size, with a note; one that is far too long is refused."""
    model = _model(shapes.decoder(tokenizer.vocab_size, 16, 3, 2, positions="rotary"), tokenizer)
    text = " ".join(["I love you."] * 120)
    tokens = len(tokenizer.encode(text))
    saved = attention.save(model, text, tmp_path / "a.html")
    assert tokens > PAGE.side and f"{tokens} x {tokens} tokens" in saved.notes[0]
    assert (tmp_path / "a.html").stat().st_size < 500_000
    with pytest.raises(InputError, match="more than the 2,048 that can be shown"):
        attention.save(model, text * 40, tmp_path / "b.html")


def test_training_mode_is_given_back(translator: Any, tokenizer: Tokenizer) -> None:
    model = _model(translator.spec, tokenizer).train()
    attention.look(model, "Je t'aime.", "I love you.")
    assert model.training and model.encoder.training


def test_bad_input_is_told(translator: Any, tmp_path: Path) -> None:
    for path, text, options, message in (
        ("a.pdf", "x", {}, r"a\.pdf: the name must end in \.png, \.svg or \.html"),
        ("a.png", "", {}, "the text is empty"),
        ("a.png", "x", {"layers": [7]}, r"there is no layer 7; layers are 0 \.\. 1"),
        ("a.png", "x", {"heads": [4]}, r"there is no head 4; heads are 0 \.\. 3"),
    ):
        with pytest.raises(InputError, match=message):
            attention.save(translator, text, tmp_path / path, **options)  # type: ignore[arg-type]
    bare = build(translator.spec).eval()
    with pytest.raises(InputError, match="has no tokenizer"):
        attention.save(bare, "x", tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
