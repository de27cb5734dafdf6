"""Makes flattened and renamed copies of one program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.program import Program
from hipsynth.source.encoding import to_utf8
from hipsynth.source.parse import Diagnostic, ParseConfig, Unit, load_source, parse
from hipsynth.synth.frontend.passes.rename import rename
from hipsynth.synth.frontend.pipeline import run
from hipsynth.synth.frontend.source import Build, Source
from hipsynth.synth.frontend.texts import DEFAULT_TEXTS, Texts

DEFAULT_STANDARDS = ("", "c++17", "gnu++17")


@dataclass(frozen=True)
class Item:
    """One base program to copy: a program with its record, or the files of one; `problem` says why it is unusable."""

    name: str  # shown to the user: a path below the input folder, or its id
    program: Program | None = None
    files: tuple[Path, ...] = ()  # the main file last
    root: Path | None = None
    problem: Diagnostic | None = None
    builds: tuple[Build, ...] = ()  # ways to build it, most likely first, if build files or options give any

    @property
    def ways(self) -> tuple[Build, ...]:
        """The ways to build it: at least one if it consists of files."""
        return self.builds or ((Build(self.files),) if self.files else ())


@dataclass(frozen=True)
class Failure:
    """One copy that failed. `copy` is its number from 1, or 0 if the base program itself failed."""

    name: str
    copy: int
    reason: str
    message: str


@dataclass(frozen=True)
class Varied:
    """The copies made of one item, and the failures; of the `names` that the base declares, those in `kept` (name ->
    reason) are the same in all its copies."""

    programs: tuple[Program, ...]
    failures: tuple[Failure, ...]
    kept: Mapping[str, str] = field(default_factory=dict)
    names: int = 0


def copy_seed(seed: int, copy: int) -> int:
    """The 32-bit seed of one copy: a hash of run seed and copy number."""
    return int(hashlib.sha256(f"{seed}:{copy}".encode()).hexdigest()[:8], 16)


def vary(item: Item, copies: int, seed: int, config: ParseConfig, texts: Texts = DEFAULT_TEXTS) -> Varied:
    """Makes `copies` renamed copies of the flattened base program; includes the base if flattening changed it."""
    base = self_contained(item, config)
    if isinstance(base, Failure):
        return Varied((), (base,))
    return with_base(item, base, renamed(item.name, base, range(1, copies + 1), seed, config, texts))


def with_base(item: Item, base: Program, made: Varied) -> Varied:
    """The copies preceded by their base, if flattening made it and it is usable."""
    usable = not any(failure.copy == 0 for failure in made.failures)
    shown = item.program is None and base.derivation and usable
    return replace(made, programs=(base, *made.programs)) if shown else made


def renamed(
    name: str, base: Program, numbers: Iterable[int], seed: int, config: ParseConfig, texts: Texts = DEFAULT_TEXTS
) -> Varied:
    """Renamed copies, with these numbers, of a self-contained program; failure number 0 is one of the base itself."""
    unit, problems = parse(base.text.encode(), config)
    if unit is None or not unit.has_kernel:
        problem = problems[0] if problems else Diagnostic("no_kernel", "the program defines no kernel")
        return Varied((), (Failure(name, 0, problem.reason, str(problem)),))
    programs: list[Program] = []
    failures: list[Failure] = []
    kept: dict[str, str] = {}
    names = 0
    for copy in numbers:
        number = copy_seed(seed, copy)
        text, renaming, problems = rename(unit, config, number, texts)
        if text is None or renaming is None:
            failures.append(Failure(name, copy, problems[0].reason, str(problems[0])))
        elif text == unit.text:
            failures.append(Failure(name, copy, "unchanged", "there is nothing to rename"))
        else:
            derivation = (*base.derivation, f"rename:{number}{texts.words}")
            programs.append(replace(base, text=text.decode(), derivation=derivation, lineage=base.lineage or base.id))
        if renaming is not None:
            kept, names = {**renaming.kept, **kept}, len(renaming.names.keys() | renaming.kept.keys())
    return Varied(tuple(programs), tuple(failures), dict(sorted(kept.items())), names)


# --- one self-contained program of several files, in one of the ways to build it --------------------------------------


def self_contained(item: Item, config: ParseConfig) -> Program | Failure:
    """The item as a self-contained program, in the first way to build it that defines all that it declares, else in
    the first that compiles; or the failure of the first way."""
    if item.problem is not None:
        return _failure(item, item.problem)
    if item.program is not None:
        return item.program
    first: Program | Failure | None = None
    for build in item.ways:
        made = _flattened(item, build, replace(config, include=(*config.include, *build.includes)))
        if isinstance(made, Program) and (len(item.ways) == 1 or not _lacks_definitions(made, config)):
            return made
        if first is None or (isinstance(first, Failure) and isinstance(made, Program)):
            first = made
    return first or _failure(item, Diagnostic("no_programs", "the program has no files"))


def _flattened(item: Item, build: Build, config: ParseConfig) -> Program | Failure:
    main, source = build.files[-1], b""
    for path in build.files:
        text, problems = load_source(path, item.root)
        if text is None:
            return _failure(item, problems[0].in_file(path) if len(build.files) > 1 else problems[0])
        source = text
    outcome = run(Source(source, main, item.root, build), ["flatten"], config)
    if outcome.source is None:
        return _failure(item, _explained(outcome.diagnostics, build))
    text = to_utf8(outcome.source.text)
    steps = outcome.applied if text == outcome.source.text else (*outcome.applied, "utf8")
    return Program(text.decode(), "handwritten", main.parent.name, main.stem, derivation=steps)


def _explained(problems: Sequence[Diagnostic], build: Build) -> Diagnostic:
    """The first diagnostic; if the program is built with another language standard, that may be why."""
    standards = sorted({one.standard for one in build.settings} - set(DEFAULT_STANDARDS))
    if problems[0].reason != "syntax_error" or not standards:
        return problems[0]
    message = f"it is built with -std={standards[0]}, which a file cannot ask for: {problems[0].message}"
    return replace(problems[0], reason="needs_standard", message=message)


def _lacks_definitions(program: Program, config: ParseConfig) -> bool:
    """Whether the program declares a function or variable that it does not define."""
    unit, _ = parse(program.text.encode(), config)
    return unit is None or _declares_only(unit)


def _declares_only(unit: Unit) -> bool:
    return any(e.user and e.external and e.pinned for entities in unit.referents for e in entities)


def _failure(item: Item, problem: Diagnostic) -> Failure:
    return Failure(item.name, 0, problem.reason, str(problem))
