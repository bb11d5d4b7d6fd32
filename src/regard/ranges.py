"""Numbers in settings: finite, of 64 bits, and inside their range. For frozen dataclasses, when they are made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from regard.values import FieldError

LARGEST = 2**63 - 1
"""The largest whole number of TOML, and of a tensor."""


def check_numbers(part: Any, infinite: tuple[str, ...] = ()) -> None:
    """Every number among the fields of `part`, also in tuples, is finite (save those of `infinite`) and of 64 bits.

    Raises:
        FieldError: with the name of the first field that is not.
    """
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        items = value if isinstance(value, tuple) else (value,)
        for i, item in enumerate(items):
            name = f"{field.name}[{i}]" if isinstance(value, tuple) else field.name
            if isinstance(item, float) and not math.isfinite(item) and (math.isnan(item) or name not in infinite):
                raise FieldError(f"got {item}, must be a finite number", name)
            if isinstance(item, int) and abs(item) > LARGEST:
                raise FieldError("the whole number does not fit into 64 bits (the sign is one of them)", name)


def at_least(part: Any, least: float, *names: str) -> None:
    """The fields `names` of `part` are None or at least `least`; FieldError otherwise."""
    for name in names:
        value = getattr(part, name)
        if value is not None and not value >= least:
            raise FieldError(f"got {value}, must be at least {least}", name)


def positive(part: Any, *names: str) -> None:
    """The fields `names` of `part` are None or above 0; FieldError otherwise."""
    for name in names:
        value = getattr(part, name)
        if value is not None and not value > 0:
            raise FieldError(f"got {value}, must be positive", name)
