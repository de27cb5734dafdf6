"""Composed kernels: is every part drawn, with any other, and does the name tell the parts?"""

from __future__ import annotations

from collections import Counter

import pytest
from checked_oracle import CheckedLaunchOracle
from generated_samples import small

from hipsynth.synth.generate.build import build_module, replay_program
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.compose.access import ACCESSES
from hipsynth.synth.generate.compose.arithmetic import WORKS
from hipsynth.synth.generate.compose.control import CONTROLS
from hipsynth.synth.generate.compose.finish import FINISHES
from hipsynth.synth.generate.compose.launch import LAUNCHES
from hipsynth.synth.generate.compose.storage import STORAGES
from hipsynth.synth.generate.headers import find_template, template_of
from hipsynth.synth.generate.oracle import evaluate_module
from hipsynth.synth.generate.policy import default_policy
from hipsynth.synth.generate.producer import generate_programs

PARTS = {
    "launch": set(LAUNCHES),
    "access": set(ACCESSES),
    "storage": set(STORAGES),
    "control": set(CONTROLS),
    "finish": set(FINISHES),
    "work": {*WORKS, "chain", "matrix"},
}


def test_the_template_lists_every_part() -> None:
    choices = {p.name: set(p.choices) for p in find_template("compose").parameters}
    assert {name: choices[name] for name in PARTS} == PARTS


def test_every_part_is_drawn_with_many_others() -> None:
    template = find_template("compose")
    rows = [default_policy().draw(template, Choices(Stream("parts", n)), {}) for n in range(2500)]
    for name, parts in PARTS.items():
        counts = Counter(row[name] for row in rows)
        assert set(counts) == parts and min(counts.values()) >= 20, (name, counts)
    assert len({tuple(row[name] for name in PARTS) for row in rows}) > 2000


def test_hundreds_of_compositions_are_named_by_their_parts() -> None:
    programs = list(generate_programs(120, seed=6, family="compose"))
    assert len({p.family for p in programs}) > 80
    for program in programs:
        assert template_of(program.family) == "compose"
        shown = program.family.partition("/")[2].split("-")
        assert shown[0] == program.params["launch"]
        assert program.params["storage"] in ("direct", *shown)
    again = programs[0]
    assert replay_program(again.family, again.choices) == again


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(12))
def test_compositions_keep_ranges_and_have_no_race(seed: int) -> None:
    program, run = small("compose", 900 + seed)
    _, module = build_module(program.family, Choices(replay=program.choices), sizes=run.params)
    evaluate_module(module, CheckedLaunchOracle)
