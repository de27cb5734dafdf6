"""Attacks on the parser: programs that make libclang read files outside their own folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.source import parse_service
from hipsynth.source.config import frontend_config
from hipsynth.source.parse_service import ParserLost
from hipsynth.synth.frontend.augment import augment_programs
from hipsynth.synth.frontend.make_copies import AugmentInput
from hipsynth.synth.frontend.sandboxed_copies import AugmentRequest, vary_isolated
from hipsynth.toolchain.sandbox import bubblewrap

pytestmark = pytest.mark.usefixtures("sandboxed")
SECRET = "int the_secret_of_the_user = 2047110471;\n"
BODY = "__global__ void kernel(float* out) { out[threadIdx.x] = 1.0f; }\nint main() { return 0; }\n"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "secret.h"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


def everything(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_a_header_of_its_own_reaches_the_output(tmp_path: Path) -> None:
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    (programs / "own.h").write_text(SECRET)
    (programs / "spy.hip").write_text('#include <hip/hip_runtime.h>\n#include "own.h"\n' + BODY)
    summary = augment_programs(programs, out, frontend_config())
    assert summary.programs and not summary.failed and "2047110471" in everything(out)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", ["", "#include <hip/hip_runtime.h>\n"])
@pytest.mark.parametrize(
    "line",
    [
        '#include "{secret}"',
        "#include <{secret}>",
        '#include "../home/secret.h"',
        "#include <../home/secret.h>",
        '#include_next "{secret}"',
        '#import "{secret}"',
        '#define FILE_NAME "{secret}"\n#include FILE_NAME',
        'const char text[] = {{\n#embed "{secret}"\n}};',
        '__asm__(".incbin \\"{secret}\\"");',
    ],
)
def test_no_text_of_a_file_outside_reaches_the_output(line: str, first: str, secret: Path, tmp_path: Path) -> None:
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    text = first + line.format(secret=secret) + "\n#include <hip/hip_runtime.h>\n" + BODY
    (programs / "spy.hip").write_text(text)
    summary = augment_programs(programs, out, frontend_config())
    assert (summary.programs, summary.reasons) in [(1, {}), (0, {"missing_include": 1})]
    assert "2047110471" not in everything(out)


def test_a_header_that_links_outside_is_not_inlined(secret: Path, tmp_path: Path) -> None:
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    (programs / "own.h").symlink_to(secret)
    (programs / "spy.hip").write_text('#include <hip/hip_runtime.h>\n#include "own.h"\n' + BODY)
    summary = augment_programs(programs, out, frontend_config())
    assert summary.reasons == {"missing_include": 1} and "2047110471" not in everything(out)


def test_a_source_that_links_outside_is_refused(secret: Path, tmp_path: Path) -> None:
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    (programs / "spy.hip").symlink_to(secret)
    summary = augment_programs(programs, out, frontend_config())
    assert (summary.programs, summary.failed) == (0, 1) and "2047110471" not in everything(out)


def test_a_pipe_as_header_holds_nothing_up(tmp_path: Path) -> None:
    programs, out = tmp_path / "programs", tmp_path / "out"
    programs.mkdir()
    os.mkfifo(programs / "pipe.h")
    (programs / "spy.hip").write_text('#include <hip/hip_runtime.h>\n#include "pipe.h"\n' + BODY)
    summary = augment_programs(programs, out, frontend_config(), timeout=1.5)
    assert summary.failed and not summary.programs


def test_without_a_sandbox_nothing_is_parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spy.hip").write_text(BODY)
    monkeypatch.setattr(bubblewrap, "why_unavailable", lambda: "bwrap is not installed")
    monkeypatch.delenv("HIPSYNTH_SANDBOX", raising=False)
    with pytest.raises(MissingDependency, match="cannot be isolated"):
        augment_programs(tmp_path, tmp_path / "out", frontend_config())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b"{}",
        b'{"programs": [{"text": 1, "lineage": "", "derivation": []}], "failures": []}',
        b'{"programs": [{"text": "x", "lineage": "../../x", "derivation": []}], "failures": []}',
        b'{"programs": [], "failures": [["a", "b", 7]]}',
        b"[" * 100_000,
    ],
)
def test_a_parser_that_was_taken_over_cannot_break_the_tool(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "spy.hip"
    source.write_text(BODY)

    class Taken:
        def ask(self, _request: bytes) -> bytes:
            return answer

    monkeypatch.setattr(parse_service, "_process_for", lambda *_: Taken())
    with pytest.raises(ParserLost):
        vary_isolated(AugmentRequest(AugmentInput("spy", files=(source,), root=tmp_path), frontend_config()))
