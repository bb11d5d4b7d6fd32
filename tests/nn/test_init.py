"""Initial values: every scheme sets every parameter, with the spread it promises."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import shapes
from regard import spec as S
from regard.errors import InputError
from regard.nn.init import SCHEMES
from regard.nn.model import MODELS
from regard.shapes import deepnorm_constants


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "spec",
    [
        shapes.encoder_decoder(50, 32, 2, 4, 64, tied_head=False),
        shapes.decoder(50, 32, 2, 4, norm="rms"),
        shapes.encoder(50, 32, 2, 4, heads_on_top=(S.Pooler(), S.SequenceClassifier(3))),
    ],
)
def test_every_parameter_is_set_and_the_generator_decides(scheme, spec):
    model = MODELS[type(spec)](spec)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    SCHEMES[scheme](model, torch.Generator().manual_seed(3))
    assert all(p.isfinite().all() for p in model.parameters())
    again = regard.build(spec, init=scheme, generator=torch.Generator().manual_seed(3))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_gpt2_scales_what_writes_to_the_residual_stream():
    model = regard.build(shapes.decoder(500, 128, 8, 4), init="gpt2", generator=torch.Generator().manual_seed(0))
    layer = model.stack.layers[3]
    assert layer.attention.q.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for projection in (layer.attention.o, layer.mlp.down):
        assert projection.weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.05)
    assert layer.attention.q.bias.abs().sum() == 0 and (layer.mlp_residual.pre_norm.weight == 1).all()


def test_truncated_normal_is_truncated():
    model = regard.build(shapes.encoder(500, 64, 2, 4), init="truncated_normal")
    assert max(p.abs().max().item() for p in model.parameters() if p.ndim > 1) <= 0.04


def test_deepnorm_constants_of_the_paper():
    both = deepnorm_constants(6, 6)
    assert both["encoder"] == pytest.approx((0.81 * (6**5) ** (1 / 16), 0.87 * (6**5) ** (-1 / 16)))
    assert both["decoder"] == pytest.approx((18**0.25, 72**-0.25))
    assert deepnorm_constants(0, 24)["decoder"] == pytest.approx((48**0.25, 192**-0.25))
    spec = shapes.encoder_decoder(50, 32, 6, 4, 64, norm="deepnorm")
    assert spec.decoder.stack.layers[0][0].scale == pytest.approx(18**0.25)
    model = regard.build(spec, init="deepnorm", generator=torch.Generator().manual_seed(0))
    attention = model.decoder.stack.layers[0].attention
    assert (attention.v.weight.std() / attention.q.weight.std()).item() == pytest.approx(72**-0.25, rel=0.1)


def test_an_unknown_scheme_names_the_known_ones():
    with pytest.raises(InputError, match="there are xavier, gpt2"):
        regard.build(shapes.decoder(5, 8, 1, 1), init="kaiming")
