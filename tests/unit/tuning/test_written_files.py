"""The files that a program writes are compared like what it prints."""

from __future__ import annotations

import os
from pathlib import Path

from kernel_texts import TIMED

from hipsynth.simulator.observation import RECORD_FILE
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.trial import target_of
from hipsynth.tuning.trial.written_files import TEXT_BYTES, describe_written_files, list_file_states

PRINTS = 'printf("took %g ms, %d elements, last %d\\n", ms, n, last);'
WRITES = TIMED.replace("#include <cstdio>", "#include <cstdio>\n#include <sys/stat.h>").replace(
    PRINTS,
    """mkdir("out", 0755);
  FILE* log = fopen("out/log.csv", "w");
  fprintf(log, "elements,last,ms\\n%d,%d,%g\\n", n, last, ms);
  fclose(log);
  FILE* raw = fopen("result.bin", "wb");
  fwrite(&last, 4, 1, raw);
  fclose(raw);""",
)
assert "result.bin" in WRITES
FASTER = WRITES.replace("<<<n / 64, 64>>>", "<<<n / 256, 256>>>")


def test_a_changed_file_fails_and_a_measured_time_in_one_does_not() -> None:
    verifier = Verifier(WRITES, target_of("gfx942"), [()])
    assert verifier.quick(FASTER).passed is True
    for before, after in (
        ("n, last, ms", "n, last - 1, ms"),  # another number
        ("elements,last", "elements,first"),  # another word
        ("fwrite(&last, 4", "fwrite(&n, 4"),  # another binary file
        ('"result.bin"', '"other.bin"'),
    ):
        assert before in FASTER
        check = verifier.quick(FASTER.replace(before, after))
        assert check.passed is False and "it writes other files" in check.detail


def test_whatever_a_program_leaves_is_described(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("1 2 3")
    (tmp_path / "b.bin").write_bytes(b"1\0002")
    (tmp_path / "long.txt").write_text("7" * (TEXT_BYTES + 1))
    (tmp_path / RECORD_FILE).write_text("of the runtime library")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "circle").symlink_to("circle")
    text = describe_written_files(tmp_path)
    lines = dict(zip(text.splitlines()[::2], text.splitlines()[1::2], strict=True))
    assert lines["file sub/a.txt:"] == "1 2 3"
    for name in ("b.bin", "long.txt"):
        digest = lines[f"file {name}:"]
        assert len(digest) == 64 and digest.isalpha()
    assert lines["file link:"] == "outside" and lines["file pipe:"] and "root" not in text
    assert RECORD_FILE not in text and len(lines) == 6


def test_files_that_lay_there_before_are_left_out_unless_they_changed(tmp_path: Path) -> None:
    for name in ("input.txt", "log.txt", "__pycache__/module.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    earlier = list_file_states(tmp_path)
    (tmp_path / "log.txt").write_text("before, and after")
    (tmp_path / "new.txt").write_text("new")
    (tmp_path / "__pycache__/module.pyc").write_text("with other times")
    text = describe_written_files(tmp_path, earlier)
    assert text == "file log.txt:\nbefore, and after\nfile new.txt:\nnew\n"
