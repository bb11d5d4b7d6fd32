"""From specs to modules: one table, and `build`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard import spec
from regard.errors import InputError


def build_part(part: Any, size: int, memory_size: int | None = None) -> nn.Module:
    """The module of one norm, mixer or feed-forward part over a stream of width `size`; None gives the identity.

    Raises:
        InputError: cross-attention where there is no encoder.
    """
    from regard.nn import attention, ffn, norm

    table: dict[type, type[nn.Module]] = {
        spec.LayerNorm: norm.LayerNorm,
        spec.RMSNorm: norm.RMSNorm,
        spec.Attention: attention.Attention,
        spec.MLP: ffn.MLP,
        spec.GatedMLP: ffn.GatedMLP,
    }
    if part is None:
        return nn.Identity()
    if isinstance(part, spec.CrossAttention):
        if memory_size is None:
            raise InputError("CrossAttention needs an encoder: put this decoder into an EncoderDecoder")
        return attention.CrossAttention(part, size, memory_size)
    return table[type(part)](part, size)


def build(
    model: spec.Model,
    init: str = "xavier",
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """A fresh module from a spec, in training mode.

    Args:
        init: "xavier", "gpt2", "truncated_normal" or "deepnorm" (see `nn.init`); ignored on the meta device.
        generator: for the initial values (None: torch's global one).
        device, dtype: where and as what the parameters are made (None: torch's defaults).
    """
    from regard.nn import init as initial
    from regard.nn.model import MODELS

    if type(model) not in MODELS:
        raise InputError(
            f"build needs a model spec ({', '.join(m.__name__ for m in MODELS)}), got {type(model).__name__}"
        )
    scheme = initial.scheme(init)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        with torch.device(device) if device is not None else torch.device(torch.get_default_device()):
            built = MODELS[type(model)](model)
    finally:
        torch.set_default_dtype(before)
    if not any(p.is_meta for p in built.parameters()):
        scheme(built, generator)
    return built
