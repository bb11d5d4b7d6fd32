"""The laws about masks, over causal and other ones, in every combination with what a batch says by itself.

What is promised of a key that a query may not see:

- whatever finite value it has moves the query's output by nothing, bit for bit, and gets no gradient from it;
- where no query of the row may see it (padding, a column that the mask hides from all), it may even be NaN;
- a NaN never leaves its row.

A key that some other query of its row does see must be finite: a weight of 0 times NaN is NaN, and to look for it would
cost every healthy pass.
"""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import mask as M
from regard import spec as S
from tests.laws import strategies as draw
from tests.laws.strategies import call, close, law, make, tokens

any_mask = st.one_of(draw.causal_masks, draw.open_masks)
any_model = st.one_of(draw.language_models(any_mask), draw.encoders(), draw.encoder_decoders())
ROWS, T = 3, 7
LENGTHS = torch.tensor([7, 3, 5])
DOCUMENTS = torch.tensor([[4, 4, 9, 9, 9, 4, 4], [1, 1, 1, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1, 2]])


def random_mask(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


def embeds(model, rows: int = 1, seed: int = 5) -> torch.Tensor:
    size = model.spec.stack.hidden_size
    return torch.randn(rows, T, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def runs(documents: list[int]) -> list[tuple[int, int]]:
    """[start, end) of every document."""
    starts = [i for i in range(len(documents)) if i == 0 or documents[i] != documents[i - 1]]
    return list(zip(starts, [*starts[1:], len(documents)], strict=True))


@law
@given(any_model, st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from(["row", "shared", "object"]))
def test_law_3_a_run_time_mask_is_joined_with_padding_and_documents(spec, seed, padded, packed, kind):
    model, ids = make(spec), tokens(ROWS, T)
    given_ = {"lengths": LENGTHS} if padded else {}
    given_ |= {"documents": DOCUMENTS} if packed else {}
    drawn = random_mask(seed, ROWS, 1, T, T) if kind == "row" else random_mask(seed, T, T).expand(ROWS, 1, T, T)
    mask = {"row": drawn, "shared": drawn[0, 0], "object": M.Window(3)}[kind]
    memory = None
    if isinstance(spec, S.EncoderDecoder):
        memory = model.encode(tokens(ROWS, 5, 7), torch.tensor([5, 3, 4]))
    out = call(model, ids, mask=mask, **given_, **({} if memory is None else {"memory": memory}))
    for row in range(ROWS):
        length = int(LENGTHS[row]) if padded else T
        for start, end in runs(DOCUMENTS[row, :length].tolist()) if packed else [(0, length)]:
            own = mask if kind == "object" else drawn[row, 0, start:end, start:end]
            mine = {} if memory is None else {"memory": memory.take(torch.tensor([row]))}
            close(out[row, start:end], call(model, ids[row : row + 1, start:end], mask=own, **mine)[0])


@law
@given(draw.language_models(any_mask), st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_law_3_a_run_time_mask_is_joined_with_the_filled_slots_of_a_cache(spec, seed, a, b):
    """Unequal prompts, then two steps: masks that would let padding's slots be seen must not."""
    model, ids, width = make(spec), tokens(2, 8), max(a, b)
    cache, prompts = model.new_cache(2, width + 2), torch.tensor([a, b])
    slots = torch.ones(2, width + 2, width + 2, dtype=torch.bool).tril() & random_mask(seed, 2, width + 2, width + 2)
    slots[:, width:] |= torch.arange(width + 2) >= prompts[:, None, None]  # the new tokens are shown all padding
    slots = slots.tril()
    call(model, ids[:, :width], lengths=prompts, cache=cache, mask=slots[:, :width, :width])
    for step in range(2):
        new = torch.stack([ids[0, a + step], ids[1, b + step]])[:, None]
        end = width + step + 1
        out = call(model, new, cache=cache, mask=slots[:, end - 1 : end, :end])
        for row, length in enumerate((a, b)):
            own = torch.cat([torch.arange(length), torch.arange(width, end)])
            alone = call(model, ids[row : row + 1, : length + step + 1], mask=slots[row][own][:, own])
            close(out[row, 0], alone[0, -1])


def reach(spec, mask: torch.Tensor | M.Mask | None) -> torch.Tensor:
    """[T, T] bool: which tokens can move which, through all layers and the residual."""
    place, seen = torch.arange(T), torch.eye(T)
    order = spec.stack.order or range(len(spec.stack.layers))
    for index in order:
        for part in spec.stack.layers[index]:
            branches = part.branches if isinstance(part, S.Parallel) else (part,)
            for body in (b.body for b in branches if isinstance(b.body, S.Attention)):
                chosen = body.mask if mask is None else mask
                allowed = chosen.allows(place[:, None], place) if isinstance(chosen, M.Mask) else chosen
                seen = (torch.eye(T) + allowed) @ seen
    return seen > 0


@law
@given(
    st.one_of(draw.language_models(any_mask), draw.encoders()), st.integers(0, T - 1), st.integers(0, 10**6),
    st.one_of(st.none(), any_mask, st.just("tensor")),
)  # fmt: skip
def test_law_4_changing_what_a_mask_hides_moves_nothing_not_even_gradients(spec, row, seed, mask):
    mask = random_mask(seed, T, T) if mask == "tensor" else mask
    model = make(spec)
    x = embeds(model).requires_grad_()
    out = call(model, None, inputs_embeds=x, mask=mask)
    (grad,) = torch.autograd.grad(out[0, row].sum(), x)
    hidden = ~reach(spec, mask)[row]
    assert grad[0, hidden].abs().sum() == 0
    changed = torch.where(hidden[:, None], x.detach() + 1.0, x.detach())
    assert torch.equal(call(model, None, inputs_embeds=changed, mask=mask)[0, row], out[0, row])


@law
@given(st.one_of(draw.language_models(any_mask), draw.encoders()), st.integers(0, T - 1), st.integers(0, 10**6))
def test_law_4_a_key_that_no_query_sees_may_be_nan_and_a_nan_stays_in_its_row(spec, column, seed):
    model, others = make(spec), torch.arange(T) != column
    mask = random_mask(seed, T, T) & others
    x = embeds(model, 2)
    out, dirty = call(model, None, inputs_embeds=x, mask=mask), x.clone()
    dirty[0, column] = torch.nan
    again = call(model, None, inputs_embeds=dirty, mask=mask)
    assert torch.equal(again[0, others], out[0, others])
    assert again[0, column].isnan().any() and torch.equal(again[1], out[1])
    dirty[0] = torch.nan
    assert torch.equal(call(model, None, inputs_embeds=dirty)[1], call(model, None, inputs_embeds=x)[1])


@law
@given(draw.encoder_decoders())
def test_law_3_a_document_whose_id_comes_again_is_a_document_of_its_own(spec):
    """Target and source documents go together by id and turn, in whatever order they stand."""
    model, ids, source = make(spec), tokens(1, 6), tokens(1, 8, 7)
    packed = call(
        model, ids, documents=torch.tensor([[0, 1, 1, 1, 0, 0]]),
        source=source, source_documents=torch.tensor([[0, 0, 2, 0, 0, 1, 1, 1]]),
    )  # fmt: skip
    pairs = (slice(0, 1), slice(0, 2)), (slice(1, 4), slice(5, 8)), (slice(4, 6), slice(3, 5))
    close(packed, torch.cat([call(model, ids[:, a], source=source[:, b]) for a, b in pairs], 1))
