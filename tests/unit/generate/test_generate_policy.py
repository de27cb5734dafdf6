"""Are templates' headers and the policy checked when they are loaded?"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from typing import Any

import jinja2
import pytest

from hipsynth.synth.core.errors import BadInput, UsageError
from hipsynth.synth.generate import producer
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.emit import environment
from hipsynth.synth.generate.families import builder_of
from hipsynth.synth.generate.headers import TemplateError, find_template, holds, parse_header, templates, templates_dir
from hipsynth.synth.generate.policy import PolicyError, default_policy, parse_policy
from hipsynth.synth.generate.reference import PAGE, render
from hipsynth.synth.generate.types import IRError

HEADER = """+++
name = "x"
family = "x"
summary = "s"
launch = "1-D"
oracle = "ir"
tags = ["a"]
constraints = ["n <= 8"]
[parameters.n]
type = "int"
range = [1, 9]
default = 4
+++
body
"""


def test_a_good_header_is_read() -> None:
    template = parse_header("x/x.hip.j2", HEADER)
    assert template.parameters[0].default == 4
    assert template.check({"n": 9}) == "n <= 8"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+++\nname", "name"),
        ('name = "x"\n', ""),
        ('tags = ["a"]', 'tags = ["a"]\ncolour = 1'),
        ("default = 4", "default = 40"),
        ("default = 4", "default = 9"),
        ("default = 4", "default = true"),
        ("range = [1, 9]", "range = [1, 9]\nchoices = [1]"),
        ('type = "int"', 'type = "real"'),
        ("n <= 8", "m <= 8"),
        ("n <= 8", "__import__('os')"),
        ("n <= 8", "n <="),
        ('family = "x"', 'family = "y"'),
        ('name = "x"', "name ="),
    ],
)
def test_a_bad_header_is_refused(old: str, new: str) -> None:
    assert old in HEADER
    with pytest.raises(TemplateError):
        parse_header("x/x.hip.j2", HEADER.replace(old, new, 1))


def test_constraints_know_arithmetic_and_logic() -> None:
    assert holds('a * b % 3 == 1 and not (s == "x" or a ** 2 < b)', {"a": 4, "b": 7, "s": "y"})


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ no_such_thing }}").render(module=None)


def test_every_family_has_template_builder_and_weight() -> None:
    assert len(templates()) >= 11
    assert set(default_policy().families) == set(templates())
    for family in templates():
        assert callable(builder_of(family))


def policy_data() -> dict[str, Any]:
    return tomllib.loads((templates_dir() / "policy" / "default.toml").read_text())


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(data: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            data = data[name]
        data[last] = value

    return apply


@pytest.mark.parametrize(
    "edit",
    [
        change("families/nonsense", 1),
        change("families/paper", -1),
        change("parameters/nonsense", {}),
        change("parameters/paper/nonsense", {"values": [1], "weights": [1]}),
        change("parameters/paper/inputs", {"values": [99], "weights": [1]}),
        change("parameters/paper/inputs", {"values": [1, 2], "weights": [1]}),
        change("parameters/paper/inputs", {"values": [1], "weights": [0]}),
        change("parameters/paper/loads", {"bins": [[9, 1, 1]]}),
        change("parameters/paper/loads", {"bins": [[1, 2, 1]], "values": [1]}),
        change("style/restrict", 101),
        change("style/restrict", "often"),
        change("productions/float/add", -3),
        change("extra", {}),
    ],
)
def test_a_bad_policy_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    data = copy.deepcopy(policy_data())
    edit(data)
    with pytest.raises(PolicyError):
        parse_policy(data, templates())


def test_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        find_template("gem")
    assert "gemm" in caught.value.remedy


def test_unknown_override_is_refused() -> None:
    with pytest.raises(BadInput):
        default_policy().draw(find_template("gemm"), Choices(Stream("x")), {"colour": 1})


def test_reference_page_is_fresh() -> None:
    assert PAGE.read_text() == render(), "run: python -m hipsynth.synth.generate.reference"


def test_a_program_that_is_always_refused_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise IRError("always")

    monkeypatch.setattr(producer, "draw_program", refuse)
    with pytest.raises(BadInput, match="rejected") as caught:
        list(producer.generate(1))
    assert "always" in caught.value.cause


def test_running_out_of_distinct_programs_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    only = producer.draw_program(0, 0)
    monkeypatch.setattr(producer, "draw_program", lambda *_: only)
    stream = producer.generate(2)
    assert next(stream).id == only.id
    with pytest.raises(BadInput, match="duplicates"):
        next(stream)
