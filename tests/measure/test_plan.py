"""Costs counted from the spec: against published figures, formulas, and the modules themselves."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest
import torch

from regard import shapes
from regard import spec as S
from regard.errors import InputError
from regard.measure import parameters, table
from regard.measure import plan as measure
from regard.measure.parameters import body_shapes, ranges
from regard.measure.table import human, human_bytes
from regard.nn.build import build

NORM = S.LayerNorm()


def _odd_model() -> S.LanguageModel:
    """Everything that has parameters, in unusual places."""
    norm = S.RMSNorm()
    attention = S.Attention(6, 8, 2, qk_norm=norm, bias=True, out_bias=False, score_bias=S.RelativeBias(8, 16))
    both = S.Parallel((S.Residual(attention, pre_norm=norm), S.Residual(S.GatedMLP(20, bias=True))), pre_norm=NORM)
    second = S.Residual(S.Attention(6, 4, 3, qk_norm=norm, qk_norm_over="all"), norm, S.LayerNorm(bias=False), NORM)
    layer = (both, second, S.Residual(S.MLP(24), norm), S.Residual(S.MLP(12, bias=False)))
    stack = S.Stack(16, (layer, layer[1:]), norm, S.RelativeBias(4, 9), order=(0, 1, 1, 0))
    embedding = S.Embedding(50, S.Learned(12, offset=2), NORM, segments=3)
    return S.LanguageModel(embedding, stack, S.LMHead(False, True, transform="gelu", transform_norm=NORM))


def _with_heads() -> S.Encoder:
    heads = (S.LMHead(bias=True, transform="gelu"), S.Pooler(), S.SequenceClassifier(3), S.TokenClassifier(5))
    return shapes.encoder(60, 16, 2, 4, context=20, heads_on_top=heads)


MODELS = {
    "odd": _odd_model(),
    "heads": _with_heads(),
    "shared": shapes.encoder_decoder(60, 16, 2, 4, 32),
    "apart": shapes.encoder_decoder(60, 16, 2, 4, 32, source_vocab_size=70, tied_head=False, norm="pre"),
    "gpt": shapes.decoder(60, 16, 2, 4, context=10),
    "llama": shapes.decoder(
        60, 16, 3, 4, kv_heads=2, positions="rotary", norm="rms", gated=True, bias=False, tied_head=False
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_names_and_shapes_are_those_of_the_module(name: str) -> None:
    module = build(MODELS[name], device="meta")
    assert parameters.parameter_shapes(MODELS[name]) == {n: tuple(p.shape) for n, p in module.named_parameters()}
    parts = parameters.count_parameters(MODELS[name])
    assert (
        sum(parts.values()) == parameters.total_parameters(MODELS[name]) == sum(p.numel() for p in module.parameters())
    )


def test_parts_of_a_small_model_by_hand() -> None:
    assert parameters.count_parameters(shapes.encoder_decoder(60, 16, 2, 4, 32)) == {
        "embedding": 60 * 16,
        "encoder.attention": 2 * 4 * (16 * 16 + 16),
        "encoder.mlp": 2 * (2 * 16 * 32 + 32 + 16),
        "encoder.norms": 2 * 2 * 32,
        "decoder.attention": 2 * 4 * (16 * 16 + 16),
        "decoder.cross_attention": 2 * 4 * (16 * 16 + 16),
        "decoder.mlp": 2 * (2 * 16 * 32 + 32 + 16),
        "decoder.norms": 2 * 3 * 32,
    }


def test_folded_shapes_name_the_layers_they_stand_for() -> None:
    folded = parameters.folded_shapes(MODELS["gpt"])
    assert folded["stack.layers.0-1.attention.q.weight"] == (16, 16)
    assert not any(".layers.0." in name for name in folded)
    odd = parameters.folded_shapes(_odd_model())
    assert odd["stack.layers.0.attention.q.weight"] == (48, 16)
    assert odd["stack.layers.1.attention.q.weight"] == (24, 16)
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


@pytest.mark.parametrize(("kv_heads", "expected"), [(8, 1_048_576), (2, 655_360), (1, 589_824)])
def test_claim_A8(kv_heads: int, expected: int) -> None:
    """A projection-only block, width 512, 8 heads, no bias; 524,288 for MQA would forget its one k and v head."""
    part = S.Attention(8, 64, kv_heads)
    assert sum(math.prod(shape) for shape in body_shapes(part, 512).values()) == expected
    from regard.nn.build import build_part

    with torch.device("meta"):
        assert sum(p.numel() for p in build_part(part, 512).parameters()) == expected


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_claim_B8(kv_heads: int) -> None:
    """2 x batch x length x kv heads x head size elements a layer, against the bytes a cache really takes."""
    spec = shapes.decoder(60, 32, 3, 4, kv_heads=kv_heads, positions="rotary")
    elements = measure.kv_cache_elements(spec, batch=5, length=11)
    assert elements == 3 * (2 * 5 * 11 * kv_heads * 8)
    cache = build(spec).new_cache(5, 11)
    assert cache.nbytes == 4 * elements


def test_cache_of_an_encoder_decoder_counts_the_source() -> None:
    spec = shapes.encoder_decoder(60, 16, 2, 4, 32, dropout=0.0)
    model = build(spec).eval()
    cache = model.new_cache(3, 7)
    memory = model.encode(torch.zeros(3, 5, dtype=torch.int64))
    model(torch.zeros(3, 1, dtype=torch.int64), memory=memory, cache=cache)
    assert cache.nbytes == 4 * measure.kv_cache_elements(spec, 3, 7, 5) == 4 * 2 * (2 * 3 * 16 * (7 + 5))
    assert measure.kv_cache_elements(MODELS["heads"], 3, 7) == 0


@pytest.mark.parametrize(
    ("spec", "millions"),
    [
        (shapes.encoder_decoder(37_000), 63.1),
        (shapes.encoder_decoder(37_000, 1024, 6, 16, 4096), 214.2),
        (shapes.encoder(30_522, heads_on_top=(S.Pooler(),)), 109.5),
        (shapes.encoder(30_522, 1024, 24, 16, heads_on_top=(S.Pooler(),)), 335.1),
        (shapes.decoder(40_478, context=512), 116.5),
        (shapes.decoder(50_257, 12_288, 96, 96, context=2048), 174_604.3),
    ],
    ids=["Transformer base", "Transformer big", "BERT base", "BERT large", "GPT", "GPT-3"],
)
def test_claim_B11(spec: S.Model, millions: float) -> None:
    """Published: 65, 213, 110, 340, 117 and 175,000 M. The papers round; base and big depend on the vocabulary."""
    assert round(parameters.total_parameters(spec) / 1e6, 1) == millions


def test_claim_B12() -> None:
    """Scores cost O(n^2 d), projections O(n d^2); training's depth does not grow with the length, generation's does."""
    spec = shapes.decoder(100, 64, 2, 4, 128, context=4096)
    short, long = measure.flops(spec, 256), measure.flops(spec, 1024)
    assert long.attention == 16 * short.attention == 2 * 4 * 64 * 1024**2
    assert long.projections == 4 * short.projections
    assert long.head == 4 * short.head == 2 * 1024 * 64 * 100
    assert long.sequential_training == short.sequential_training == 4
    assert (short.sequential_generation, long.sequential_generation) == (4 * 256, 4 * 1024)
    # the matrix of weights itself, kept on the plain path: O(n^2) bytes
    plain = shapes.decoder(100, 64, 2, 4, 128, context=4096, dropout=0.1)
    kept = [measure.activation_bytes(plain, 1, n, item_bytes=1) for n in (512, 1024, 2048)]
    linear = [measure.activation_bytes(spec, 1, n, item_bytes=1) for n in (512, 1024, 2048)]
    weights = [a - b - n * 64 * 5 for a, b, n in zip(kept, linear, (512, 1024, 2048), strict=True)]
    assert weights == [2 * 4 * 3 * n * n for n in (512, 1024, 2048)]


def test_projections_are_two_flops_a_weight_and_token() -> None:
    spec = shapes.decoder(100, 32, 2, 4, 64, bias=False, norm="rms", positions="rotary", tied_head=False)
    weights = (
        sum(math.prod(s) for s in parameters.parameter_shapes(spec).values() if len(s) == 2) - 100 * 32
    )  # embedding
    cost = measure.flops(spec, 10)
    assert cost.projections + cost.head == 2 * weights * 10
    assert cost.training == 3 * cost.forward


@pytest.mark.parametrize("name", ["gpt", "llama", "shared", "apart", "odd"])
def test_flops_equal_what_torch_counts(name: str) -> None:
    """torch's own counter over the plain path (its fused CPU kernel is not counted)."""
    from torch.utils.flop_counter import FlopCounterMode

    from regard.nn.hook import record

    spec = MODELS[name]
    model = build(spec).eval()
    ids = torch.zeros(1, 9, dtype=torch.int64)
    source = {"source": torch.zeros(1, 6, dtype=torch.int64)} if isinstance(spec, S.EncoderDecoder) else {}
    with torch.no_grad(), record(model, "*.attend.probs"), FlopCounterMode(display=False) as counter:
        model(ids, **source)
    assert measure.flops(spec, 9, 6 if source else 0).forward == counter.get_total_flops()


