"""What generation promises whatever the model: its mode, masks that it can follow, parts that it knows nothing of."""

from __future__ import annotations

import pytest
import torch

import regard
from regard import mask as M
from regard import shapes
from regard import spec as S
from regard.errors import FailureError, InputError
from regard.generate import translate
from regard.generate.steps import Prompt, Rows, SharedSlots, can_share, make_steps
from regard.nn.body import Body
from regard.nn.mode import evaluating
from tests.generate.test_models import TEXTS, built, by_hand
from tests.generate.test_models import tokenizer as tokenizer

CAUSAL = M.Causal()


def flags(model):  # type: ignore[no-untyped-def]
    return [module.training for module in model.modules()]


def decoder(mask: M.Mask = CAUSAL, other: M.Mask | None = None, dropout: float = 0.0):  # type: ignore[no-untyped-def]
    """Two layers; the second one has the mask `other` if given."""
    layers = tuple(
        (S.Residual(S.Attention(2, 8, mask=m), S.RMSNorm(), dropout=dropout), S.Residual(S.MLP(24), S.RMSNorm()))
        for m in (mask, other or mask)
    )
    return built(S.LanguageModel(S.Embedding(40, S.Sinusoidal()), S.Stack(16, layers, S.RMSNorm())))


def test_generation_runs_in_eval_mode_and_leaves_every_flag_as_it_was(tokenizer) -> None:  # type: ignore[no-untyped-def]
    part = shapes.encoder_decoder(tokenizer.vocab_size, 32, 2, 4, 64, norm="pre", dropout=0.3)
    for make, run in (
        (lambda: built(part, tokenizer), lambda m: [h[0].ids for h in translate(m, TEXTS, beams=2, max_length=6)]),
        (lambda: built(part, tokenizer), lambda m: [h.ids for h in regard.generate(m, TEXTS, 6)]),
        (lambda: decoder(dropout=0.3), lambda m: [h.ids for h in regard.generate(m, [[1, 2], [3]], 6, end_tokens=[])]),
    ):
        model = make()
        expected = run(model)
        assert not any(flags(model))
        model.train()
        frozen = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
        frozen.eval()
        before, state = flags(model), torch.get_rng_state()
        assert any(before) and not all(before)
        assert run(model) == expected
        assert flags(model) == before and torch.equal(torch.get_rng_state(), state)


def test_the_mode_is_restored_after_an_error() -> None:
    model = decoder(dropout=0.3).train()
    with pytest.raises(FailureError):
        regard.generate(model, [[1]], 3, banned=[[i] for i in range(40)], end_tokens=[])
    assert all(flags(model))
    with pytest.raises(KeyboardInterrupt), evaluating(model):
        assert not any(flags(model))
        raise KeyboardInterrupt
    assert all(flags(model))


@pytest.mark.parametrize("mask", [M.Everything(), M.Window(3), ~M.Window(2), M.Prefix(3), M.Permuted((1, 0, 2))])
@pytest.mark.parametrize("beams", [1, 3])
def test_masks_that_see_later_tokens_are_refused(mask: M.Mask, beams: int) -> None:
    """Prefix(3) alone is among them only where the prompt is shorter: from there on it is causal."""
    for model in (decoder(mask), decoder(M.Causal(), mask)):
        with pytest.raises(InputError, match="see later ones|prefix of 3 must come whole"):
            regard.generate(model, [[1, 2]], 4, beams=beams)


def test_a_translation_model_whose_decoder_is_not_causal_is_refused(tokenizer) -> None:  # type: ignore[no-untyped-def]
    part = shapes.encoder_decoder(tokenizer.vocab_size, 16, 1, 2, 32)
    layer = part.decoder.stack.layers[0]
    open_ = S.Residual(S.Attention(2, 8, mask=M.Everything()))
    decoder_ = S.LanguageModel(part.decoder.embedding, S.Stack(16, ((open_, *layer[1:]),)), part.decoder.head)
    model = built(S.EncoderDecoder(part.encoder, decoder_), tokenizer)
    for run in (lambda: translate(model, TEXTS[:1]), lambda: regard.generate(model, TEXTS[:1])):
        with pytest.raises(InputError, match="see later ones"):
            run()


def test_a_prefix_that_comes_whole_in_the_prompt_is_right() -> None:
    model = decoder(M.Causal() | M.Prefix(3), M.Causal() & M.Window(4))
    prompts = [[5, 6, 7], [1, 2, 3, 4, 5]]
    for beams in (1, 3):
        found = regard.generate(model, prompts, 6, beams=beams, end_tokens=[])
        for prompt, out in zip(prompts, found, strict=True):
            logits = model(torch.tensor([[*prompt, *out.ids[:-1]]]))[0, len(prompt) - 1 :].log_softmax(-1)
            own = logits.gather(1, torch.tensor(out.ids)[:, None])[:, 0].tolist()
            # float32: sums of 40 logits in another order
            assert out.logprobs == pytest.approx(own, abs=1e-4)
            assert beams > 1 or out.ids == by_hand(model, prompt, 6, -1)
    with pytest.raises(InputError, match="prompt 1 has 2 tokens .* prefix of 3 must come whole"):
        regard.generate(model, [[5, 6, 7], [1, 2]], 6)


@pytest.mark.parametrize(
    ("mask", "prefix"),
    [
        (M.Causal(), 0), (M.Causal() & M.Window(3), 0), (M.Everything() & M.Causal(), 0), (M.Causal() | M.Prefix(4), 4),
        (M.Prefix(1), 0), ((M.Causal() | M.Prefix(4)) & M.Prefix(2), 2), (M.Causal() | M.Window(2), None),
        (~M.Causal(), None), (M.Everything(), None), ((M.Causal() | M.Prefix(2)) | M.Prefix(5), 5),
    ],
)  # fmt: skip
def test_the_whole_prefix_of_a_mask(mask: M.Mask, prefix: int | None) -> None:
    """No token sees a later one, save for the first n among each other; and n is the least."""
    assert M.whole_prefix(mask) == prefix
    later = [(q, k) for q in range(8) for k in range(q + 1, 8) if mask.allows(q, k)]
    assert M.is_causal(mask) == (not later)
    if prefix is not None:
        assert max((k + 1 for _, k in later), default=0) == prefix


class RunningSum(Body):
    """A mixer of which generation knows nothing: x + the sum of all before, in a state that no mask reaches."""

    whole_prefix = 0

    def new_state(self, batch: int, capacity: int) -> dict[str, torch.Tensor]:
        return {}

    def forward(self, x, context, state=None):  # type: ignore[no-untyped-def]
        total = x.cumsum(1)
        if state is not None:
            total = total + state.get("sum", 0)
            state["sum"] = total[:, -1:]
        return total / 4


def test_a_part_that_does_not_say_so_shares_no_slots_and_one_that_says_nothing_does_not_generate() -> None:
    model, prompt = decoder(), Prompt(torch.ones(1, 1, dtype=torch.int64))
    assert can_share(model) and isinstance(make_steps(model, prompt, 3, 4), SharedSlots)
    model.stack.layers[0].mlp = RunningSum()
    assert not can_share(model) and isinstance(make_steps(model, prompt, 3, 4), Rows)
    assert regard.generate(model, [[1, 2]], 4, end_tokens=[])[0].ids == by_hand(model, [1, 2], 4, -1)
    model.stack.layers[0].mlp = Body()
    with pytest.raises(InputError, match="cannot go token by token"):
        regard.generate(model, [[1]], 4)
