"""Makes flattened and renamed copies of one program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.source.encoding import to_utf8
from hipsynth.source.parse import Diagnostic, ParseConfig, ParsedUnit, load_source, parse_source
from hipsynth.synth.frontend.comments_and_strings import DEFAULT_TEXTS, Texts
from hipsynth.synth.frontend.pass_input import BuildConfiguration, ProgramSource
from hipsynth.synth.frontend.passes.rename import rename_unit
from hipsynth.synth.frontend.pipeline import run_steps

DEFAULT_STANDARDS = ("", "c++17", "gnu++17")


@dataclass(frozen=True)
class AugmentInput:
    """One base program to copy: a program with its record, or the files of one; `problem` says why it is unusable."""

    name: str  # shown to the user: a path below the input folder, or its id
    program: Program | None = None
    files: tuple[Path, ...] = ()  # the main file last
    root: Path | None = None
    problem: Diagnostic | None = None
    builds: tuple[
        BuildConfiguration, ...
    ] = ()  # ways to build it, most likely first, if build files or options give any

    @property
    def build_configurations(self) -> tuple[BuildConfiguration, ...]:
        """The ways to build it: at least one if it consists of files."""
        return self.builds or ((BuildConfiguration(self.files),) if self.files else ())


@dataclass(frozen=True)
class CopyFailure:
    """One copy that failed. `copy` is its number from 1, or 0 if the base program itself failed."""

    name: str
    copy: int
    reason: str
    message: str


@dataclass(frozen=True)
class AugmentResult:
    """The copies made of one item, and the failures; of the `names` that the base declares, those in `kept` (name ->
    reason) are the same in all its copies."""

    programs: tuple[Program, ...]
    failures: tuple[CopyFailure, ...]
    kept: Mapping[str, str] = field(default_factory=dict)
    names: int = 0


def copy_seed(seed: int, copy: int) -> int:
    """The 32-bit seed of one copy: a hash of run seed and copy number."""
    return int(hashlib.sha256(f"{seed}:{copy}".encode()).hexdigest()[:8], 16)


def with_base(item: AugmentInput, base: Program, result: AugmentResult) -> AugmentResult:
    """The copies preceded by their base, if flattening made it and it is usable."""
    usable = not any(failure.copy == 0 for failure in result.failures)
    is_shown = item.program is None and base.derivation and usable
    return replace(result, programs=(base, *result.programs)) if is_shown else result


def forget_output(program: Program) -> Program:
    """The program without what it must print: where its texts are others, no output is known to be right."""
    return replace(program, expected=None, choices=())


def rename_copies(
    name: str, base: Program, numbers: Iterable[int], seed: int, config: ParseConfig, texts: Texts = DEFAULT_TEXTS
) -> AugmentResult:
    """Renamed copies, with these numbers, of a self-contained program; failure number 0 is one of the base itself."""
    unit, problems = parse_source(base.text.encode(), config)
    if unit is None or not unit.has_kernel:
        problem = problems[0] if problems else Diagnostic(Reason.NO_KERNEL, "the program defines no kernel")
        return AugmentResult((), (CopyFailure(name, 0, problem.reason, str(problem)),))
    programs: list[Program] = []
    failures: list[CopyFailure] = []
    kept_names: dict[str, str] = {}
    names = 0
    for copy in numbers:
        number = copy_seed(seed, copy)
        text, renaming, problems = rename_unit(unit, config, number, texts)
        if text is None or renaming is None:
            failures.append(CopyFailure(name, copy, problems[0].reason, str(problems[0])))
        elif text == unit.text:
            failures.append(CopyFailure(name, copy, Reason.UNCHANGED, "there is nothing to rename"))
        else:
            derivation = (*base.derivation, f"rename:{number}{texts.words}")
            copied = replace(base, text=text.decode(), derivation=derivation, lineage=base.lineage or base.id)
            programs.append(forget_output(copied) if texts.changes_output else copied)
        if renaming is not None:
            kept_names, names = {**renaming.kept, **kept_names}, len(renaming.names.keys() | renaming.kept.keys())
    return AugmentResult(tuple(programs), tuple(failures), dict(sorted(kept_names.items())), names)


# --- one self-contained program of several files, in one of the ways to build it --------------------------------------


def self_contained(item: AugmentInput, config: ParseConfig) -> Program | CopyFailure:
    """The item as a self-contained program, in the first way to build it that defines all that it declares; else what
    the first way gave, maybe a failure: one that compiles later on may lack a part of the program."""
    if item.problem is not None:
        return _base_failure(item, item.problem)
    if item.program is not None:
        return item.program
    first: Program | CopyFailure | None = None
    for build in item.build_configurations:
        flattened = _flatten_base(item, build, replace(config, include=(*config.include, *build.includes)))
        if isinstance(flattened, Program) and (
            len(item.build_configurations) == 1 or not _lacks_definitions(flattened, config)
        ):
            return flattened
        first = first or flattened
    return first or _base_failure(item, Diagnostic(Reason.NO_PROGRAMS, "the program has no files"))


def _flatten_base(item: AugmentInput, build: BuildConfiguration, config: ParseConfig) -> Program | CopyFailure:
    main, source = build.files[-1], b""
    for path in build.files:
        text, problems = load_source(path, item.root)
        if text is None:
            return _base_failure(item, problems[0].in_file(path) if len(build.files) > 1 else problems[0])
        source = text
    outcome = run_steps(ProgramSource(source, main, item.root, build), ["flatten"], config)
    if outcome.source is None:
        return _base_failure(item, _explain_diagnostic(outcome.diagnostics, build))
    text = to_utf8(outcome.source.text)
    steps = outcome.applied if text == outcome.source.text else (*outcome.applied, "utf8")
    return Program(text.decode(), "handwritten", main.parent.name, main.stem, derivation=steps)


def _explain_diagnostic(problems: Sequence[Diagnostic], build: BuildConfiguration) -> Diagnostic:
    """The first diagnostic; if the program is built with another language standard, that may be why."""
    standards = sorted({setting.standard for setting in build.settings} - set(DEFAULT_STANDARDS))
    if problems[0].reason != Reason.SYNTAX_ERROR or not standards:
        return problems[0]
    message = f"it is built with -std={standards[0]}, which a file cannot ask for: {problems[0].message}"
    return replace(problems[0], reason=Reason.NEEDS_STANDARD, message=message)


def _lacks_definitions(program: Program, config: ParseConfig) -> bool:
    """Whether the program declares a function or variable that it does not define."""
    unit, _ = parse_source(program.text.encode(), config)
    return unit is None or _declares_only(unit)


def _declares_only(unit: ParsedUnit) -> bool:
    return any(e.user and e.external and e.pinned for entities in unit.referents for e in entities)


def _base_failure(item: AugmentInput, problem: Diagnostic) -> CopyFailure:
    return CopyFailure(item.name, 0, problem.reason, str(problem))