def test_activations_equal_the_published_formula() -> None:
    """s b h (34 + 5 a s / h) bytes for a layer in 2-byte numbers (arXiv:2205.05198, eq. 1)."""
    s, b, h, a = 2048, 4, 1024, 16
    attention, mlp = S.Attention(a, h // a, dropout=0.1), S.MLP(4 * h)
    layer = tuple(S.Residual(body, pre_norm=NORM, dropout=0.1) for body in (attention, mlp))

    def stack(depth: int) -> S.LanguageModel:
        return S.LanguageModel(S.Embedding(100), S.Stack(h, (layer,) * depth))

    one, two = (measure.activation_bytes(stack(depth), b, s, item_bytes=2) for depth in (1, 2))
    assert two - one == s * b * h * (34 + 5 * a * s // h)


def test_memory_adds_up() -> None:
    spec = MODELS["shared"]
    made = measure.plan(spec, batch=2, length=10, source_length=6, optimizer="adam")
    n, m = made.parameters, made.memory
    assert (m.weights, m.gradients, m.optimizer, m.inference_weights) == (4 * n, 4 * n, 8 * n, 4 * n)
    assert m.kv_cache == 4 * measure.kv_cache_elements(spec, 2, 10, 6)
    assert m.training == 16 * n + m.activations
    half = measure.plan(spec, 2, 10, 6, weight_bytes=2, cache_item_bytes=1, optimizer="sgd").memory
    assert (half.weights, half.optimizer, half.kv_cache) == (2 * n, 0, m.kv_cache // 4)


def test_shared_layers_cost_time_but_no_parameters() -> None:
    once = shapes.decoder(60, 16, 1, 4)
    thrice = dataclasses.replace(once, stack=dataclasses.replace(once.stack, order=(0, 0, 0)))
    assert parameters.total_parameters(thrice) == parameters.total_parameters(once)
    assert measure.flops(thrice, 8).attention == 3 * measure.flops(once, 8).attention
    assert measure.kv_cache_elements(thrice, 1, 8) == 3 * measure.kv_cache_elements(once, 1, 8)


def test_plan_is_json_and_text() -> None:
    made = measure.plan(shapes.encoder_decoder(37_000), batch=32, length=30, source_length=25)
    data = json.loads(json.dumps(made.to_dict()))
    assert data["parameters"] == 63_082_496
    assert data["memory"]["training"] == made.memory.training
    assert data["flops"]["forward"] == made.flops.forward
    assert data["shapes"]["encoder.stack.layers.0-5.mlp.up.weight"] == [2048, 512]
    shown = table.text(made)
    assert "63,082,496" in shown and "63.1 M" in shown and "2,048 x 512" in shown
    assert "32 rows of 30 tokens, source 25" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "2,048 x 512" not in table.text(made, shapes=False)


def test_bad_sizes_are_told() -> None:
    spec = shapes.decoder(60, 16, 1, 4, context=64)
    assert measure.plan(spec).length == 64
    with pytest.raises(InputError, match="65 tokens, the model's positions end at 64"):
        measure.plan(spec, length=65)
    with pytest.raises(InputError, match="must be at least 1"):
        measure.plan(spec, batch=0)
    with pytest.raises(InputError, match="unknown optimizer 'lion'"):
        measure.plan(spec, optimizer="lion")


def test_numbers_for_people() -> None:
    assert [human(n) for n in (0, 999, 1000, 63_082_496, 999_960)] == ["0", "999", "1.0 k", "63.1 M", "1.0 M"]
    assert [human_bytes(n) for n in (512, 1024, 252_329_984)] == ["512 B", "1.0 KiB", "240.6 MiB"]


def test_no_torch_is_needed() -> None:
    code = "import sys, regard.measure.plan, regard.measure.table; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
