"""Template front matter: a family's description, its parameters, and the allowed combinations of their values.

A template begins with TOML between two `+++` lines: name, family, parameters (type, range or choices, default),
constraints (Python comparisons over parameters), launch, oracle, tags. An unknown key is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, MissingDependency, UsageError, suggest_name
from hipsynth.core.expressions import CONSTRAINT, FormulaError, compile_expression, parse_expression
from hipsynth.core.installation import set_up_by
from hipsynth.core.reasons import Reason

ParameterValue = int | str
ParameterValues = Mapping[str, ParameterValue]
TYPES: dict[str, type] = {"int": int, "str": str}


class TemplateError(BadInput):
    """A template's header or body is invalid."""

    reason = Reason.TEMPLATE


@dataclass(frozen=True)
class TemplateParameter:
    """One parameter: an int in [lo, hi], or one of `choices`."""

    name: str
    type: str
    lo: int
    hi: int
    choices: tuple[ParameterValue, ...]
    default: ParameterValue
    help: str
    size: bool = False  # a problem size, which the program takes as an argument

    def accepts(self, value: object) -> bool:
        """Whether the value has the declared type and lies in the declared range."""
        if type(value) is not TYPES[self.type]:
            return False
        return value in self.choices if self.choices else isinstance(value, int) and self.lo <= value <= self.hi


@dataclass(frozen=True)
class ParameterTable:
    """A parameter as the front matter states it: with a range or with choices."""

    type: Literal["int", "str"]
    default: ParameterValue
    range: tuple[int, int] | None = None
    choices: tuple[ParameterValue, ...] | None = None
    help: str = ""
    size: bool = False


@dataclass(frozen=True)
class FrontMatter:
    """The header of a template as it is written."""

    name: str
    family: str
    summary: str
    parameters: Mapping[str, ParameterTable]
    launch: str
    oracle: str
    tags: tuple[str, ...]
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True)
class FamilyTemplate:
    """A family's template: its path below templates/ and its header."""

    path: str
    family: str
    name: str
    summary: str
    parameters: tuple[TemplateParameter, ...]
    constraints: tuple[str, ...]
    launch: str
    oracle: str
    tags: tuple[str, ...]

    def check(self, params: ParameterValues) -> str:
        """The first constraint that `params` violate, or "" when all hold."""
        return next((c for c in self.constraints if not constraint_holds(c, params)), "")


def templates_dir() -> Path:
    """The templates folder of the repository. Raises MissingDependency outside a checkout."""
    folder = Path(__file__).parents[2] / "templates"
    if not folder.is_dir():
        raise MissingDependency(f"{folder}: no templates", remedy=set_up_by())
    return folder


@lru_cache(maxsize=1024)
def _compile_constraint(constraint: str) -> Callable[[ParameterValues], object]:
    return compile_expression(parse_expression(constraint, CONSTRAINT))


def constraint_holds(constraint: str, params: ParameterValues) -> bool:
    """Evaluates a constraint over parameters: integers, strings, arithmetic, comparisons, and/or/not.

    Raises TemplateError for anything else in it, for an unknown name, and where it has no value (a division by zero).
    """
    try:
        return bool(_compile_constraint(constraint)(params))
    except (FormulaError, TypeError, ArithmeticError, KeyError) as error:
        raise TemplateError(f"constraint {constraint!r} cannot be evaluated", cause=str(error)) from error


def parse_header(path: str, source: str) -> FamilyTemplate:
    """Parses and checks the header of a template file; raises TemplateError naming the first problem."""
    parts = source.split("+++\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise TemplateError(f"{path}: no front matter", remedy="begin the template with TOML between two +++ lines")
    try:
        header = from_json(FrontMatter, tomllib.loads(parts[1]))
    except tomllib.TOMLDecodeError as error:
        raise TemplateError(f"{path}: front matter is not TOML", cause=str(error)) from error
    except (TypeError, ValueError) as error:
        raise TemplateError(f"{path}: front matter lacks a key or has a wrong one", cause=str(error)) from error
    if header.family != Path(path).parent.name:
        raise TemplateError(f"{path}: family {header.family!r} differs from the folder's name")
    parameters = tuple(_parse_parameter(path, name, spec) for name, spec in header.parameters.items())
    template = FamilyTemplate(
        path, header.family, header.name, header.summary, parameters, header.constraints, header.launch, header.oracle,
        header.tags,
    )  # fmt: skip
    broken = template.check({p.name: p.default for p in parameters})
    if broken:
        raise TemplateError(f"{path}: the defaults violate {broken!r}")
    return template


def _parse_parameter(path: str, name: str, spec: ParameterTable) -> TemplateParameter:
    where = f"{path}: parameter {name}"
    if (spec.range is None) == (spec.choices is None):
        raise TemplateError(f"{where} needs either a range or choices")
    lo, hi = spec.range or (0, 0)
    parameter = TemplateParameter(name, spec.type, lo, hi, spec.choices or (), spec.default, spec.help, spec.size)
    if not parameter.accepts(parameter.default) or not all(type(c) is TYPES[parameter.type] for c in parameter.choices):
        raise TemplateError(f"{where}: default or choices do not fit its type and range")
    return parameter


@lru_cache(maxsize=1)
def load_templates() -> dict[str, FamilyTemplate]:
    """All templates by family name, in alphabetical order. Raises TemplateError for an invalid one."""
    root = templates_dir()
    templates = {}
    for file in sorted(root.glob("*/*.hip.j2")):
        if file.parent.name.startswith("_"):
            continue
        template = parse_header(file.relative_to(root).as_posix(), file.read_text())
        if template.family in templates:
            raise TemplateError(f"{file}: a second template of family {template.family}")
        templates[template.family] = template
    return templates


def template_of(family: str) -> str:
    """The template's family of a program's family, which may name a composition after a slash."""
    return family.partition("/")[0]


def find_template(family: str) -> FamilyTemplate:
    """The template of a family; raises UsageError listing all families if there is none."""
    templates = load_templates()
    if family not in templates:
        raise UsageError(
            f"unknown family {family!r}",
            cause=suggest_name(family, templates),
            remedy=f"one of: {', '.join(templates)}",
        )
    return templates[family]
