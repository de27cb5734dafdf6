"""Converts dataclasses to JSON documents and back.

A document is a frozen dataclass of numbers, texts, tuples, mappings and other dataclasses. Its fields are the members
of the JSON object, in this order; one whose default is None is left out while it is None. An underscore behind a name
that Python reserves (`class_`) is not part of the member's name.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import TypeVar

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]
T = TypeVar("T")
Decoder = Callable[[object], object]
_PLAIN = (str, int, float, bool, types.NoneType)


@dataclass(frozen=True)
class _Member:
    """A field of a document: its attribute, its name in JSON, and whether it is left out while it is None."""

    attribute: str
    name: str
    omitted: bool


def json_name(attribute: str) -> str:
    """The name of a field in JSON."""
    return attribute.rstrip("_")


@functools.cache
def _list_members(kind: type) -> tuple[_Member, ...]:
    return tuple(_Member(field.name, json_name(field.name), field.default is None) for field in fields(kind))


def to_json(value: object) -> Json:
    """A document, or a part of one, as `json.dumps` takes it. Raises TypeError for a value that is no document."""
    if type(value) in _PLAIN:
        return typing.cast(Json, value)
    if is_dataclass(value) and not isinstance(value, type):
        return document_json(value)
    if isinstance(value, Mapping):
        return {str(name): to_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value]
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, str | int | float):  # a number of numpy
        return value
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no part of a document")


def document_json(document: object) -> JsonObject:
    """The JSON object of a document. Raises TypeError as to_json()."""
    members: JsonObject = {}
    for member in _list_members(typing.cast(Hashable, type(document))):
        value = getattr(document, member.attribute)
        if value is not None or not member.omitted:
            members[member.name] = to_json(value)
    return members


@functools.cache
def types_of(kind: type) -> dict[str, object]:
    """Field name -> resolved type, for a dataclass."""
    hints = typing.get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind)}


def unwrap_optional(kind: object) -> object | None:
    """X for the type `X | None`, None for any other type."""
    members = _union_arms(kind)
    inner = [part for part in members if part is not types.NoneType]
    return inner[0] if len(inner) == 1 and len(members) == 2 else None


def _union_arms(kind: object) -> tuple[object, ...]:
    """The members of a union type, () for any other type."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()


def from_json(kind: type[T], value: object) -> T:
    """Rebuilds a dataclass from its JSON form, or that of Arrow (lists for tuples, pairs for mappings).

    Raises TypeError or ValueError for values that do not match the types; fields with a default may be missing.
    """
    return typing.cast(T, _make_decoder(typing.cast(Hashable, kind))(value))


@functools.cache
def _make_decoder(kind: object) -> Decoder:
    """The function that converts a decoded value to `kind`."""
    if members := _union_arms(kind):
        return functools.partial(_first_that_fits, tuple(map(_make_decoder, members)))
    if kind is types.NoneType:
        return _decode_null
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and arguments[-1] is Ellipsis:
        each = _make_decoder(arguments[0])
        return lambda value: tuple(each(item) for item in _decode_items(value))
    if origin is tuple:
        parts = [_make_decoder(part) for part in arguments]
        return lambda value: tuple(part(item) for part, item in zip(parts, _decode_items(value), strict=True))
    if origin is Mapping:
        item = _make_decoder(arguments[1])
        return lambda value: {name: item(member) for name, member in _decode_pairs(value).items()}
    if isinstance(kind, type) and is_dataclass(kind):
        decoders = {json_name(name): (name, _make_decoder(part)) for name, part in types_of(kind).items()}
        return functools.partial(_build_document, kind, decoders)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return functools.partial(_decode_path, kind)
    # Floats with integral values are written as integers. Any type not listed here is str or a Literal of strings.
    plain: Mapping[object, tuple[type, ...]] = {float: (float, int), int: (int,), bool: (bool,)}
    return functools.partial(_decode_checked, plain.get(kind, (str,)), arguments)


def _first_that_fits(decoders: tuple[Decoder, ...], value: object) -> object:
    """Decodes a value by the first decoder that accepts it; raises the last decoder's error if none does."""
    if value is None and _decode_null in decoders:
        return None
    *others, last = [decoder for decoder in decoders if decoder is not _decode_null]
    for decoder in others:
        try:
            return decoder(value)
        except (TypeError, ValueError):
            continue
    return last(value)


def _decode_null(value: object) -> None:
    if value is not None:
        raise TypeError(f"{value!r} is not null")


def _decode_path(kind: type[PurePath], value: object) -> PurePath:
    return kind(typing.cast(str, _decode_checked((str,), (), value)))


def _decode_items(value: object) -> list[object] | tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is no list")
    return value


def _decode_pairs(value: object) -> dict[str, object]:
    """A mapping, also one that is written as a list of pairs."""
    return (
        dict(value) if isinstance(value, Mapping) else dict(typing.cast(list[tuple[str, object]], _decode_items(value)))
    )


def _build_document(kind: Callable[..., object], decoders: Mapping[str, tuple[str, Decoder]], value: object) -> object:
    members = _decode_pairs(value)
    if unknown := sorted(members.keys() - decoders):
        raise ValueError(f"unknown fields: {', '.join(unknown)}")
    if lacking := [name for name in _required_members(kind) if name not in members]:
        raise ValueError(f"lacks the key{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}")
    values = {}
    for name, item in members.items():
        attribute, decode = decoders[name]
        values[attribute] = decode(item)
    return kind(**values)


@functools.cache
def _required_members(kind: Hashable) -> tuple[str, ...]:
    """The names in JSON of the fields without a default, in their order."""
    dataclass_fields = fields(typing.cast(type, kind))
    required = [part for part in dataclass_fields if part.default is MISSING and part.default_factory is MISSING]
    return tuple(json_name(part.name) for part in required if part.init)


def _decode_checked(allowed: tuple[type, ...], choice: tuple[str, ...], value: object) -> object:
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise TypeError(f"{value!r} is no {allowed[0].__name__}")
    if choice and value not in choice:
        raise ValueError(f"{value!r} is none of {', '.join(choice)}")
    return value
