"""A cache knows whose memory it holds, and rolls back to what it was."""

from __future__ import annotations

import pytest
import torch

from regard import shapes
from regard.errors import InputError
from regard.nn.layout import Layout, Memory
from tests.laws.strategies import close, make

MODEL = make(shapes.encoder_decoder(13, 8, 2, 2, 16))
LENGTHS = torch.tensor([5, 2, 4])


def ids(*shape, seed=1):
    return torch.randint(0, 13, shape, generator=torch.Generator().manual_seed(seed))


def test_another_memory_is_refused():
    one, other = (MODEL.encode(ids(3, 5, seed=s)) for s in (2, 3))
    cache = MODEL.new_cache(3, 8)
    MODEL(ids(3, 2), memory=one, cache=cache)
    for wrong in (other, MODEL.encode(ids(3, 5, seed=2)), other.take(torch.tensor([0, 1, 2]))):
        with pytest.raises(InputError, match="memory: the cache was filled from another source"):
            MODEL(ids(3, 1), memory=wrong, cache=cache)
    with pytest.raises(InputError, match="filled from another source"):
        MODEL(ids(3, 1), source=ids(3, 5, seed=3), cache=cache)
    with pytest.raises(InputError, match="memory: got 3 rows for a cache of 2"):
        MODEL(ids(2, 1), memory=one, cache=MODEL.new_cache(2, 8))
    assert cache.length == 2


@pytest.mark.parametrize("given", ["memory", "taken", "source", "nothing"])
def test_the_memory_follows_the_rows_of_the_cache(given):
    """Rows with paddings of their own, taken in another order, one twice: whoever takes, keys and masks fit."""
    source, text = ids(3, 5, seed=2), ids(3, 4)
    memory = MODEL.encode(source, LENGTHS)
    cache, rows = MODEL.new_cache(3, 8), torch.tensor([2, 0, 0, 1])
    first = dict(source=source, source_lengths=LENGTHS) if given == "source" else dict(memory=memory)
    MODEL(text[:, :2], cache=cache, **first)
    cache.take(rows)
    later = dict(
        memory=dict(memory=memory), taken=dict(memory=memory.take(rows)), source=dict(source=source), nothing={}
    )[given]
    out = MODEL(text[rows][:, 2:], cache=cache, **later)
    close(out, MODEL(text[rows], source=source[rows], source_lengths=LENGTHS[rows])[:, 2:])


def test_a_memory_made_by_hand_is_known_by_its_hidden_states():
    hidden = MODEL.encode(ids(2, 5)).hidden
    layout = Layout.of((2, 5), hidden.device)
    cache = MODEL.new_cache(2, 8)
    MODEL(ids(2, 1), memory=Memory(hidden, layout), cache=cache)
    MODEL(ids(2, 1), memory=Memory(hidden, layout), cache=cache)
    with pytest.raises(InputError, match="another source"):
        MODEL(ids(2, 1), memory=Memory(hidden.clone(), layout), cache=cache)
