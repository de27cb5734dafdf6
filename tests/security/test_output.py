"""Attacks through what a program, its source or its name makes the tool print, and output that is cut."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path

import needs
import pytest

from hipsynth.cli.terminal import OutputDecoder
from hipsynth.core.program import Expected, Program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.survey.self_check import judge_run
from hipsynth.simulator.api import RunResult
from hipsynth.simulator.limits import RunLimits

pytestmark = pytest.mark.usefixtures("sandboxed")
ATTACKS = {
    "clear the screen": b"\x1b[2J\x1b[H",
    "write the clipboard": b"\x1b]52;c;cm0gLXJmIH4=\x07",
    "answer back": b'\x1bP$q"p\x1b\\\x05',
    "C1 as UTF-8": "\x9b2J".encode(),
    "C1 as a byte": b"\x9b2J",
    "overwrite by return": b"error\rok   ",
    "overwrite by backspace": b"error\b\b\b\b\bok   ",
    "reorder": "\u202eok\u2066".encode(),
    "erase": b"x\x7f\x00\x0e",
}
FLOOD = 'int main(int n, char**) { for (int i = 0; i < 80000; ++i) std::printf("%063d\\n", i); use(); return 0; }'
HEAD = """#include <hip/hip_runtime.h>
__global__ void one(int* p) { *p = 1; }
void use() { int* p; if (hipMalloc(&p, 4) == hipSuccess) one<<<1, 1>>>(p); (void)hipDeviceSynchronize(); }
"""


def harmful(text: str) -> list[str]:
    return [c for c in text if c not in "\n\t" and (unicodedata.category(c) == "Cc" or 0x2000 <= ord(c) < 0x2070)]


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("piece", [1, 2, 100])
def test_no_control_character_reaches_a_terminal(name: str, piece: int) -> None:
    data = b"before\r\n" + ATTACKS[name] + "after é\r\n".encode()
    decoder = OutputDecoder()
    pieces = [decoder.feed(data[at : at + piece]) for at in range(0, len(data), piece)]
    shown = "".join([*pieces, decoder.feed(b"", end=True)])
    assert not harmful(shown) and "\\" in shown, shown
    assert shown.startswith("before\n") and shown.endswith("after é\n")


def synth(*words: str, cwd: Path, terminal: bool) -> tuple[int, bytes]:
    """Exit code, and what reached stdout and stderr: a terminal, or pipes."""
    needs.compiler()
    command = [sys.executable, "-m", "hipsynth.cli.main", *words]
    if not terminal:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr
    reader, writer = pty.openpty()
    with subprocess.Popen(command, cwd=cwd, stdin=writer, stdout=writer, stderr=writer) as process:
        os.close(writer)
        seen = b""
        try:
            while data := os.read(reader, 4096):
                seen += data
        except OSError:  # the other end is closed
            pass
        os.close(reader)
    return process.returncode, seen.replace(b"\r\n", b"\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said = "".join(f"\\{byte:03o}" for byte in b"".join(ATTACKS.values()) + b"\xff\n")
    body = f'int main() {{ std::fwrite("{said}", 1, sizeof("{said}") - 1, stdout); return 0; }}\n'
    (tmp_path / "prints.hip").write_text(HEAD + body)
    (tmp_path / "broken.hip").write_bytes(HEAD.encode() + b"#error " + ATTACKS["clear the screen"] + b"\n")
    (tmp_path / "flood.hip").write_text(HEAD + FLOOD)
    return tmp_path


def test_a_terminal_gets_escapes_and_a_pipe_the_bytes(folder: Path) -> None:
    code, seen = synth("run", "prints.hip", cwd=folder, terminal=True)
    assert code == 0 and not harmful(seen.decode()) and b"\\x1b[2J\\x1b[H" in seen and b"\\xff" in seen, seen
    assert synth("run", "prints.hip", cwd=folder, terminal=False) == (0, b"".join(ATTACKS.values()) + b"\xff\n")


@pytest.mark.parametrize("words", [("run", "broken.hip"), ("run", "\x1b[2J.hip"), ("survey", "\x1b]0;title\x07")])
def test_messages_and_names_are_harmless_on_a_terminal(words: tuple[str, ...], folder: Path) -> None:
    code, seen = synth(*words, cwd=folder, terminal=True)
    assert code == 3 and not harmful(seen.decode()) and b"1b" in seen.lower(), seen  # clang: <U+001B>


def test_cut_output_says_so(folder: Path) -> None:
    needs.compiler()
    command = [sys.executable, "-m", "hipsynth.cli.main", "run", "flood.hip", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    document = json.loads(done.stdout)
    assert document["output_cut"] and len(document["stdout"]) == 4 << 20
    assert "note: its output was cut after 4 MiB" in done.stderr
    code, seen = synth("run", "flood.hip", cwd=folder, terminal=False)
    assert (code, len(seen)) == (0, 80000 * 64), "on a pipe nothing is cut"


def test_a_cut_output_is_not_called_wrong_without_saying_so(folder: Path) -> None:
    needs.compiler()
    lines = tuple(f"{number:063d}" for number in range(80000))
    program = Program((folder / "flood.hip").read_text(), "synthetic", "flood", "flood", expected=Expected(lines))
    target = Target("gfx90a", "-O3", "mi250")
    cut = SimBackend().profile(program, target, folder / "a", RunLimits(output_bytes=1 << 20))
    assert (cut.reason, cut.provenance["output_cut"]) == ("wrong_result", "true") and "was cut" in cut.message
    whole = SimBackend().profile(program, target, folder / "b", RunLimits(output_bytes=8 << 20))
    assert (whole.reason, whole.provenance.get("output_cut"), whole.provenance["host_code"]) == ("", None, "generated")


def test_a_survey_says_that_output_was_cut() -> None:
    done = RunResult("ok", exit_code=1, stdout="FAILED\n", dispatch_count=1, output_cut=True)
    assert judge_run(done).message.endswith("(its output was cut)")
