"""Attacks on a program's result: the files of its folder, the shared memory, the document, the limit on memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest

from hipsynth.core.documents import to_json
from hipsynth.core.program import Program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.matrix.collect import with_sure_labels
from hipsynth.profiling.reports.describe import result_document, run_document
from hipsynth.profiling.reports.terminal import render_results
from hipsynth.simulator import api, channel, devices, program_results
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits

pytestmark = pytest.mark.usefixtures("sandboxed")
PROGRAMS = Path(__file__).with_name("programs")
STOP_EXIT = 113  # kStopExit of the runtime library: the simulator stopped the program
KERNEL: dict[str, Any] = {
    "symbol": "fill", "signature": "fill(int*)", "dispatches": 1, "same_shape": True, "grid": [1, 1, 1],
    "block": [64, 1, 1], "duration_ns": 10, "counters": {"SQ_WAVES": 1},
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "status": "ok", "reason": "", "message": "", "warnings": [], "races": [], "unfenced": [], "notices": [],
    "finished": True, "signal": 0, "clock_ns": 12.5,
    "dispatch_count": 1, "refused_launches": 0, "module_kernels": 1, "device_ms": 3,
    "kernels": [KERNEL], "shapes": [], "dispatches": [KERNEL],
    "budget": [],
    "instructions": [], "outputs": [], "transfers": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def forger() -> Iterator[api.Artefacts]:
    needs.compiler()
    with tempfile.TemporaryDirectory(prefix="hipsynth-attacks-") as folder:
        yield build_runnable(PROGRAMS / "forger.hip", "gfx90a", "-O3", Path(folder) / "build")


def attack(
    program: api.Artefacts, folder: Path, *words: str, stdin: bytes = b"", memory_bytes: int = 1 << 30
) -> api.RunResult:
    given = folder / "given"
    given.write_bytes(stdin)
    scratch = folder / "scratch"
    scratch.mkdir()
    limits = RunLimits(time_s=10.0, memory_bytes=memory_bytes)
    streams = api.ProgramStreams(given)
    return api.run_program(program, devices.load_device("mi250"), scratch, limits, words, streams=streams)


@pytest.mark.parametrize("kind", ["fifo", "symlink", "folder"])
def test_no_file_of_its_folder_is_read(kind: str, forger: api.Artefacts, tmp_path: Path) -> None:
    done = attack(forger, tmp_path, kind)
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, ""), done
    assert (tmp_path / "scratch" / "run.json").is_symlink() == (kind == "symlink")
    assert [kernel.dispatches for kernel in done.kernels] == [1], "the last result before _exit counts"


def test_it_has_no_descriptor_and_no_variable_of_the_channel(forger: api.Artefacts, tmp_path: Path) -> None:
    assert attack(forger, tmp_path, "look").stdout == "3 hidden\n"


def test_what_was_measured_survives_a_kill(forger: api.Artefacts, tmp_path: Path) -> None:
    done = attack(forger, tmp_path, "die")
    assert (done.reason, done.dispatch_count) == ("host_crash", 2), done


@pytest.mark.parametrize("kind", ["shrink", "unmap"])
def test_taking_the_memory_away_harms_only_itself(kind: str, forger: api.Artefacts, tmp_path: Path) -> None:
    done = attack(forger, tmp_path, kind)
    assert done.stdout == ("-1\n" if kind == "shrink" else "")
    assert done.reason == ("" if kind == "shrink" else "host_crash")


def test_claiming_that_the_simulator_is_old_stops_no_batch(forger: api.Artefacts, tmp_path: Path) -> None:
    """A library that really does not fit raises MissingDependency, which ends a whole batch."""
    assert attack(forger, tmp_path, "refuse").exit_code == STOP_EXIT
    (tmp_path / "again").mkdir()
    claim = json.dumps({**DOCUMENT, "status": "failed", "reason": "bad_configuration", "message": "unknown key"})
    done = attack(forger, tmp_path / "again", "forge", stdin=claim.encode())
    assert (done.status, done.reason) == ("failed", "bad_configuration")


def changed(**members: Any) -> bytes:
    return json.dumps({**DOCUMENT, **members}).encode()


def kernel(**members: Any) -> bytes:
    return changed(kernels=[{**KERNEL, **members}])


FORGED = {
    "empty": b"{}",
    "no object": b"[]",
    "half": changed()[:-7],
    "binary": bytes(range(256)),
    "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep list": b"[" * 900_000,
    "many parts": b"[" + b"[]," * 3_000_000 + b"[]]",
    "huge integer": changed(dispatch_count=0).replace(b'"dispatch_count": 0', b'"dispatch_count": 1' + b"0" * 5000),
    "infinite": changed(clock_ns=0).replace(b'"clock_ns": 0', b'"clock_ns": 1e999'),
    "nan": changed(clock_ns=float("nan")),
    "negative": kernel(duration_ns=-1),
    "no status": changed(status="perfect"),
    "a reason of its own": changed(status="failed", reason="internal error of hipsynth"),
    "a list as reason": changed(status="failed", reason=[1]),
    "a number as message": changed(message=7),
    "a text as count": changed(dispatch_count="many"),
    "true as count": changed(dispatch_count=True),
    "no list": changed(kernels={"fill": 1}),
    "a kernel that is none": changed(kernels=[3]),
    "many dispatches": changed(dispatches=[KERNEL] * 65),
    "many warnings": changed(warnings=["w"] * 17),
    "many races": changed(races=["r"] * 17),
    "race without words": changed(races=[1]),
    "a missing fence without words": changed(unfenced=[1]),
    "unknown notice": changed(notices=[{"kind": "joy", "subject": "hipFancy"}]),
    "notice about nothing": changed(notices=[{"kind": "unsupported_call"}]),
    "long text": changed(warnings=["w" * 70_000]),
    "a dispatch of no kernel": changed(kernels=[]),
    "no dispatch": kernel(dispatches=0),
    "half a dispatch": kernel(dispatches=0.5),
    "a shape of no kernel": changed(shapes=[{**KERNEL, "symbol": "other"}]),
    "no work": kernel(grid=[0, 1, 1]),
    "no grid": kernel(grid=[1]),
    "a counter that is none": kernel(counters={"SQ_WAVES": None}),
    "counters in a list": kernel(counters=[1]),
    "odd key": kernel(counters={"\x1b[2J": 1}),
    "metrics of its own": kernel(metrics={"L2_Hit": 1.0}),
    "source of its own": kernel(source={"backend": "rocprof"}),
    "unknown member": kernel(verdict="fast"),
    "half a character": kernel(signature="\ud800"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_document_is_a_bad_result(name: str) -> None:
    with pytest.raises(program_results.MalformedDocument):
        program_results.parse_document(FORGED[name])
    assert program_results.parse_document(changed()).kernels[0].counters == {"SQ_WAVES": 1}


@pytest.mark.parametrize("name", ["half", "deep", "a list as reason", "half a character"])
def test_a_forged_document_fails_its_program_only(name: str, forger: api.Artefacts, tmp_path: Path) -> None:
    done = attack(forger, tmp_path, "forge", stdin=FORGED[name])
    assert (done.status, done.reason, done.kernels) == ("failed", "bad_result", ()), done


@pytest.mark.parametrize("word", [hex(2**64 - 1), hex(4 * channel.SLOT_BYTES + 4), "3", hex(4 * 100 + 3)])
def test_a_forged_length_is_a_bad_result(word: str, forger: api.Artefacts, tmp_path: Path) -> None:
    assert attack(forger, tmp_path, "forge", word, stdin=changed()).reason == "bad_result"


@pytest.mark.parametrize("kind", ["host memory", "device memory"])
def test_the_limit_on_memory_has_no_hidden_part(kind: str, forger: api.Artefacts, tmp_path: Path) -> None:
    done = attack(forger, tmp_path, kind, memory_bytes=256 << 20)
    assert (done.reason, done.stdout) == ("out_of_memory", "") and "the limit of 256 MiB" in done.message, done


BIG = 2**63 - 1
LIMITS_ROW = {"bottleneck": "none", "wave_cycles": 0, "bounds": {"hbm": BIG}}
EXTREME: dict[str, dict[str, Any]] = {
    "no time": {"duration_ns": 0, "limits": LIMITS_ROW, "sampling": {"strategy": "sampled"}},
    "no counters": {"counters": {}, "work": {}},
    "zeros": {"counters": dict.fromkeys(["SQ_WAVES", "SQ_INSTS", "TCC_HIT", "TCC_MISS", "GRBM_GUI_ACTIVE"], 0)},
    "largest": {"duration_ns": BIG, "dispatches": BIG, "counters": {"SQ_WAVES": BIG}, "grid": [2**32 - 1] * 3},
    "no bounds": {"limits": {"bottleneck": "", "wave_cycles": 0, "bounds": {}}},
    "control characters": {"signature": "\x1b[2J\x00(", "symbol": ""},
}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", EXTREME)
def test_a_well_formed_forgery_breaks_no_report(name: str, arch: str) -> None:
    row = {**KERNEL, **EXTREME[name]}
    found = program_results.parse_document(changed(kernels=[row], dispatches=[row]))
    done = api.RunResult("ok", exit_code=0, kernels=found.kernels, dispatches=found.dispatches, dispatch_count=1)
    program = Program("", "handwritten", "forged")
    result = SimBackend()._judge_run(program, Target(arch, "-O3", devices.default_device(arch)), done, {}, True)
    assert result.status == "ok" and render_results([result], 100, True)
    assert json.dumps(
        to_json([result_document(result), run_document(done, "k.hip", "gfx90a", "-O3", [])]), allow_nan=False
    )
    assert with_sure_labels(result.kernels[0], arch).source.backend == "sim" and program.host_code == "foreign"
