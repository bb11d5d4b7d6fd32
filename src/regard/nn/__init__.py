"""What a spec becomes: plain modules whose forward reads like the formula."""

from regard.nn.build import build
from regard.nn.dropout import Dropout, set_generator
from regard.nn.hook import HookPoint, record
from regard.nn.layout import Layout, Memory
from regard.nn.linear import Linear
from regard.nn.mode import evaluating

__all__ = ["Dropout", "HookPoint", "Layout", "Linear", "Memory", "build", "evaluating", "record", "set_generator"]
