"""Does `synth generate` write a complete, resumable folder, with clear errors?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.cli.main import main
from hipsynth.core.errors import BadInput
from hipsynth.core.program import Program, iter_programs
from hipsynth.synth.generate import writer
from hipsynth.synth.generate.writer import generate_into


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["generate", *arguments])
    return int(caught.value.code or 0)


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_writes_programs_and_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--count", "6", "--out", str(tmp_path), "--seed", "2", "--workers", "1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["count"] == 6
    assert sum(document["families"].values()) == 6
    programs = list(iter_programs(tmp_path))
    assert len(programs) == 6
    for program in programs:
        assert program.origin == "synthetic"
        assert program.expected is None, "what a run prints is computed when it is first needed"
        assert len(program.runs) > 1 and all(run.arguments for run in program.runs[1:])
        assert program.record()["lineage"] == program.id
    assert not list(tmp_path.glob("*.partial")) + list(tmp_path.glob("*.tmp"))


def test_an_interrupted_run_resumes_with_the_same_result(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    generate_into(whole, 8, seed=4)

    class Stop(Exception):
        pass

    def stop(program: Program, seen: list[str] = []) -> None:  # noqa: B006
        seen.append(program.id)
        if len(seen) == 3:
            raise Stop

    with pytest.raises(Stop):
        generate_into(cut, 8, seed=4, on_program=stop)
    partial = cut / writer.PARTIAL
    assert not (cut / "programs.jsonl").exists()
    partial.write_text(partial.read_text() + '{"id": "half a li')  # the line being written when the power went
    assert generate_into(cut, 8, seed=4).reused == 3
    assert content(cut) == content(whole)


def test_a_run_that_was_killed_before_its_index_is_completed(tmp_path: Path) -> None:
    generate_into(tmp_path, 4, seed=1)
    before = content(tmp_path)
    (tmp_path / writer.INDEX).rename(tmp_path / writer.PARTIAL)  # every program is there, the index has no name yet
    assert generate_into(tmp_path, 4, seed=1).reused == 4
    assert content(tmp_path) == before


def test_same_command_again_changes_nothing(tmp_path: Path) -> None:
    generate_into(tmp_path, 4, seed=1)
    before = content(tmp_path)
    assert generate_into(tmp_path, 4, seed=1).reused == 4
    assert content(tmp_path) == before


def test_more_programs_extend_a_folder(tmp_path: Path) -> None:
    generate_into(tmp_path / "a", 3, seed=1)
    assert generate_into(tmp_path / "a", 6, seed=1).reused == 3
    generate_into(tmp_path / "b", 6, seed=1)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_one_family_only(tmp_path: Path) -> None:
    assert generate_into(tmp_path, 3, family="gemm").families == {"gemm": 3}


def test_an_edited_program_is_made_again(tmp_path: Path) -> None:
    generate_into(tmp_path, 3, seed=5)
    before = content(tmp_path)
    victim = next(tmp_path.glob("*.hip"))
    victim.write_text("// gone\n")
    generate_into(tmp_path, 3, seed=5)
    assert content(tmp_path) == before


def test_unknown_family_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--count", "1", "--out", str(tmp_path), "--family", "gem") == 2
    assert "gemm" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", ["0", "65", "x", "-1", "1.5"])
def test_a_bad_number_of_sizes_is_a_usage_error(tmp_path: Path, sizes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--count", "1", "--out", str(tmp_path / "o"), "--sizes", sizes) == 2
    assert "--sizes" in capsys.readouterr().err and not (tmp_path / "o").exists()


def test_the_number_of_sizes(tmp_path: Path) -> None:
    for sizes in (1, 3):
        arguments = ["--count", "3", "--out", str(tmp_path / str(sizes)), "--sizes", str(sizes), "--family", "scan"]
        assert run(*arguments, "--workers", "1") == 0
    one, three = (list(iter_programs(tmp_path / name)) for name in ("1", "3"))
    assert [len(program.runs) for program in one] == [1] * 3 and max(len(program.runs) for program in three) == 3
    assert [program.id for program in one] == [program.id for program in three]
    with pytest.raises(BadInput, match="another run") as caught:
        generate_into(tmp_path / "3", 3, family="scan", runs=2)
    assert "number of sizes" in caught.value.cause


def test_bad_count_is_a_usage_error(tmp_path: Path) -> None:
    assert run("--count", "0", "--out", str(tmp_path)) == 2


def test_another_seed_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    generate_into(tmp_path, 2, seed=1)
    with pytest.raises(BadInput, match="another run"):
        generate_into(tmp_path, 2, seed=2)


def test_a_count_below_the_existing_programs_is_rejected(tmp_path: Path) -> None:
    generate_into(tmp_path, 3, seed=1)
    with pytest.raises(BadInput, match="more than"):
        generate_into(tmp_path, 2, seed=1)


def test_a_file_in_the_way_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("")
    assert run("--count", "1", "--out", str(tmp_path / "x" / "y"), "--workers", "1") == 3
    assert "Traceback" not in capsys.readouterr().err
