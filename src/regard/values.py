"""Frozen dataclasses as plain values: strict reading from JSON or TOML, and writing back.

Specs (`spec.py`) and training recipes (`train/config.py`) are both trees of frozen dataclasses. This module is the one
place that turns such a tree into dictionaries and back. Reading is strict: an unknown key, a missing key or a value
of the wrong type raises `FieldError` with the path of the field and what is allowed. It imports no torch.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar, Union, get_args, get_origin

T = TypeVar("T")


class FieldError(ValueError):
    """A value that does not fit its field. `path` says where (`model.layers[3].heads`), `problem` what is wrong."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem, self.path = problem, path

    def under(self, prefix: str) -> FieldError:
        """The same error seen from one level further out."""
        inner = self.path
        joiner = "" if not inner or inner.startswith("[") else "."
        return FieldError(self.problem, f"{prefix}{joiner}{inner}" if prefix else inner)


class Tagged:
    """Base of dataclasses that are written with their class name under `kind`, so that unions can be read back."""


def _variants(cls: type) -> dict[str, type]:
    """The dataclasses a `kind` may name where `cls` is expected: itself and every subclass."""
    found = {cls.__name__: cls} if dataclasses.is_dataclass(cls) else {}
    sub: type
    for sub in cls.__subclasses__():
        found |= _variants(sub)
    return found


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_dict(cls: type[T], data: Any, path: str = "") -> T:
    """Makes a `cls` (a frozen dataclass) from a dictionary, checking every key and type.

    Raises:
        FieldError: with the full path of the offending field.
    """
    if not isinstance(data, dict):
        raise FieldError(f"expected a table for {cls.__name__}, got {_shown(data)}", path)
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise FieldError(f"unknown key; allowed here: {', '.join(sorted(known))}", _join(path, str(key)))
    hints, values = _hints(cls), {}  # type: ignore[arg-type]
    for name, field in known.items():
        if name in data:
            values[name] = convert(hints[name], data[name], _join(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise FieldError("this key is required", _join(path, name))
    try:
        return cls(**values)
    except FieldError as error:
        raise error.under(path) from None


def convert(hint: Any, value: Any, path: str) -> Any:
    """Converts one JSON or TOML value to the annotated type `hint`; raises FieldError when it does not fit."""
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(hint), value, path)
    if origin is typing.Literal:
        if value not in get_args(hint):
            raise FieldError(f"got {_shown(value)}, allowed: {', '.join(map(repr, get_args(hint)))}", path)
        return value
    if origin is tuple:
        return _convert_tuple(get_args(hint), value, path)
    if origin is dict:
        if not isinstance(value, dict):
            raise FieldError(f"expected a table, got {_shown(value)}", path)
        return {str(k): convert(get_args(hint)[1], v, _join(path, str(k))) for k, v in value.items()}
    if isinstance(hint, type) and issubclass(hint, Tagged):
        return _convert_tagged((hint,), value, path)
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, path)  # type: ignore[arg-type]
    return _convert_scalar(hint, value, path)


def _convert_union(options: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in options:
        return None
    options = tuple(o for o in options if o is not type(None))
    tagged = tuple(o for o in options if isinstance(o, type) and issubclass(o, Tagged))
    if tagged and (isinstance(value, dict) or len(tagged) == len(options)):
        return _convert_tagged(tagged, value, path)
    problem = None
    for option in options:
        try:
            return convert(option, value, path)
        except FieldError as error:
            problem = problem or error
    if len(options) == 1 and problem is not None:
        raise problem
    names = ", ".join(getattr(o, "__name__", str(o)) for o in options)
    raise FieldError(f"got {_shown(value)}, expected one of: {names}", path)


def _convert_tagged(options: tuple[type, ...], value: Any, path: str) -> Any:
    variants: dict[str, type] = {}
    for option in options:
        variants |= _variants(option)
    if isinstance(value, tuple(variants.values())):
        return value
    names = ", ".join(sorted(variants))
    if not isinstance(value, dict):
        raise FieldError(f"expected a table with kind = one of: {names}; got {_shown(value)}", path)
    kind = value.get("kind", next(iter(variants)) if len(variants) == 1 else None)
    if not isinstance(kind, str) or kind not in variants:
        raise FieldError(f"got {_shown(kind)}, allowed: {names}", _join(path, "kind"))
    return from_dict(variants[kind], {k: v for k, v in value.items() if k != "kind"}, path)


def _convert_tuple(args: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise FieldError(f"expected a list, got {_shown(value)}", path)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(convert(args[0], v, f"{path}[{i}]") for i, v in enumerate(value))
    if len(args) != len(value):
        raise FieldError(f"expected {len(args)} values, got {len(value)}", path)
    return tuple(convert(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _convert_scalar(hint: Any, value: Any, path: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float, str, bool) and type(value) is hint:
        return value
    expected = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
    raise FieldError(f"expected {expected.get(hint, hint)}, got {_shown(value)}", path)


def to_dict(value: Any) -> Any:
    """Turns a tree of dataclasses, tuples and scalars into dictionaries and lists, every field written out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": type(value).__name__} if isinstance(value, Tagged) else {}
        return kind | {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, tuple | list):
        return [to_dict(v) for v in value]
    if isinstance(value, dict):
        return {k: to_dict(v) for k, v in value.items()}
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
