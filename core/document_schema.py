"""The JSON schema of a document, from its dataclass."""

from __future__ import annotations

from pydantic import TypeAdapter

from hipsynth.core.documents import Json, JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def make_schema(kind: type) -> JsonObject:
    """The JSON schema of a document's dataclass; members that may be left out are not required."""
    json_schema: JsonObject = TypeAdapter(kind).json_schema(mode="serialization")
    for schema in list_definitions(json_schema).values():
        _mark_required(schema)
    return {"$schema": DIALECT, **json_schema}


def _mark_required(schema: JsonObject) -> None:
    """Makes every member required that is always there: those without None as their default (core/documents.py)."""
    if "enum" in schema:
        return
    required: list[Json] = []
    for name, part in list_members(schema, "properties").items():
        assert isinstance(part, dict)
        if "default" in part and part.pop("default") is None:
            part["anyOf"] = [member for member in list_parts(part, "anyOf") if member.get("type") != "null"]
        else:
            required.append(name)
    schema["required"] = required


def list_definitions(schema: JsonObject) -> dict[str, JsonObject]:
    """Name -> object schema: the document itself, and those that it refers to."""
    inner = list_members(schema, "$defs")
    return {str(schema["title"]): schema} | {name: part for name, part in inner.items() if isinstance(part, dict)}


def list_members(schema: JsonObject, key: str) -> JsonObject:
    """The object under a key of a schema, {} without one."""
    members = schema.get(key, {})
    assert isinstance(members, dict)
    return members


def list_parts(schema: JsonObject, key: str) -> list[JsonObject]:
    """The schemas in a list under a key, [] without one."""
    parts = schema.get(key, [])
    assert isinstance(parts, list)
    return [part for part in parts if isinstance(part, dict)]
