"""What generation gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence.

    Attributes:
        ids: the new tokens, with the end token if one was generated, without start token, prompt or source.
        text: the decoded tokens; without the end token, and cut before a stop string. Empty if there is no tokenizer.
        score: sum(logprobs) / len(ids) ** length_penalty.
        logprobs: natural log-probability of every token of `ids`, from the log-softmax of the raw logits (penalties,
            temperature and bans change which token is taken, not what it is said to be worth).
        finish_reason: "stop" (an end token or a stop string) or "length" (the limit was reached).
    """

    ids: list[int]
    text: str
    score: float
    logprobs: list[float]
    finish_reason: FinishReason


def normalised(total: float, length: int, length_penalty: float) -> float:
    """total / length ** length_penalty; 0 for an empty sequence."""
    return total / length**length_penalty if length else 0.0
