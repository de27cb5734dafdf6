"""How programs are started, according to the run lines of Makefiles and scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.profiling.survey.build_files.run_lines import MOST_ADDED, calls_of, expand_shell
from hipsynth.profiling.survey.build_plan import Invocation
from hipsynth.profiling.survey.discover import find_programs

MAIN = "#include <hip/hip_runtime.h>\nint main(int argc, char** argv) { return argc; }\n"


def calls(text: str, folder: Path) -> list[Invocation]:
    return [call for _, call in calls_of(text, folder, ["app"], folder)]


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("./app 7 8", ("7", "8")),
        ("build/bin/app -n 7 > log.txt 2>&1", ("-n", "7")),
        ("./app 100 2 > log.txt", ("100", "2")),
        ("HIP_VISIBLE_DEVICES=0 timeout 60 ./app 3 | tee log", ("3",)),
        ("mpirun -np 1 ./app --size=9 || exit 1", ("--size=9",)),
        ("cd data && ../app in.txt", ("data/in.txt",)),
    ],
)
def test_ways_to_start_a_program(line: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in.txt").write_text("1")
    assert [call.arguments for call in calls(line, tmp_path)] == [arguments]


@pytest.mark.parametrize(
    "line", ["echo ./app 1", "rm -f ./app", "hipcc app.hip -o ./app", "./app $(cat size)", "app 1"]
)
def test_lines_that_mention_but_do_not_start_a_program(line: str, tmp_path: Path) -> None:
    assert calls(line, tmp_path) == []


def test_loops_and_variables_are_expanded(tmp_path: Path) -> None:
    text = "SIZE=64\nREPEAT=${1:-10}\nfor k in {2..9}; do\n  ./app $SIZE ${REPEAT} $k\ndone\n"
    assert [call.arguments for call in calls(text, tmp_path)] == [("64", "10", k) for k in ("2", "3", "4")]
    assert expand_shell("for n in a b; do echo $n $m; done") == " echo a $m\n echo b $m"


def test_values_that_grow_without_end_are_not_written_out() -> None:
    doubled = "a=xx\n" + "a=$a$a\n" * 64
    assert len(expand_shell(doubled)) < MOST_ADDED + len(doubled)
    word = "x" * 900
    loop = f"for i in {word}; do\n{'$i ' * 4000}\ndone\n"
    assert expand_shell(loop).count(word) == MOST_ADDED // len(word)


def test_loops_without_an_end_take_linear_time() -> None:
    for text in ("for i in a; do\n" * 60_000, "for i in " + " " * 200_000 + "$", "for i in " * 20_000, "\n" * 200_000):
        assert expand_shell(text) == text


def test_absolute_paths_become_those_of_the_copy(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "data.txt").write_text("1")
    found = calls_of(f"{tmp_path}/x/app {tmp_path}/data.txt", tmp_path / "x", ["app"], tmp_path)
    assert [call.arguments for _, call in found] == [("../data.txt",)]


def test_commands_before_a_start(tmp_path: Path) -> None:
    text = "hipcc app.hip -o app\necho go\ngunzip -k in.gz\nsort in > in.sorted\n./app 5 < in.sorted\n"
    (call,) = calls(text, tmp_path)
    assert call.stdin == "in.sorted"
    assert call.before == (f"cd {tmp_path} && gunzip -k in.gz", f"cd {tmp_path} && sort in > in.sorted")


@pytest.mark.usefixtures("with_make")
def test_a_makefile_with_a_launcher_and_a_build_folder(tmp_path: Path) -> None:
    lines = ["EXE = build/app", "$(EXE): main.hip", "\thipcc $< -o $@", "run: $(EXE)", "\t$(LAUNCHER) $(EXE) 4 in.txt"]
    (tmp_path / "Makefile").write_text("\n".join(lines) + "\n")
    (tmp_path / "main.hip").write_text(MAIN)
    (program,) = find_programs(tmp_path, "gfx90a")
    assert program.plans[0].calls == (Invocation(("4", "in.txt")),)
