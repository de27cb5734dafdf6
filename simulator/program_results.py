"""Checks and decodes the result document that a program leaves behind (native/runtime/results.h).

The program may have forged it. Whatever its bytes are, `parse_document` returns records with the right types and
finite, bounded values, or raises MalformedDocument. What the document says as sums over a kernel's dispatches are means
per dispatch from here on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from hipsynth.core.documents import from_json
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.run_status import RunStatus
from hipsynth.simulator import instructions
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.simulator.errors import CORE_REASONS, reason_of_core
from hipsynth.simulator.observation import MOST_OUTPUTS, Output
from hipsynth.simulator.run_result import FaultPlace, Notice, RunResult
from hipsynth.simulator.transfers import Transfer
from hipsynth.source.names import short_name

# Bounds on a valid document. The runtime library keeps 64 dispatches, 16 warnings, 16 races and 64
# notices.
MOST_DISPATCHES, MOST_WARNINGS, MOST_NOTICES, MOST_PARTS, MOST_TRANSFERS = 64, 16, 64, 2_000_000, 4
TEXT_CHARS, KEY_CHARS = 1 << 16, 100
LARGEST = 2**63 - 1
_NOT_MEASURED = frozenset({"name", "metrics", "source"})  # set by the tool
_REASONS_OF: Mapping[str, Collection[str]] = {RunStatus.OK: ("",), RunStatus.FAILED: CORE_REASONS.keys()}  # by status
_SUMS = ("duration_ns", "counters", "limits", "work", "traffic")  # over a kernel's dispatches


class MalformedDocument(ValueError):
    """The document is not one that the runtime library writes."""


def parse_document(data: bytes) -> RunResult:
    """The run that a document tells of, without what the program's process did; raises MalformedDocument."""
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MOST_PARTS:  # bounds the memory that decoding takes
        raise MalformedDocument("it has too many parts")
    try:
        record = json.loads(
            data.decode(errors="replace"),
            parse_int=_parse_integer,
            parse_float=_parse_number,
            parse_constant=_reject_constant,
        )
        _check_texts(record)
        return _decode_document(record)
    except KeyError as error:
        raise MalformedDocument(f"it has no {error}") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise MalformedDocument(str(error)[:200] or type(error).__name__) from None


def _parse_integer(text: str) -> int:
    if len(text) > 19 or not 0 <= int(text) <= LARGEST:
        raise ValueError(f"a number is negative or too large: {text[:30]}")
    return int(text)


def _parse_number(text: str) -> float:
    value = float(text)
    if not 0 <= value <= LARGEST:
        raise ValueError(f"a number is negative or too large: {text[:30]}")
    return value


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no measurement")


def _check_texts(value: Any) -> None:
    """Raises ValueError for texts that are too long, cannot be stored as UTF-8, or are odd as keys."""
    if isinstance(value, str):
        if len(value.encode()) > TEXT_CHARS:
            raise ValueError("a text is too long")
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not (0 < len(key) <= KEY_CHARS and key.isascii() and key.isprintable()):
                raise ValueError(f"{key[:KEY_CHARS]!r} is no name")
            _check_texts(item)


def _decode_document(record: Mapping[str, Any]) -> RunResult:
    reason, count = reason_of_core(record["reason"]), record["dispatch_count"]
    if record["reason"] not in _REASONS_OF.get(record["status"], ()):
        raise ValueError("its status or reason is unknown")
    refused = record["refused_launches"]
    if type(count) is not int or type(refused) is not int or type(record["clock_ns"]) not in (int, float):
        raise TypeError("its clock or its number of dispatches is no number")
    if type(record["device_ms"]) is not int:
        raise TypeError("its time in launches is no number")
    kernels = _decode_records(record["kernels"], MOST_PARTS)
    dispatches = _decode_records(record["dispatches"], MOST_DISPATCHES)
    shapes = _decode_records(record["shapes"], MOST_PARTS)
    if not {part.symbol for part in (*dispatches, *shapes)} <= {kernel.symbol for kernel in kernels}:
        raise ValueError("a dispatch or shape has no kernel")
    return RunResult(
        status=RunStatus(record["status"]),
        reason=reason,
        message=_require_text(record["message"]),
        fault=from_json(FaultPlace, record["fault"]) if reason and "fault" in record else None,
        warned_at=from_json(FaultPlace, record["warned_at"]) if "warned_at" in record else None,
        kernels=kernels,
        shapes=shapes,
        dispatches=dispatches,
        dispatch_count=count,
        refused_launches=refused,
        clock_ns=float(record["clock_ns"]),
        races=tuple(_require_text(text) for text in _require_list(record["races"], MOST_WARNINGS)),
        unfenced=tuple(_require_text(text) for text in _require_list(record["unfenced"], MOST_WARNINGS)),
        notices=tuple(from_json(Notice, row) for row in _require_list(record["notices"], MOST_NOTICES)),
        warnings=tuple(_require_text(text) for text in _require_list(record["warnings"], MOST_WARNINGS)),
        spending=tuple(_decode_spending(row) for row in _require_list(record["budget"], MOST_PARTS)),
        device_s=record["device_ms"] / 1000,
        instructions=instructions.decode_instructions(_require_list(record["instructions"], MOST_PARTS)),
        outputs=tuple(from_json(Output, row) for row in _require_list(record["outputs"], MOST_OUTPUTS)),
        host_operators=_decode_counts(record.get("host_operators", {})),
        transfers=tuple(from_json(Transfer, row) for row in _require_list(record["transfers"], MOST_TRANSFERS)),
    )


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value


def _require_list(value: Any, most: int) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise TypeError(f"a list is none, or has more than {most} entries")
    return value


def _decode_counts(value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict) or any(type(count) is not int for count in value.values()):
        raise TypeError("its counts of operators are none")
    return value


def _decode_records(rows: Any, most: int) -> tuple[KernelRecord, ...]:
    return tuple(_decode_record(row) for row in _require_list(rows, most))


def _decode_spending(row: Mapping[str, Any]) -> Spending:
    spending = from_json(Spending, {**row, "name": short_name(row["signature"])})
    if (
        not spending.launches == spending.counted + spending.reused + spending.uncounted
        or spending.incomplete > spending.launches
    ):
        raise ValueError(f"the launches of kernel {spending.name[:KEY_CHARS]} do not add up")
    return spending


def _decode_record(row: Mapping[str, Any]) -> KernelRecord:
    if row.keys() & _NOT_MEASURED:
        raise ValueError("a kernel has fields that are not measured")
    dispatches = row["dispatches"]
    if type(dispatches) is not int or dispatches < 1:
        raise ValueError("a kernel has no dispatch")
    means = {name: _divide_numbers(row[name], dispatches) for name in _SUMS if name in row}
    record = from_json(KernelRecord, {**row, **means, "name": short_name(row["signature"])})
    if not all(0 < size < 2**32 for size in (*record.grid, *record.block)):
        raise ValueError(f"kernel {record.name[:KEY_CHARS]} has no work")
    return record


def _divide_numbers(value: Any, count: int) -> Any:
    """Divides a number, or every number in an object, by `count`; texts are unchanged."""
    if isinstance(value, dict):
        return {name: _divide_numbers(number, count) for name, number in value.items()}
    return value if value is None or isinstance(value, str) else value / count
