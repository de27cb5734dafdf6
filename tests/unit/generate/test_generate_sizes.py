"""Programs at other sizes: the same text up to its defaults, and what each run must print."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from generated_samples import drawn, small

from hipsynth.core.program import Expected, Program, ProgramRun, text_id
from hipsynth.source.arguments import run_text
from hipsynth.synth.generate import emit
from hipsynth.synth.generate.build import build_module
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.headers import find_template, load_templates
from hipsynth.synth.generate.oracle import expected_lines, is_affordable
from hipsynth.synth.generate.policy import PolicyError
from hipsynth.synth.generate.problem_sizes import expected_output, run_at, shrink_program, with_runs
from hipsynth.synth.generate.producer import generate_programs

FAMILIES = sorted(load_templates())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_program_is_offered_at_other_sizes(family: str) -> None:
    counts = []
    for program in itertools.islice(drawn(family), 6):
        runs = with_runs(program, 4).runs
        counts.append(len(runs))
        assert runs[0] == ProgramRun() and len({run.arguments for run in runs}) == len(runs)
        for run in runs[1:]:
            context, module = build_module(family, Choices(replay=program.choices), sizes=run.params)
            text = emit.render_program(find_template(family), module, dict(context.params))
            assert run_text(program.text, " ".join(run.arguments)) == text
    assert min(counts) > 1 and sum(counts) >= 21, "almost all programs have all four runs"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_expected_output_of_a_run(family: str) -> None:
    program, run = small(family)
    module = build_module(family, Choices(replay=program.choices), sizes=run.params)[1]
    found = expected_output(program, run)
    assert found == expected_lines(module) and found is not None and found.lines


def test_runs_do_not_depend_on_workers_or_on_how_many_are_wanted() -> None:
    one = [p.record() for p in generate_programs(20, seed=8, runs=3, workers=1)]
    assert one == [p.record() for p in generate_programs(20, seed=8, runs=3, workers=2)]
    assert [r["runs"][:2] for r in one] == [p.record()["runs"] for p in generate_programs(20, seed=8, runs=2)]
    assert [r["id"] for r in one] == [p.id for p in generate_programs(20, seed=8)]


def test_a_record_keeps_its_runs() -> None:
    program = with_runs(small("gather")[0], 3)
    assert len(program.runs) == 3
    again = Program.from_record(program.record(), program.text)
    assert again.runs == program.runs and again.record() == program.record()


def test_a_renamed_copy_prints_what_its_base_prints() -> None:
    program, run = small("gather")
    copy = replace(program, text=program.text.replace("table", "x"), lineage=program.id)
    assert copy.id != program.id and expected_output(copy, run) == expected_output(program, run) is not None


def unknown(program: Program, run: ProgramRun) -> dict[str, tuple[Program, ProgramRun]]:
    """Programs and runs whose output nobody can know."""
    first, *rest = program.choices
    large = {"size": 1 << 25, "table": 1 << 25}
    return {
        "foreign": (replace(program, origin="llm"), run),
        "handwritten": (replace(program, origin="handwritten", choices=()), run),
        "no choices": (replace(program, choices=()), run),
        "another version of the grammar": (replace(program, choices=(first + 1, *rest)), run),
        "choices too few": (replace(program, choices=program.choices[:-1]), run),
        "choices too many": (replace(program, choices=(*program.choices, 0)), run),
        "another text": (replace(program, text=program.text + "//\n"), run),
        "another lineage": (replace(program, lineage=text_id("x")), run),
        "a family that is gone": (replace(program, family="gone"), run),
        "other arguments": (program, replace(run, arguments=("7", "7"))),
        "arguments alone": (program, ProgramRun(("7", "7"))),
        "too large": (program, ProgramRun(tuple(map(str, large.values())), large)),
        "no size": (program, ProgramRun(run.arguments, {"block": 64})),
        "an impossible size": (program, ProgramRun(("-5", "64"), {"size": -5, "table": 64})),
    }


@pytest.mark.parametrize("case", list(unknown(*small("gather"))))
def test_what_is_not_known_is_not_expected(case: str) -> None:
    program, run = small("gather")
    assert expected_output(program, run) is not None
    assert expected_output(*unknown(program, run)[case]) is None


def test_a_large_run_is_refused_for_its_size_alone() -> None:
    program, run = small("gather")
    sizes = {**run.params, "size": 1 << 22}
    assert not is_affordable(build_module("gather", Choices(replay=program.choices), sizes=sizes)[1])
    assert is_affordable(build_module("gather", Choices(replay=program.choices), sizes=run.params)[1])


def test_sizes_that_a_family_does_not_allow() -> None:
    program, _ = small("atomics")
    assert run_at(program, {"size": 100, "cells": 101}) is None
    for sizes in ({"size": 100, "cells": 101}, {"size": 0}, {"block": 64}, {"colour": 1}):
        with pytest.raises(PolicyError, match="atomics"):
            build_module("atomics", Choices(replay=program.choices), sizes=sizes)


def test_expectation_of_a_program() -> None:
    base, run = small("gather")
    program = replace(base, oracle=expected_output)
    assert program.with_runs([run]).expectation() == expected_output(program, run)
    assert program.with_runs([run]).arguments == run.arguments
    assert base.with_runs([run]).expectation() is None
    known = replace(program, expected=Expected(("done",), 0.0))
    assert known.expectation() == known.expected, "a recorded expectation is that of the run without arguments"
    assert known.with_runs([run]).expectation() == expected_output(program, run)


def test_a_shrunk_program_is_the_same_code_with_smaller_defaults() -> None:
    program = with_runs(small("scan")[0], 4)
    one, two = shrink_program(program), shrink_program(program, 2)
    smallest = min(program.runs[1:], key=lambda run: run.params["size"])
    assert one.text == two.text == run_text(program.text, " ".join(smallest.arguments)) != program.text
    assert one.runs == (ProgramRun(),) and len(two.runs) == 2 and two.runs[1].params["size"] > smallest.params["size"]
    assert expected_output(one, ProgramRun()) is None, "its output is not known"
    assert shrink_program(small("scan")[0]) == small("scan")[0], "it has no other run"
