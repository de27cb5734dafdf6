"""The record of a kernel: JSON, Parquet and the core's field names all follow from the dataclasses."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import needs
import pyarrow as pa
import pytest

from hipsynth.core.documents import from_json, types_of, unwrap_optional
from hipsynth.core.kernel_record import KernelRecord, Sampling
from hipsynth.core.store.columns import arrow_columns, arrow_row
from hipsynth.simulator import devices

SCRIPTS_ONLY = {"language", "meta"}  # of Triton kernels; a corpus, which holds HIP kernels, has no columns for them
# Known only to Python: the core does not say who it is, what the metrics are and of what kernel a dispatch is.
NOT_OF_A_DISPATCH = {"name", "symbol", "signature", "dispatches", "same_shape", "metrics", "source", *SCRIPTS_ONLY}
# What the core gives besides a record.
NOT_OF_A_RECORD = {"unreplayed", "out_of_bounds", "printf"}


@dataclass(frozen=True)
class Wider(KernelRecord):
    """The record with one more part."""

    new: Sampling | None = None


def filled(kind: Any) -> Any:
    """A value of a type, with something in every part of it."""
    kind = unwrap_optional(kind) or kind
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        known = types_of(typing.cast(type, kind))
        return typing.cast(Any, kind)(**{name: filled(part) for name, part in known.items()})
    if origin is tuple:
        return tuple(filled(part) for part in arguments)
    if origin is Mapping:
        return {name: filled(arguments[1]) for name in ("a", "b")}
    if origin is types.UnionType:
        return filled(arguments[-1])
    if origin is typing.Literal:
        return arguments[-1]
    return {float: 0.1, int: 7, bool: True, str: "text"}[kind]


def through_json(kind: type, record: Any) -> Any:
    return from_json(kind, json.loads(json.dumps(asdict(record))))


def through_arrow(kind: type, record: Any) -> Any:
    columns = arrow_columns(kind, SCRIPTS_ONLY)
    table = pa.Table.from_pylist([arrow_row(record)], schema=pa.schema(list(columns.items())))
    return replace(from_json(kind, table.to_pylist()[0]), language=record.language, meta=record.meta)


def test_every_field_survives_json_and_parquet() -> None:
    full = filled(KernelRecord)
    assert through_json(KernelRecord, full) == full == through_arrow(KernelRecord, full)
    bare = KernelRecord("k", 1, (1, 1, 1), (64, 1, 1), 1.5, {})
    assert through_json(KernelRecord, bare) == bare == through_arrow(KernelRecord, bare)


def test_a_new_field_needs_no_other_edit() -> None:
    full = filled(Wider)
    assert full.new.error and through_json(Wider, full) == full == through_arrow(Wider, full)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"details": {}}, "unknown fields: details"),
        ({"dispatches": "3"}, "'3' is no int"),
        ({"grid": [1, 1]}, "shorter"),
        ({"sampling": {"strategy": "guessed"}}, "none of exact, replayed, sampled"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        from_json(KernelRecord, asdict(filled(KernelRecord)) | change)


def names(kind: type) -> dict[str, Any]:
    """The names of a dataclass's fields, and below each part the names of its fields."""
    found = {}
    for part in fields(kind):
        inner = unwrap_optional(types_of(kind)[part.name]) or types_of(kind)[part.name]
        found[part.name] = names(inner) if is_dataclass(inner) else None
    return found


def test_the_core_names_the_fields_as_the_record_does() -> None:
    core = needs.core()
    device = core.Device("gfx90a", devices.load_device("mi250").spec(), count=True)
    given = device.launch(device.load_text("s_endpgm\n"), "kernel", (2, 1, 1), (64, 1, 1), b"")
    wanted = {name: inner for name, inner in names(KernelRecord).items() if name not in NOT_OF_A_DISPATCH}
    shape = {
        name: dict.fromkeys(value) if wanted.get(name) else None
        for name, value in given.items()
        if name not in NOT_OF_A_RECORD
    }
    assert shape == wanted
    whole = {name: value for name, value in given.items() if name not in NOT_OF_A_RECORD}
    record = from_json(KernelRecord, {"name": "kernel", "dispatches": 1, **whole})
    assert record.sampling == Sampling("exact", 2) and record.work is not None and record.work.waves == 2
