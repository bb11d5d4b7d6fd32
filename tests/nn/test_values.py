"""Every formula against itself written out by hand, and the whole model against torch.nn.Transformer.

The laws compare a model with itself; a factor left out everywhere would satisfy them. These tests would not.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from regard import shapes
from regard import spec as S
from regard.nn.build import build_part
from regard.nn.ffn import ACTIVATIONS
from regard.nn.position import Sinusoidal, alibi_slopes
from tests.laws.strategies import close, make

G = torch.Generator().manual_seed(0)


def only(spec: S.Residual | S.Parallel, size: int = 8):
    """A model of one layer without embeddings' extras, and its layer."""
    model = make(S.LanguageModel(S.Embedding(9), S.Stack(size, ((spec,),))))
    return model, model.stack.layers[0]


def run(model, x):
    return model(None, inputs_embeds=x, hidden=True)


@pytest.mark.parametrize("skip", ["plain", "normed"])
def test_the_residual_formula(skip):
    norm = S.LayerNorm()
    model, layer = only(S.Residual(S.MLP(5, "relu"), norm, S.RMSNorm(), norm, 1.5, 0.25, skip))
    wiring, body = layer.mlp_residual, layer.mlp
    x = torch.randn(2, 3, 8, generator=G, dtype=torch.float64)
    pre = F.layer_norm(x, (8,), wiring.pre_norm.weight, wiring.pre_norm.bias, 1e-5)
    inner = F.relu(pre @ body.up.weight.T + body.up.bias) @ body.down.weight.T + body.down.bias
    branch = inner / (inner.square().mean(-1, keepdim=True) + 1e-6).sqrt() * wiring.branch_norm.weight
    added = 1.5 * (pre if skip == "normed" else x) + 0.25 * branch
    mean, var = added.mean(-1, keepdim=True), added.var(-1, unbiased=False, keepdim=True)
    expected = (added - mean) / (var + 1e-5).sqrt() * wiring.post_norm.weight + wiring.post_norm.bias
    close(run(model, x), expected)


def test_parallel_branches_read_the_same_input():
    parts = (S.Residual(S.MLP(5), branch_scale=0.5), S.Residual(S.GatedMLP(4), S.RMSNorm()))
    model, layer = only(S.Parallel(parts, S.LayerNorm()))
    x = torch.randn(2, 3, 8, generator=G, dtype=torch.float64)
    shared = layer.parallel.pre_norm(x)
    own = layer.parallel.branches[1].pre_norm(shared)
    close(run(model, x), x + 0.5 * layer.mlp(shared) + layer.mlp_2(own))


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
        ("relu2", lambda x: x.clamp(min=0) ** 2),
    ],
)
def test_activations_and_gates(name, formula):
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    close(ACTIVATIONS[name](x), formula(x), 1e-12)
    part = build_part(S.GatedMLP(6, name, bias=True), 8).double()
    for p in part.parameters():
        p.data.normal_(generator=G)
    y = torch.randn(3, 8, generator=G, dtype=torch.float64)
    close(part(y), part.down(formula(part.gate(y)) * part.up(y)))


def test_norms():
    x = torch.randn(4, 8, generator=G, dtype=torch.float64)
    for part, weight in ((S.RMSNorm(1e-3), 1.0), (S.RMSNorm(1e-3, offset=1.0), 0.0)):
        norm = build_part(part, 8).double()
        assert torch.equal(norm.weight, torch.full((8,), weight, dtype=torch.float64))
        norm.weight.data += torch.arange(8)
        factor = torch.arange(8) + 1.0
        close(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * factor)


def test_the_embedding_formula():
    spec = S.LanguageModel(S.Embedding(9, S.Learned(6, offset=2), S.LayerNorm(), 2.5, segments=2), S.Stack(8, ()))
    model, ids, kinds = make(spec), torch.tensor([[3, 4, 1]]), torch.tensor([[0, 1, 1]])
    e = model.embedding
    total = 2.5 * e.tokens.weight[ids] + e.position.weight[[2, 3, 4]] + e.segments.weight[kinds]
    close(model(ids, segments=kinds, hidden=True), e.norm(total))
    first = 2.5 * e.tokens.weight[ids] + e.position.weight[[2, 3, 4]] + e.segments.weight[0]
    close(model(ids, hidden=True), e.norm(first))


def test_sinusoidal_codes_add_to_the_scaled_token():
    model = make(S.LanguageModel(S.Embedding(9, S.Sinusoidal(), scale=3.0), S.Stack(8, ())))
    ids = torch.tensor([[3, 4]])
    codes = torch.zeros(2, 8, dtype=torch.float64)
    for p in range(2):
        for i in range(4):
            angle = p / 10000 ** (2 * i / 8)
            codes[p, 2 * i], codes[p, 2 * i + 1] = math.sin(angle), math.cos(angle)
    close(model(ids, hidden=True), 3 * model.embedding.weight[ids] + codes)
    halves = Sinusoidal(S.Sinusoidal(interleaved=False), 8)(torch.arange(2), torch.float64)
    close(halves, torch.cat([codes[:, 0::2], codes[:, 1::2]], -1))


