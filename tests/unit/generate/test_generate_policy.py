"""Are templates' headers and the policy checked when they are loaded?"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

import jinja2
import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.synth.generate import producer
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.emit import template_environment
from hipsynth.synth.generate.families import builder_of
from hipsynth.synth.generate.headers import (
    TemplateError,
    constraint_holds,
    find_template,
    load_templates,
    parse_header,
    templates_dir,
)
from hipsynth.synth.generate.policy import PolicyError, default_policy, parse_policy
from hipsynth.synth.generate.reference import PAGE, render_page
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
    assert constraint_holds('a * b % 3 == 1 and not (s == "x" or a ** 2 < b)', {"a": 4, "b": 7, "s": "y"})


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        template_environment().from_string("{{ no_such_thing }}").render(module=None)


def test_every_family_has_template_builder_and_weight() -> None:
    assert len(load_templates()) >= 11
    assert set(default_policy().families) == set(load_templates())
    for family in load_templates():
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
        change("parameters/gemm/tiles_m", {"log": [1, 1024]}),
        change("parameters/gemm/tiles_m", {"log": [[1, 1024]]}),
        change("parameters/gemm/tiles_m", {"log": [[0, 1024, 1]]}),
        change("parameters/gemm/tiles_m", {"log": [[9, 1, 1]]}),
        change("parameters/gemm/tiles_m", {"log": [[1, 2048, 1]]}),
        change("parameters/gemm/tiles_m", {"log": [[1, 8, -1], [8, 16, 2]]}),
        change("parameters/gemm/tiles_m", {"log": [[1, 8, 0]]}),
        change("parameters/gemm/tiles_m", {"log": []}),
        change("parameters/gemm/tiles_m", {"log": [[1, 8, 1]], "bins": [[1, 8, 1]]}),
        change("style/restrict", 101),
        change("style/restrict", "often"),
        change("productions/float/add", -3),
        change("extra", {}),
    ],
)
def test_a_bad_policy_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(PolicyError):
        parse_policy(change_of(edit), load_templates())


def draws(family: str, count: int) -> list[dict[str, Any]]:
    template = find_template(family)
    return [default_policy().draw(template, Choices(Stream("policy", family, n)), {}) for n in range(count)]


def below(values: Sequence[int], bound: int) -> float:
    return sum(value < bound for value in values) / len(values)


def test_most_sizes_fill_a_device() -> None:
    """Four of five sizes are at least 2^22; inside a bin, each factor of two is equally frequent."""
    size = default_policy().parameters["stencil1d", "size"]
    values = [size.draw(Choices(Stream("sizes", n))) for n in range(4000)]
    assert below(values, 1 << 18) == pytest.approx(0.05, abs=0.02)
    assert below(values, 1 << 25) == pytest.approx(0.19 + 0.81 / 2, abs=0.04)
    assert below(values, 1 << 22) == pytest.approx(0.19, abs=0.03)
    assert 64 <= min(values) < 1024 and 1 << 27 < max(values) <= 1 << 28
    powers = [value for value in values if value & (value - 1) == 0]
    assert 0.3 < len(powers) / len(values) < 0.5 and below([value % 256 for value in values], 1) > 0.5
    assert sum(value % 2 for value in values) / len(values) > 0.08, "odd sizes too"


@pytest.mark.parametrize(
    ("family", "sides"),
    [
        ("stencil2d", ("width", "height")),
        ("matvec", ("rows", "columns")),
        ("row_norm", ("rows", "columns")),
        ("transpose", ("tiles_x", "tiles_y")),
        ("gemm", ("tiles_m", "tiles_n")),
        ("mfma", ("tiles_m", "tiles_n")),
    ],
)
def test_areas_are_large_and_of_every_shape(family: str, sides: tuple[str, str]) -> None:
    shapes = [(row[sides[0]], row[sides[1]]) for row in draws(family, 300)]
    unit = {"transpose": 32**2, "gemm": 16**2, "mfma": 16 * 64}.get(family, 1)  # typical elements per tile
    areas = sorted(unit * a * b for a, b in shapes)
    assert below(areas, 1 << 18) < 0.5 and areas[len(areas) // 2] >= 1 << 18
    assert below(areas, 1 << 18) > 0.01
    assert sum(a >= 16 * b for a, b in shapes) > 15 and sum(b >= 16 * a for a, b in shapes) > 15
    assert sum(a % 2 or b % 2 for a, b in shapes) > 30


def test_a_log_bin_keeps_its_limits() -> None:
    distribution = parse_policy(
        change_of(change("parameters/gemm/tiles_m", {"log": [[3, 5, 1], [700, 700, 1]]})), load_templates()
    ).parameters["gemm", "tiles_m"]
    values = [distribution.draw(Choices(Stream("bins", n))) for n in range(200)]
    assert set(values) == {3, 4, 5, 700}
    assert 0.35 < below(values, 10) < 0.65


def change_of(edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    data = copy.deepcopy(policy_data())
    edit(data)
    return data


def test_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        find_template("gem")
    assert "gemm" in caught.value.remedy


def test_unknown_override_is_refused() -> None:
    with pytest.raises(BadInput):
        default_policy().draw(find_template("gemm"), Choices(Stream("x")), {"colour": 1})


def test_reference_page_is_fresh() -> None:
    assert PAGE.read_text() == render_page(), "run: python -m hipsynth.synth.generate.reference"


def test_a_program_that_is_always_refused_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise IRError("always")

    monkeypatch.setattr(producer, "draw_program", refuse)
    with pytest.raises(BadInput, match="rejected") as caught:
        list(producer.generate_programs(1))
    assert "always" in caught.value.cause


def test_running_out_of_distinct_programs_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    only = producer.draw_program(0, 0)
    monkeypatch.setattr(producer, "draw_program", lambda *_: only)
    stream = producer.generate_programs(2)
    assert next(stream).id == only.id
    with pytest.raises(BadInput, match="duplicates"):
        next(stream)
