"""A model compiles without graph breaks, and exports with dynamic batch and length."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.export import Dim

import regard
from regard import shapes
from regard.errors import InputError

SPECS = {
    "gpt2-like": shapes.decoder(50, 32, 2, 4, context=600),
    "llama-like": shapes.decoder(50, 32, 2, 4, kv_heads=2, positions="rotary", norm="rms", gated=True, bias=False),
    "alibi": shapes.decoder(50, 32, 2, 4, positions="alibi"),
}


def ids(batch, length):
    return torch.randint(0, 50, (batch, length), generator=torch.Generator().manual_seed(batch * length))


def export(model, arguments, shapes_):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own deprecations inside export
        return torch.export.export(model, arguments, dynamic_shapes=shapes_).module()


@pytest.mark.parametrize("name", SPECS)
def test_fault_E1_exported_graphs_keep_batch_and_length_open(name):
    model = regard.build(SPECS[name]).eval()
    exported = export(model, (ids(2, 20),), {"ids": {0: Dim("B", min=1, max=64), 1: Dim("T", min=2, max=512)}})
    for shape in ((3, 7), (1, 300)):
        assert (exported(ids(*shape)) - model(ids(*shape))).abs().max() < 1e-4


def test_an_encoder_decoder_exports_with_padding():
    model = regard.build(shapes.encoder_decoder(50, 32, 2, 4, 64)).eval()

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, source, lengths):
            return self.model(ids, source=source, source_lengths=lengths)

    batch, time, long = Dim("B", min=1, max=64), Dim("T", min=2, max=512), Dim("S", min=2, max=512)
    example = (ids(2, 9), ids(2, 6), torch.tensor([6, 3]))
    exported = export(
        Whole(), example, {"ids": {0: batch, 1: time}, "source": {0: batch, 1: long}, "lengths": {0: batch}}
    )
    new = (ids(3, 17), ids(3, 11), torch.tensor([11, 2, 5]))
    assert (exported(*new) - model(new[0], source=new[1], source_lengths=new[2])).abs().max() < 1e-4


@pytest.mark.parametrize("name", SPECS)
def test_no_graph_breaks_and_no_recompilation_by_shape(name):
    model, text = regard.build(SPECS[name]).eval(), ids(2, 9)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for shape in ((2, 9), (3, 14), (2, 30)):
            assert (compiled(ids(*shape)) - model(ids(*shape))).abs().max() < 1e-4
    with pytest.raises(InputError, match="compiled"), regard.record(compiled, "*.probs"):
        pass
    assert text.shape == (2, 9)
