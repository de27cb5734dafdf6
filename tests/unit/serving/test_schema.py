"""/openapi.json allows a body exactly if the server does not refuse its form."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from hipsynth.core.errors import UsageError
from hipsynth.serving.schema import Chat, Predict
from hipsynth.toolchain import check_flags, flag_pattern

FIELDS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"grid": [1, 2147483647]}, True),
    ({"grid": [0]}, False),
    ({"block": [2147483648]}, False),
    ({"block": [2.0]}, True),
    ({"block": [1.5]}, False),
    ({"version": -1}, False),
    ({"version": 1 << 53}, True),
    ({"values": {"n": 1.5}}, True),
    ({"values": {"a\0": 1}}, False),
    ({"device": "mi300x"}, True),
    ({"device": None, "arch": "gfx90a"}, True),
    ({"device": "mi250", "arch": "gfx90a"}, True),
    ({"device": "mi250"}, True),
    ({"device": "mi300x", "arch": "gfx90a"}, False),
    ({"device": "0"}, False),
    ({"flags": " -O3 -D'A=b c' -D N -mllvm -amdgpu-x=1"}, True),
    ({"flags": "-O9"}, False),
    ({"flags": "'-O3'"}, False),
    ({"flags": "-I/etc"}, False),
    ({"flags": "-D"}, False),
    ({"flags": ""}, False),
    ({"flags": "0" * 4096}, False),
    ({"flags": "-O3 " * 2000}, False),
]


def accepted(model: type[BaseModel], body: dict[str, Any]) -> bool:
    try:
        model.model_validate(body)
    except (ValidationError, UsageError):
        return False
    return True


@pytest.mark.parametrize(("fields", "valid"), FIELDS, ids=[str(fields)[:40] for fields, _ in FIELDS])
def test_predictions(fields: dict[str, Any], valid: bool) -> None:
    body = {"source": "", **fields}
    schema = jsonschema_rs.validator_for(Predict.model_json_schema())
    assert (schema.is_valid(body), accepted(Predict, body)) == (valid, valid)


@pytest.mark.parametrize(("most", "valid"), [(1, True), (4096, True), (4097, False), (0, False)])
def test_chats(most: int, valid: bool) -> None:
    body = {"messages": [{"role": "user", "content": ""}], "max_tokens": most}
    schema = jsonschema_rs.validator_for(Chat.model_json_schema())
    assert (schema.is_valid(body), accepted(Chat, body)) == (valid, valid)


@settings(max_examples=20, deadline=None)
@given(st.from_regex(flag_pattern()))
def test_the_pattern_of_flags_holds_allowed_ones_only(flags: str) -> None:
    check_flags(flags)
