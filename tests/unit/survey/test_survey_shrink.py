"""Smaller starts of a program: which numbers it takes, and what is proposed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation, SourceUnit
from hipsynth.profiling.survey.shrink import ATTEMPTS, Proposal, command_line, propose_smaller, with_defines
from hipsynth.profiling.survey.size_parameters import knobs_of
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.source.program_inputs import evaluate_number

POSITIONAL = """int main(int argc, char** argv) {
  int n = 1 << 20, iterations = 1000;
  if (argc > 1) n = atoi(argv[1]);
  if (argc > 2) iterations = std::stoi(argv[2]);
  int device = argc > 3 ? atoi(argv[3]) : 0;
}"""
TERNARY = "int main(int argc, char** argv) { const long size = argc > 1 ? strtol(argv[1], nullptr, 10) : 64 * 1024; }"
GETOPT = """int size = 8192, reps = 500;
int main(int argc, char** argv) {
  for (int c; (c = getopt(argc, argv, "n:r:vd:")) != -1;) switch (c) {
    case 'v': verbose = true; break;
    case 'n': size = atoi(optarg); break;
    case 'r': reps = atoi(optarg); break;
    case 'd': device_id = atoi(optarg); break;
  }
}"""
COMPARED = """int width = 4096;
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) if (!strcmp(argv[i], "--width")) width = atoi(argv[++i]);
}"""
DECLARED = (
    'void options(Parser& p) { p.optional<int>("i", "iterations", 300, "how often"); p.optional<int>("s", "seed", 9); }'
)
MACRO = "#ifndef N\n#define N (64 * 1024)\n#endif\n#ifndef BLOCK_SIZE\n#define BLOCK_SIZE 256\n#endif\nint main() {}"
USAGE = 'int main(int argc, char** argv) { if (argc < 3) printf("Usage: %s <n> <iterations>\\n", argv[0]); }'
MANY = (Spending("k", "k", "k()", 900, 1, 0, 899, 0, 500, 1.0, 1.0),)


def plan(folder: Path, text: str, defines: tuple[str, ...] = ()) -> BuildPlan:
    (folder / "main.hip").write_text(text)
    return BuildPlan("app", (SourceUnit(folder / "main.hip", defines=defines),), folder, "guess")


def found(
    folder: Path, text: str, call: Invocation | None = None, spending: tuple[Spending, ...] = ()
) -> list[Proposal]:
    """The proposals, which must be the same each time."""
    made = [list(propose_smaller(plan(folder, text), call or Invocation(), "", spending)) for _ in range(2)]
    assert made[0] == made[1] and len(made[0]) <= ATTEMPTS
    return made[0]


def words(given: list[Proposal]) -> list[str]:
    return [" ".join(one.call.arguments) for one in given]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1024", 1024), ("1 << 20", 1 << 20), ("(64*1024)", 65536), ("1e6", 10**6), ("4096UL", 4096), ("0x10", 16),
     ("n", 0), ("2 ** 99999999", 0), ("1 << 99999999999", 0), ("__import__('os')", 0), ("-5", 0), ("1.5f", 1),
     ("0xff", 255), ("010", 8), ("4096 / 2", 2048), ("1'024", 1024), ("(1 << 4) * (2)", 32), ("9" * 5000, 0)],
)  # fmt: skip
def test_constant_expressions(text: str, value: int) -> None:
    assert evaluate_number(text) == value


def test_positions(tmp_path: Path) -> None:
    assert words(found(tmp_path, POSITIONAL))[:3] == ["262144", "65536 250", "16384 100"]
    assert words(found(tmp_path, POSITIONAL, spending=MANY))[:3] == ["1048576 100", "262144 20", "65536 5"]
    assert words(found(tmp_path, TERNARY))[0] == "16384"


def test_options(tmp_path: Path) -> None:
    assert words(found(tmp_path, GETOPT))[:2] == ["-n 2048", "-r 125 -n 512"]
    assert words(found(tmp_path, GETOPT, spending=MANY))[:2] == ["-r 50", "-r 10 -n 2048"]
    assert words(found(tmp_path, COMPARED))[0] == "--width 1024"
    assert words(found(tmp_path, DECLARED, spending=MANY))[:2] == ["-i 30", "-i 6"]


def test_macros_only_if_nothing_can_be_given(tmp_path: Path) -> None:
    given = found(tmp_path, MACRO)
    assert given[0] == Proposal(Invocation(), ("N=16384",)) and given[1].defines == ("N=4096",)
    made = with_defines(plan(tmp_path, MACRO, ("N=9", "FAST")), given[0].defines)
    assert made.units[0].defines == ("FAST", "N=16384")


def test_usage_without_known_values(tmp_path: Path) -> None:
    assert words(found(tmp_path, USAGE))[:2] == ["1024 50", "256 25"]


def test_given_arguments_are_reduced_in_place(tmp_path: Path) -> None:
    call = Invocation(("in.txt", "--size=2048", "-r", "64", "2"))
    given = found(tmp_path, GETOPT, call)
    assert words(given)[0] == "in.txt --size=512 -r 64 2" and words(given)[1] == "in.txt --size=128 -r 16 2"


def test_a_program_without_numbers_has_no_proposal(tmp_path: Path) -> None:
    assert found(tmp_path, "int main() { run(512); }") == []


def test_the_command_names_what_a_user_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = plan(tmp_path, MACRO)
    text = command_line(tmp_path / "main.hip", made, tmp_path, Proposal(Invocation(("7", "a b")), ("N=64",)), 90)
    assert text == "synth profile main.hip --budget 90s -D N=64 -- 7 'a b'"


@pytest.mark.parametrize("text", ["case 'n':" * 20_000, "x = " * 50_000, '"-n" ' * 40_000, "usage: a" + " b" * 60_000])
def test_hostile_sources_take_no_time(text: str) -> None:
    begun = time.process_time()
    knobs_of([text], text[:20_000], (), ())
    assert time.process_time() - begun < 5
