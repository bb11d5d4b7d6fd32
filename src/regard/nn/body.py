"""What stands in a residual, and what it must say of itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Body(nn.Module):
    """Base of mixers and feed-forward parts: called as body(x [B, T, E], context, state) -> [B, T, E].

    Generation asks the built parts what it may do with them, and knows none by its kind. The answers of this class
    are those that are safe for a part of which nothing is known.

    Attributes:
        shares_slots: several hypotheses of a sentence may be queries of one row of the cache, told apart by a mask.
        whole_prefix: how many first tokens must come in one pass, because they see each other; from there on no token
            sees a later one. None: there is no such number, so the part cannot go token by token.
    """

    shares_slots: bool = False
    whole_prefix: int | None = None

    def new_state(self, batch: int, capacity: int) -> Any:
        """What the part remembers while generating; None: nothing."""
        return None


class PerToken(Body):
    """A part that works on each token by itself."""

    shares_slots = True
    whole_prefix = 0

    def forward(self, x: Tensor, context: Any = None, state: Any = None) -> Tensor:
        raise NotImplementedError
