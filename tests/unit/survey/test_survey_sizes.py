"""Other sizes of surveyed programs: arguments, options of several parsers, constants of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation, SourceUnit
from hipsynth.profiling.survey.further_sizes import (
    MOST_BY_ARGUMENT,
    MOST_BY_CONSTANT,
    other_sizes,
    scale_size,
)
from hipsynth.profiling.survey.size_parameters import knobs_of
from hipsynth.source.includes import guards_itself
from hipsynth.source.program_inputs import macro_inputs, size_constants

POSITIONAL = "int main(int argc, char** argv) { int n = argc > 1 ? atoi(argv[1]) : 4096; run(n); }\n"
CONSTANT = """
#define WIDTH 512
constexpr unsigned int size = 1 << 20;  // elements
const int BLOCK_SIZE = 256;
int main() { const size_t n{2048}; int seed = 4711; run(WIDTH, size, n); }
"""


def plan(folder: Path, text: str) -> BuildPlan:
    (folder / "p.hip").write_text(text)
    return BuildPlan("p", (SourceUnit(folder / "p.hip"),), folder, "guess")


def test_arguments_vary_without_a_build(tmp_path: Path) -> None:
    sizes = list(other_sizes(plan(tmp_path, POSITIONAL), Invocation(), ""))
    numbers = [int(size.call.arguments[0]) for size in sizes]
    assert numbers[:3] == [2048, 1024, 512] and 8192 in numbers and 3072 in numbers
    assert len(set(numbers)) == len(numbers) <= MOST_BY_ARGUMENT
    assert all(size.plan is None and not size.change for size in sizes)
    assert sizes == list(other_sizes(plan(tmp_path, POSITIONAL), Invocation(), ""))


def test_iterations_stay(tmp_path: Path) -> None:
    text = "int main(int argc, char** argv) { int iterations = atoi(argv[2]); int n = atoi(argv[1]); }\n"
    sizes = list(other_sizes(plan(tmp_path, text), Invocation(("1024", "50")), ""))
    assert {size.call.arguments[1] for size in sizes} == {"50"} and len({size.call for size in sizes}) > 5


def test_several_sizes_vary_together_and_one_at_a_time(tmp_path: Path) -> None:
    sizes = list(other_sizes(plan(tmp_path, "int main() {}"), Invocation(("512", "1024")), ""))
    pairs = [size.call.arguments for size in sizes]
    assert ("256", "512") in pairs and ("128", "1024") in pairs and ("512", "2048") in pairs


def test_constants_of_the_sources_vary_with_a_build(tmp_path: Path) -> None:
    own = plan(tmp_path, CONSTANT)
    sizes = list(other_sizes(own, Invocation(), ""))
    assert 0 < len(sizes) <= MOST_BY_CONSTANT
    first = sizes[0]
    assert first.change == "WIDTH=256, size=524288, n=1024" and first.call == Invocation()
    assert first.plan is not None and first.plan.units[0].includes[0] == tmp_path
    text = dict(first.plan.written)[tmp_path / "p.hip"]
    assert "#define WIDTH 256" in text and "size = 524288;" in text and "n{1024}" in text
    assert "BLOCK_SIZE = 256" in text and "seed = 4711" in text
    assert (tmp_path / "p.hip").read_text() == CONSTANT


def test_numbers_are_read_whatever_ends_a_line() -> None:
    text = "#ifndef SIZE\n#define SIZE 1024\n#endif\n#define COUNT 2048 // items\n#define WIDTH 512\n"
    windows = text.replace("\n", "\r\n")
    assert macro_inputs(windows, 32) == macro_inputs(text, 32) != []
    assert [constant.value for constant in size_constants(windows)] == [1024, 2048, 512]
    assert guards_itself(b"#ifndef A_H\r\n#define A_H\r\nint a;\r\n#endif\r\n")


def test_what_is_no_size_stays() -> None:
    text = "#define MASK 255\nint threads = 256;\nconst int num_bins = 256;\nint n = 16;\nint count = read();\n"
    assert size_constants(text) == []
    (rows,) = size_constants("static const long rows = 4 * 1024, columns = 100'000;")
    assert (rows.name, rows.value) == ("rows", 4096)


@pytest.mark.parametrize(
    ("value", "factor", "wanted"), [(1024, 1 / 2, 512), (1000, 1 / 8, 125), (48, 1 / 2, 16), (3, 1 / 1024, 2)]
)
def test_sizes_stay_usable(value: int, factor: float, wanted: int) -> None:
    assert scale_size(value, factor) == wanted


def test_an_exponent_moves_by_steps(tmp_path: Path) -> None:
    text = 'void parse(P& p) { p.set("l", "log2length", 15); }\n'
    words = [size.call.arguments for size in other_sizes(plan(tmp_path, text), Invocation(), "")]
    assert words[0] == ("-l", "14") and all(7 <= int(value) <= 18 for _, value in words)


@pytest.mark.parametrize(
    ("code", "usage", "place", "value"),
    [
        ('int n = parse(argc, argv, "--size", 256);', "", "--size", 256),
        ('parser.set_optional<unsigned int>("A_rows", "A_rows", 2048, "rows");', "", "-A_rows", 2048),
        ('parser.set_optional("n", "size", 256)', "", "-n", 256),
        ("", "  -x, --width0\twidth of matrix A\n  -e, --verify\tcompare\n", "-x", 0),
        ("", "  --length  Length of the array\n", "--length", 0),
    ],
)
def test_options_of_other_parsers(code: str, usage: str, place: str, value: int) -> None:
    found = knobs_of([code], usage, (), ())
    assert [(knob.kind, knob.place, knob.value) for knob in found] == [("option", place, value)]


def test_options_of_a_help_text() -> None:
    usage = "  -n, --length  elements\n\t--rows=N number of rows\n -c|-cols columns\n" + " " * 20_000 + "x\n"
    knobs = knobs_of([], usage, (), ())
    assert [(knob.kind, knob.place) for knob in knobs] == [("option", "-n"), ("option", "--rows"), ("option", "-c")]
