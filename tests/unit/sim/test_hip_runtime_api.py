"""The Python side of a run: kernel names, configuration, expected output, result documents."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hipsynth.core.kernel_record import Limiter
from hipsynth.core.oracle_check import describe_mismatch
from hipsynth.core.program import Expected
from hipsynth.simulator import api, channel, devices
from hipsynth.simulator.errors import CORE_REASONS, OF_SCRIPTS
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.native_core import native_core


def test_configuration_names_every_table_entry(tmp_path: Path) -> None:
    device = devices.load_device("mi300x")
    artefacts = api.Artefacts(tmp_path / "a", tmp_path / "a.co", tmp_path / "a.s", Path("llvm-objdump"))
    limits = RunLimits(time_s=2.5, wave_instructions=1000, memory_bytes=1 << 20, caches=False)
    settings = channel.encode_configuration(artefacts, device, limits)
    entries = dict(entry.split("=", 1) for entry in settings.decode().removesuffix("\0").split("\0"))
    assert entries["arch"] == "gfx942"
    assert entries["count"] == "0"
    assert (entries["cpu_seconds"], entries["max_wave_instructions"], entries["memory_bytes"]) == (
        "2.5",
        "1000",
        str(192 << 30),  # the device's own; what a program may really touch is the sandbox's limit
    )
    spec = {key.removeprefix("spec."): float(value) for key, value in entries.items() if key.startswith("spec.")}
    assert spec == device.spec()


@pytest.mark.parametrize(
    ("expected", "code", "stdout", "says"),
    [
        (Expected(("a 1",)), 0, "a 1\n", ""),
        (Expected(("a 1",)), 0, "a  1 \n", ""),
        (Expected(("a 1",)), 0, "a 2\n", "line 1"),
        (Expected(("a 100",), rtol=0.01), 0, "a 100.9\n", ""),
        (Expected(("a 100",), rtol=0.01), 0, "a 101.1\n", "line 1"),
        (Expected(("a 0",), atol=1e-3), 0, "a 1e-4\n", ""),
        (Expected(("x nan inf",), rtol=1.0), 0, "x nan inf\n", ""),
        (Expected(("x inf",), rtol=1.0, atol=9.0), 0, "x -inf\n", "line 1"),
        (Expected(("x 1",), rtol=1.0), 0, "x nan\n", "line 1"),
        (Expected(("a", "b")), 0, "a\n", "line 2 is missing"),
        (Expected(("a",)), 0, "a\nb\n", "line 2 was not expected"),
        (Expected(("a b",)), 0, "a\n", "line 1"),
        (Expected((), exit_code=3), 0, "", "exit code 0 instead of 3"),
        (Expected((), exit_code=3), 3, "anything\n", ""),
        (Expected(()), None, "", "exit code None"),
    ],
)
def test_expected_output(expected: Expected, code: int | None, stdout: str, says: str) -> None:
    found = describe_mismatch(expected, code, stdout)
    assert (found == "") if says == "" else found.startswith(says), found


def test_library_is_named_when_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSYNTH_RUNTIME", str(tmp_path / "other.so"))
    (tmp_path / "other.so").write_bytes(b"")
    assert api.library_path() == tmp_path / "other.so"


DOCUMENT = {
    "status": "failed",
    "reason": "trap",
    "message": "kernel k: trap",
    "finished": True,
    "signal": 0,
    "clock_ns": 12.5,
    "warnings": [],
    "races": [],
    "unfenced": [],
    "notices": [],
    "dispatch_count": 1,
    "refused_launches": 0,
    "module_kernels": 2,
    "device_ms": 3,
    "budget": [],
    "instructions": [],
    "outputs": [],
    "transfers": [],
    "kernels": [],
    "shapes": [],
    "dispatches": [],
}


def left_behind(text: str) -> api.RunResult:
    """The result of a program that died of SIGABRT after the library wrote this document."""
    with channel.open_channel(b"") as results:
        if text:
            os.pwrite(results.fd, text.encode(), channel.SLOTS_AT + channel.SLOT_BYTES)
            os.pwrite(results.fd, struct.pack("<Q", 4 * len(text) + 1), 0)
        return api._build_result(results, "host_crash", "the program died of SIGABRT")


def test_the_simulators_reason_has_priority() -> None:
    done = left_behind(json.dumps(DOCUMENT))
    assert (done.status, done.reason, done.message) == ("failed", "trap", "kernel k: trap")


def test_a_program_without_hip_calls_is_an_empty_result() -> None:
    done = left_behind("")
    assert (done.reason, done.kernels, done.dispatch_count) == ("host_crash", (), 0)


def test_a_broken_document_is_a_bad_result() -> None:
    assert left_behind('{"status": "ok", ').reason == "bad_result"


def test_the_core_names_what_limits_occupancy_as_documents_do() -> None:
    header = (Path(api.__file__).parent / "native" / "core" / "dispatch.h").read_text()
    names = re.findall(r'"([^"]+)"', re.search(r"kLimiterNames = \{([^}]*)\}", header)[1])  # type: ignore[index]
    assert set(names) == set(Limiter) - {Limiter.GROUP_SIZE}


def test_the_library_has_the_channels_layout_and_no_other_reasons() -> None:
    native = Path(api.__file__).parent / "native"
    header = (native / "runtime" / "channel.h").read_text()
    assert "kChannelBytes = 64u << 20, kConfigAt = 4096, kSlotsAt = 1u << 20, kSlots = 3;" in header
    assert (channel.BYTES, channel.CONFIGURATION_AT, channel.SLOTS_AT, channel.SLOTS) == (64 << 20, 4096, 1 << 20, 3)
    reasons = set(native_core().reasons()) - {"over_budget"}  # which never leaves it
    assert reasons == set(CORE_REASONS) - {str(reason) for reason in OF_SCRIPTS}


def test_an_attached_program_over_its_memory_limit_has_a_reason() -> None:
    hungry = [sys.executable, "-c", "import time; taken = bytearray(256 << 20); time.sleep(60)"]
    with subprocess.Popen(hungry) as process:
        try:
            reason, message = api._watch_process(process, RunLimits(time_s=30.0, memory_bytes=128 << 20))
        finally:
            process.kill()
    assert reason == "out_of_memory" and message.endswith("took more than the limit of 128 MiB")
