"""Records of programs that somebody else wrote: what no program of ours has is refused before it is used."""

from __future__ import annotations

from typing import Any

import pytest

from hipsynth.core.program import Expected, Program, ProgramRun, check_record

RECORD: dict[str, Any] = dict(
    Program(
        "int main() {}", "synthetic", "stream", choices=(1, 2), expected=Expected(("done",), 1e-5),
        runs=(ProgramRun(("64",), {"n": 64}),),
    ).record()
)  # fmt: skip


def test_what_was_written_is_read() -> None:
    assert check_record(RECORD) == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../x"},
        {"family": 3},
        {"language": "cuda"},
        {"params": []},
        {"expected": {**RECORD["expected"], "rtol": "x"}},
        {"expected": {**RECORD["expected"], "lines": "done"}},
        {"expected": []},
        {"choices": [1.5]},
        {"runs": [{"arguments": "64", "params": {}}]},
        {"runs": [{"arguments": ["64"], "params": {"n": "64"}}]},
        {"derivation": [1]},
    ],
)
def test_what_no_program_has_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        check_record({**RECORD, **changes})
