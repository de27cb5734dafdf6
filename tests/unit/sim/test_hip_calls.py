"""HIP calls of real programs are implemented, and the report on them matches the library."""

from __future__ import annotations

import pytest

from hipsynth.simulator import hip_calls

# Interoperation with graphics and other processes' memory, and texture references, which HIP has given up.
ABSENT = {
    "hipBindTexture", "hipDestroyExternalMemory",
    "hipDestroyExternalSemaphore", "hipExternalMemoryGetMappedBuffer", "hipGraphicsMapResources",
    "hipGraphicsResourceGetMappedPointer", "hipGraphicsUnmapResources", "hipGraphicsUnregisterResource",
    "hipImportExternalMemory", "hipImportExternalSemaphore", "hipSignalExternalSemaphoresAsync",
    "hipWaitExternalSemaphoresAsync",
}  # fmt: skip


def test_every_call_that_is_not_marked_absent_is_implemented() -> None:
    found = hip_calls.measure_coverage()
    assert set(found.missing) <= ABSENT
    assert found.least >= 0.98
    assert found.least <= found.most <= 1


def test_the_report_names_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    hip_calls.main()
    lines = capsys.readouterr().out.splitlines()
    assert "  856  yes  hipFree" in lines
    assert "    1  no   hipImportExternalMemory" in lines
    assert "of 937 programs use only implemented calls" in lines[-1]
