"""`synth predict` of sources that are made to break it: a typed answer or refusal, within the limit of time."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from hipsynth.cli.main import main
from hipsynth.core.errors import TimeLimitReached
from hipsynth.core.time_limit import PREDICTION_SECONDS
from hipsynth.profiling.preview.interpret import Interpreter, Preview, ScaledCounts
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.shared_device import SharedDevice
from hipsynth.serving import handlers
from hipsynth.serving.limits import ServerSettings
from hipsynth.serving.requests import ProgramRequest

HEAD = "#include <hip/hip_runtime.h>\n"
MAIN = "int main() { int* p; (void)hipMalloc(&p, 1 << 16); k<<<64, 64>>>(p); }\n"


def with_note(*lines: str) -> str:
    text = "\\n".join(['.pushsection .note,\\"a\\",@note', *lines, ".popsection"])
    return f'{HEAD}__global__ void k(int* p) {{ asm volatile("{text}"); *p = 1; }}\n{MAIN}'


OBJECTS = {
    "a note beyond its segment": with_note(".long 7", ".long 0x7fffffff", ".long 32", '.asciz \\"AMDGPU\\"'),
    "a note nested 100,000 deep": with_note(
        ".long 7", ".long 100000", ".long 32", '.asciz \\"AMDGPU\\"', ".byte 0", ".fill 100000,1,0x91"
    ),
    "a note with a huge array": with_note(
        ".long 7",
        ".long 8",
        ".long 32",
        '.asciz \\"AMDGPU\\"',
        ".byte 0",
        ".byte 0xdd,0xff,0xff,0xff,0xff,0xc0,0xc0,0xc0",
    ),
    "a device array of 64 GiB": HEAD
    + "__device__ float big[1ull << 34];\n__global__ void k(int* p) { big[threadIdx.x] = 1; *p = big[5]; }\n"
    + MAIN,
}

TWO = (
    HEAD
    + "__global__ void quick(int* p) { p[threadIdx.x] = 1; }\n__global__ void slow(int* p) { p[threadIdx.x] = 2; }\n"
    + MAIN.replace("k<<<64, 64>>>(p);", "quick<<<64, 64>>>(p); slow<<<64, 64>>>(p);")
)
LONG_TO_COMPILE = f"""{HEAD}#define A(x) ((x)+(x))
__global__ void k(int* p) {{ *p = 1; }}
int main() {{ int n = {"A(" * 26}1{")" * 26}; }}
"""


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of a command."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err and "itself failed" not in printed.err
    return int(ended.value.code or 0), json.loads(printed.out)


@pytest.mark.parametrize("name", OBJECTS)
def test_a_code_object_that_cannot_be_loaded_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "object.hip"
    path.write_text(OBJECTS[name])
    code, document = answered(capsys, "predict", str(path), "--arch", "gfx90a")
    assert (code, document["error"]) == (3, "bad_code_object"), document


def test_the_preview_backend_says_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "object.hip"
    path.write_text(OBJECTS["a device array of 64 GiB"])
    _, document = answered(capsys, "profile", str(path), "--arch", "gfx90a", "--backend", "preview")
    assert (document["results"][0]["status"], document["results"][0]["reason"]) == ("failed", "bad_code_object")


def test_a_compiler_that_takes_too_long_is_a_typed_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "macro.hip"
    path.write_text(LONG_TO_COMPILE)
    code, document = answered(capsys, "predict", str(path), "--arch", "gfx90a", "--timeout", "0.5")
    assert (code, document["error"]) == (3, "timeout")
    assert "0.5 s" in document["message"] and "--timeout" in document["remedy"]


def test_the_server_has_the_same_limit() -> None:
    asked = ProgramRequest(source=LONG_TO_COMPILE, name="macro.hip", arch="gfx90a", limit_s=0.5)
    with pytest.raises(TimeLimitReached):
        handlers.predict(asked)
    assert ServerSettings().predict_s == PREDICTION_SECONDS


def test_kernels_that_are_finished_at_the_limit_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "two.hip"
    path.write_text(TWO)
    command = ["predict", str(path), "--arch", "gfx90a"]
    answered(capsys, *command)  # compiles it
    preview = Interpreter.preview

    def endless(
        self: Interpreter, launch: DeviceLaunch, sensitivity: float | None, device: SharedDevice | None
    ) -> Preview | None:
        while launch.kernel == "slow":
            pass
        return preview(self, launch, sensitivity, device)

    monkeypatch.setattr(Interpreter, "preview", endless)
    code, document = answered(capsys, *command, "--arch", "gfx942", "--timeout", "1")
    first, second = document["results"]
    quick, slow = first["kernels"]
    assert code == 5 and quick["duration_ns"] > 0 and not quick["reason_code"]
    assert (slow["name"], slow["abstained"], slow["reason_code"], slow["metrics"]) == ("slow", True, "timeout", {})
    assert [kernel["reason_code"] for kernel in second["kernels"]] == ["timeout", "timeout"]
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_variants_of_builds_that_are_finished_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "two.hip"
    path.write_text(TWO)
    answered(capsys, "predict", str(path))  # compiles it
    count = Interpreter.count

    def endless(self: Interpreter, launch: DeviceLaunch, device: SharedDevice | None = None) -> ScaledCounts | None:
        while self.table.arch == "gfx942":
            pass
        return count(self, launch, device)

    monkeypatch.setattr(Interpreter, "count", endless)
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(path), "--sweep", "grid=64,128", "--timeout", "1", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ended.value.code == 5
    codes = [(line["arch"], {kernel["reason_code"] for kernel in line["kernels"]}) for line in lines]
    assert codes == [("gfx90a", {""})] * 2 + [("gfx942", {"timeout"})] * 2


LEAVES_A_LINK = (
    HEAD
    + """#include <cstdlib>
#include <unistd.h>
__global__ void k(int* p) { p[threadIdx.x] = 1; }
void leave() { unlink("hipsynth-launches.bin"); (void)!symlink("SECRET", "hipsynth-launches.bin"); _exit(0); }
int main() { int* p; (void)hipMalloc(&p, 1 << 16); k<<<64, 64>>>(p); leave(); }
"""
)


def test_a_link_in_place_of_the_record_shows_nothing_of_its_target(
    tmp_path: Path, sandboxed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("launch-me password\n")
    (tmp_path / "program").mkdir()
    source = tmp_path / "program" / "leave.hip"
    source.write_text(LEAVES_A_LINK.replace("SECRET", str(tmp_path / "secret")))
    code, document = answered(capsys, "predict", str(source), "--arch", "gfx90a")
    assert (code, document["error"]) == (3, "outside")
    assert "password" not in str(document) and "launch-me" not in str(document)
