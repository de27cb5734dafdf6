"""Dataclasses as Parquet columns: Arrow types of their fields, and conversion of their values for Arrow."""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass

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


def lacks_only_defaults(kind: object, stored: pa.DataType) -> bool:
    """Whether a stored type is that of `kind`, or was written before some of its fields with a default existed."""
    wanted, struct = _arrow_type(kind), _struct_of(kind)
    if stored == wanted or struct is None or not pa.types.is_struct(stored):
        return bool(stored == wanted)
    names = [part.name for part in stored]
    types = types_of(struct)
    return (
        len(set(names)) == len(names) <= len(types)
        and all(name in types and lacks_only_defaults(types[name], stored.field(name).type) for name in names)
        and all(name in names or name in _defaults_of(struct) for name in types)
    )


def add_missing_fields(kind: object, stored: pa.ChunkedArray) -> pa.ChunkedArray:
    """A stored column as one of `kind`: fields that it lacks have their default. See lacks_only_defaults()."""
    wanted = _arrow_type(kind)
    if stored.type == wanted:
        return stored
    return pa.chunked_array([_complete_array(kind, chunk) for chunk in stored.chunks], wanted)


def _complete_array(kind: object, stored: pa.Array) -> pa.Array:
    wanted, struct = _arrow_type(kind), _struct_of(kind)
    if stored.type == wanted or struct is None:
        return stored
    names = {part.name for part in stored.type}
    parts = [
        _complete_array(part, stored.field(name)) if name in names else default_column(struct, name, len(stored))
        for name, part in types_of(struct).items()
    ]
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=stored.is_null())


def default_column(kind: type, name: str, rows: int) -> pa.Array | None:
    """A column of the default of a dataclass's field; None if it has none."""
    defaults = _defaults_of(kind)
    return pa.array([_to_plain(defaults[name])] * rows, _arrow_type(types_of(kind)[name])) if name in defaults else None


def _struct_of(kind: object) -> type | None:
    """The dataclass whose values are structs; None for other types."""
    kind = unwrap_optional(kind) or kind
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _defaults_of(kind: type) -> dict[str, object]:
    return {part.name: part.default for part in fields(kind) if part.default is not MISSING}
