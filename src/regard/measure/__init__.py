"""What a model costs: counted from the spec before anything runs (`plan`), no torch needed."""

from regard.measure.parameters import count_parameters, folded_shapes, parameter_shapes, total_parameters
from regard.measure.plan import Flops, Memory, Plan, activation_bytes, flops, kv_cache_elements, plan
from regard.measure.table import tables, text

__all__ = [
    "Flops", "Memory", "Plan", "activation_bytes", "count_parameters", "flops", "folded_shapes", "kv_cache_elements",
    "parameter_shapes", "plan", "tables", "text", "total_parameters",
]  # fmt: skip
