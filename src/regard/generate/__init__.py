"""Prefill and step, beam search, sampling.

regard.generate(model, ["Once upon a time"], max_new_tokens=40)     # this module can be called
regard.generate.translate(model, ["Je t'aime."], beams=5)
"""

from __future__ import annotations

import sys
import types
from typing import Any

from regard.generate.api import generate
from regard.generate.beam import BeamSearch, Found
from regard.generate.constraints import Constraints
from regard.generate.hypothesis import Hypothesis
from regard.generate.sampling import Sampler
from regard.generate.translation import translate

__all__ = ["BeamSearch", "Constraints", "Found", "Hypothesis", "Sampler", "generate", "translate"]


class _Callable(types.ModuleType):
    """`regard.generate` is a room of the house and the function that people call: importing the package puts this
    module under the function's name, so the module passes calls on."""

    def __call__(self, *args: Any, **options: Any) -> list[Hypothesis]:
        return generate(*args, **options)


sys.modules[__name__].__class__ = _Callable
