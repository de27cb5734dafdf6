"""The requests to a language model: problems x optimisation levels x temperatures, as chat messages from templates."""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.core.program import text_id

TEMPLATES = Path(__file__).parents[2] / "templates" / "llm"
PROBLEMS = "problems.toml"
ROLES = ("system", "user")  # one template each
OF_EXPRESSIONS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)  # which a template may raise


@dataclass(frozen=True)
class ProblemStatement:
    """A task that programs solve. Programs of one problem are relatives: `lineage` is a hash of its name and text."""

    name: str
    kind: str
    text: str
    size: str

    @property
    def lineage(self) -> str:
        return text_id(f"{self.name}\n{self.text}\n{self.size}")


@dataclass(frozen=True)
class Level:
    """An optimisation level to ask for."""

    name: str
    text: str


@dataclass(frozen=True)
class Prompts:
    """The content of a prompt folder: problems, levels, and one template for each role of the chat."""

    problems: tuple[ProblemStatement, ...]
    levels: tuple[Level, ...]
    templates: Mapping[str, jinja2.Template]

    def messages(self, problem: ProblemStatement, level: Level) -> list[dict[str, str]]:
        """The chat that asks for a program. Raises BadInput for a template that cannot be filled in."""
        try:
            texts = {role: self.templates[role].render(problem=problem, level=level).strip() for role in ROLES}
        except (jinja2.TemplateError, *OF_EXPRESSIONS) as error:
            raise BadInput(
                f"a prompt cannot be made: {error}", remedy="templates know `problem` and `level`"
            ) from error
        return [{"role": role, "content": text} for role, text in texts.items()]


@dataclass(frozen=True)
class ModelRequest:
    """One question to a model. `sample` counts repetitions from 0; `settings` are further parameters of the request."""

    problem: ProblemStatement
    level: Level
    temperature: float
    sample: int
    model: str
    messages: tuple[Mapping[str, str], ...]
    settings: Mapping[str, object]

    @property
    def body(self) -> dict[str, object]:
        """The JSON object that is sent."""
        fixed = {"model": self.model, "messages": list(self.messages), "temperature": self.temperature}
        return {**fixed, "stream": False, **self.settings}

    @property
    def key(self) -> str:
        """A hash of everything that is sent, and of `sample`."""
        text = json.dumps([self.body, self.sample], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def name(self) -> str:
        return f"{self.problem.name}-{self.level.name}-t{self.temperature:g}-{self.sample}"


def load_prompts(folder: Path = TEMPLATES) -> Prompts:
    """The prompts in a folder: problems.toml, system.j2, user.j2. Raises BadInput for what is missing or malformed."""
    try:
        table = tomllib.loads(read_regular(folder / PROBLEMS, SOURCE_BYTES).decode())
        problems = tuple(ProblemStatement(**row) for row in table["problem"])
        levels = tuple(Level(**row) for row in table["level"])
        sources = {role: read_regular(folder / f"{role}.j2", SOURCE_BYTES).decode() for role in ROLES}
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
        templates = {role: environment.from_string(text) for role, text in sources.items()}
    except (ValueError, KeyError, TypeError, jinja2.TemplateError) as error:
        remedy = f"compare it with {TEMPLATES}"
        raise BadInput(f"{folder}: its prompts cannot be used", cause=str(error), remedy=remedy) from error
    for names in ([problem.name for problem in problems], [level.name for level in levels]):
        if not names or len(set(names)) != len(names):
            raise BadInput(f"{folder / PROBLEMS}: problems and levels need one row or more, with names of their own")
    return Prompts(problems, levels, templates)


def choose_rows(
    prompts: Prompts, problems: Sequence[str], levels: Sequence[str]
) -> tuple[tuple[ProblemStatement, ...], tuple[Level, ...]]:
    """The rows with these names, or all if none is named. Raises UsageError for an unknown name, listing all."""
    for names_asked, rows, kind in ((problems, prompts.problems, "problem"), (levels, prompts.levels, "level")):
        names = {row.name for row in rows}
        unknown = [name for name in names_asked if name not in names]
        if unknown:
            raise UsageError(
                f"no {kind} called {unknown[0]!r}",
                cause=suggest_name(unknown[0], names),
                remedy=f"one of: {', '.join(sorted(names))}",
            )
    return (
        tuple(row for row in prompts.problems if row.name in problems or not problems),
        tuple(row for row in prompts.levels if row.name in levels or not levels),
    )


def plan_requests(
    prompts: Prompts,
    chosen: tuple[Sequence[ProblemStatement], Sequence[Level]],
    temperatures: Sequence[float],
    model: str,
    count: int | None = None,
    *,
    most_tokens: int = 0,
    seed: int | None = None,
) -> list[ModelRequest]:
    """The first `count` requests, by default each combination once. A larger count begins with those of a smaller one.

    `most_tokens` limits an answer (0: the server's limit). With `seed`, each request has a seed of its own.
    """
    problems, levels = chosen
    count = len(problems) * len(levels) * len(set(temperatures)) if count is None else count
    chats = {(p.name, v.name): tuple(prompts.messages(p, v)) for p in problems for v in levels}

    def every() -> Iterator[ModelRequest]:
        for sample in itertools.count():
            for temperature, level, problem in itertools.product(dict.fromkeys(temperatures), levels, problems):
                settings = {"max_tokens": most_tokens} if most_tokens else {}
                settings |= {"seed": seed + sample} if seed is not None else {}
                chat = chats[problem.name, level.name]
                yield ModelRequest(problem, level, temperature, sample, model, chat, settings)

    return list(itertools.islice(every(), count))
