"""Hostile host programs and hostile device code: each is contained, has a reason, and leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
from leftovers import left_running

from hipsynth.core.scratch import process_folder
from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import sandbox

pytestmark = pytest.mark.usefixtures("sandboxed")
FOLDER = Path(__file__).with_name("hostile")
LIMITS = RunLimits(time_s=1.0, wave_instructions=3_000_000, memory_bytes=160 << 20, output_bytes=1 << 16)
ROOT = os.geteuid() == 0
DENIED, UNPERMITTED = "Permission denied\n", "Function not implemented\n"

# Deed -> the reason of the result, and what the program printed before its end, or its first line.
HOST: dict[str, tuple[str, str]] = {
    "fill /tmp": ("out_of_memory", ""),
    "fill /dev/shm": ("out_of_memory", ""),
    "page tables": ("out_of_memory", ""),
    "threads": ("forbidden_call", ""),
    "ignore signals": ("timeout", ""),
    "open files": ("", "limited\n"),
    "inherited sockets": ("", "no socket\n"),
    "read the supervisor": ("", "closed\n"),
    "kill the supervisor": ("", "still here\n"),
    "limit the supervisor": ("", DENIED),
    "slow the supervisor": ("", DENIED),
    "vfork": ("forbidden_call", ""),
    "clone3": ("", UNPERMITTED),
    "unshare": ("forbidden_call", ""),
    "ptrace": ("forbidden_call", ""),
    "read another's memory": ("forbidden_call", ""),
    "mount": ("forbidden_call", ""),
    "bpf": ("forbidden_call", ""),
    "io_uring": ("", DENIED),
    "keyring": ("forbidden_call", ""),
    "memfd": ("", DENIED),
    "socket pair": ("", DENIED),
    "x32 calls": ("forbidden_call", ""),
    "leave much": ("", "left\n"),
    "move its folder": ("", "may not\n") if ROOT else ("forbidden_call", "MOVED\n"),
    "write to the root folder": ("", "may not\n"),
    "recursion": ("host_crash", ""),
    "become root": ("", ""),
    "a shell": ("forbidden_call", "a shell\n"),
    "flood errors": ("output_limit", ""),
    "stop itself": ("timeout", ""),
    "abort": ("host_crash", ""),
}
DEVICE: dict[str, tuple[str, str]] = {
    "endless": ("instruction_limit", ""),
    "beyond": ("illegal_access", ""),
    "before": ("illegal_access", ""),
    "null": ("illegal_access", ""),
    "reads the host": ("illegal_access", ""),
    "writes the host": ("illegal_access", ""),
    "writes code": ("illegal_access", ""),
    "trap": ("trap", ""),
    "waits for nothing": ("instruction_limit", ""),
    "formats": ("illegal_access", ""),
    "floods": ("instruction_limit", "0 0 0 0\n"),
    "recurses": ("illegal_access", ""),
    "jumps": ("illegal_access", ""),
    "a huge grid": ("", "ended: 0\n"),
    "a huge block": ("", "ended: 0\n"),
}


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, api.Artefacts]]:
    needs.compiler()
    with tempfile.TemporaryDirectory(prefix="hipsynth-attacks-") as folder:
        yield {
            name: build_runnable(FOLDER / f"{name}.hip", "gfx90a", "-O1", Path(folder) / name)
            for name in ("host", "device")
        }


def run(program: api.Artefacts, deed: str) -> api.RunResult:
    with sandbox.job_folder() as job:
        folder = job / "run"
        folder.mkdir()
        return api.run_program(program, devices.load_device("mi250"), folder, LIMITS, (deed,))


def remains() -> set[str]:
    """Processes below this one besides supervisors, and files of jobs."""
    jobs = process_folder() / "jobs"
    return {*left_running(), *(path.name for path in jobs.iterdir())}


@pytest.mark.parametrize("deed", HOST)
def test_a_hostile_host_program(deed: str, programs: dict[str, api.Artefacts]) -> None:
    done = run(programs["host"], deed)
    assert (done.reason, done.stdout) == HOST[deed], done
    assert bool(done.message) == bool(done.reason) and not remains()
    again = run(programs["host"], "open files")  # perhaps in the same sandbox
    assert (again.reason, again.stdout) == ("", "limited\n"), again


@pytest.mark.parametrize("deed", DEVICE)
def test_hostile_device_code(deed: str, programs: dict[str, api.Artefacts]) -> None:
    done = run(programs["device"], deed)
    assert (done.reason, done.stdout[:8]) == (DEVICE[deed][0], DEVICE[deed][1][:8]), done
    assert done.exit_code != 42 and bool(done.message) == bool(done.reason) and not remains()
