"""`synth predict` of sources that are made to break it: a typed answer or refusal, within the limit of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hipsynth.synth.cli.main import main

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