def test_the_head_formula():
    head = S.LMHead(tied=False, bias=True, scale=0.5, softcap=3.0, transform="gelu", transform_norm=S.LayerNorm())
    model = make(S.LanguageModel(S.Embedding(9), S.Stack(8, ()), head))
    h, lm = torch.randn(2, 8, generator=G, dtype=torch.float64), model.lm_head
    inner = lm.transform_norm(F.gelu(h @ lm.transform.weight.T + lm.transform.bias))
    close(model.head(h), 3 * torch.tanh(0.5 * (inner @ lm.weight.T + lm.bias) / 3))


@pytest.mark.parametrize("over", ["head", "all"])
def test_attention_against_loops(over):
    part = S.Attention(
        4, 6, 2, rotary=S.Rotary(100.0, 4), score_bias=S.ALiBi(), qk_norm=S.RMSNorm(), qk_norm_over=over,
        softcap=2.0, scale=0.7, bias=True, out_bias=False,
    )  # fmt: skip
    model, layer = only(S.Residual(part))
    a, x = layer.attention, torch.randn(1, 5, 8, generator=G, dtype=torch.float64)

    def heads(linear, norm):
        y = (x[0] @ linear.weight.T + linear.bias)[None]
        y = norm(y) if norm is not None and over == "all" else y
        y = y.view(5, -1, 6)
        return norm(y) if norm is not None and over == "head" else y

    def turn(y):
        out = y.clone()
        for t in range(5):
            for i in range(2):  # of 6 dimensions 4 turn; i is paired with i + 2
                angle = t * 100.0 ** (-2 * i / 4)
                u, w = y[t, :, i], y[t, :, i + 2]
                out[t, :, i] = u * math.cos(angle) - w * math.sin(angle)
                out[t, :, i + 2] = w * math.cos(angle) + u * math.sin(angle)
        return out

    q, k, v = turn(heads(a.q, a.q_norm)), turn(heads(a.k, a.k_norm)), heads(a.v, None)
    out = torch.zeros(5, 4, 6, dtype=torch.float64)
    for h in range(4):
        for t in range(5):
            scores = [q[t, h] @ k[s, h // 2] * 0.7 - alibi_slopes(4)[h] * (t - s) for s in range(t + 1)]
            weights = torch.softmax(2 * torch.tanh(torch.stack(scores) / 2), 0)
            out[t, h] = sum(w * v[s, h // 2] for s, w in enumerate(weights))
    close(run(model, x), x + out.flatten(1) @ a.o.weight.T)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch tells of a fast path that pre-norm lacks
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_2017_transformer_equals_torchs_with_gradients(norm):
    """torch.nn.Transformer in float64, the same weights, with padding."""
    model = make(shapes.encoder_decoder(11, 16, 2, 4, 24, dropout=0.0, norm=norm, tied_embeddings=False))
    theirs = torch.nn.Transformer(16, 4, 2, 2, 24, 0.0, "relu", batch_first=True, norm_first=norm == "pre").double()
    if norm == "post":  # the paper's model has no norm after the last layer
        theirs.encoder.norm = theirs.decoder.norm = None
    pairs = _copy(model, theirs)
    source, target, lengths = torch.randint(11, (3, 6)), torch.randint(11, (3, 5)), torch.tensor([6, 2, 4])
    x, y = model.encoder.embedding, model.decoder.embedding
    places = Sinusoidal(S.Sinusoidal(), 16)(torch.arange(6), torch.float64)
    hidden = theirs(
        x.weight[source] * 4.0 + places,
        y.weight[target] * 4.0 + places[:5],
        tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64),
        src_key_padding_mask=torch.arange(6) >= lengths[:, None],
        memory_key_padding_mask=torch.arange(6) >= lengths[:, None],
    )
    ours = model(target, source=source, source_lengths=lengths, hidden=True)
    close(ours, hidden)
    ours.square().sum().backward()
    hidden.square().sum().backward()
    for mine, other in pairs:
        close(mine.grad, other.grad, 1e-8)


def _copy(model, theirs):
    """Copies our weights into torch's modules; returns pairs of parameters that correspond."""
    pairs = []

    def put(mine, other):
        with torch.no_grad():
            other.copy_(mine)
        pairs.append((mine, other))

    def attention(mine, other):
        for name in ("weight", "bias"):
            fused = getattr(other, f"in_proj_{name}")
            with torch.no_grad():
                fused.copy_(torch.cat([getattr(p, name) for p in (mine.q, mine.k, mine.v)]))
            put(getattr(mine.o, name), getattr(other.out_proj, name))

    def both(mine, other):
        put(mine.weight, other.weight)
        put(mine.bias, other.bias)

    for ours, torchs in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for mine, other in zip(ours.stack.layers, torchs.layers, strict=True):
            bodies = [mine.attention, getattr(mine, "cross_attention", None), mine.mlp]
            norms = [other.norm1, other.norm2, getattr(other, "norm3", None)]
            attention(mine.attention, other.self_attn)
            if bodies[1] is not None:
                attention(mine.cross_attention, other.multihead_attn)
            both(mine.mlp.up, other.linear1)
            both(mine.mlp.down, other.linear2)
            roles = [r for r in ("attention", "cross_attention", "mlp") if hasattr(mine, r)]
            for role, norm in zip(roles, norms, strict=False):
                wiring = getattr(mine, f"{role}_residual")
                both(wiring.pre_norm if hasattr(wiring.pre_norm, "weight") else wiring.post_norm, norm)
        if hasattr(ours.stack.final_norm, "weight"):
            both(ours.stack.final_norm, torchs.norm)
    return pairs
