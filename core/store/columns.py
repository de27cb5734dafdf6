"""Dataclasses as Parquet columns: Arrow types of their fields, and conversion of their values for Arrow."""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass

import pyarrow as pa

from hipsynth.core.documents import types_of, unwrap_optional

_PLAIN = {float: pa.float64(), int: pa.int64(), bool: pa.bool_(), str: pa.string()}


def arrow_columns(kind: type, leave_out: Collection[str] = ()) -> dict[str, pa.DataType]:
    """The Arrow type of each field of a dataclass, but those left out."""
    return {name: _arrow_type(part) for name, part in types_of(kind).items() if name not in leave_out}


def _arrow_type(kind: object) -> pa.DataType:
    """Dataclasses become structs, mappings maps, tuples fixed-size lists; every column is nullable."""
    kind = unwrap_optional(kind) or kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_dataclass(kind):
        return pa.struct(list(arrow_columns(typing.cast(type, kind)).items()))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Mapping:
        return pa.map_(_arrow_type(arguments[0]), _arrow_type(arguments[1]))
    if origin is tuple:
        return pa.list_(_arrow_type(arguments[0]), len(arguments))
    return pa.string()  # Literal


def arrow_row(value: object) -> dict[str, object]:
    """The fields of a dataclass as values for Arrow; mappings are sorted, so equal values give equal bytes."""
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no dataclass")
    return {part.name: _to_plain(getattr(value, part.name)) for part in fields(value)}


def _to_plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return arrow_row(value)
    if isinstance(value, Mapping):
        return sorted(value.items())
    return list(value) if isinstance(value, tuple) else value
