"""Makes flattened and renamed copies of one program."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.synth.core.program import Program
from hipsynth.synth.frontend.parse import Diagnostic, ParseConfig, load_source, parse
from hipsynth.synth.frontend.passes.rename import rename
from hipsynth.synth.frontend.pipeline import run
from hipsynth.synth.frontend.source import Source


@dataclass(frozen=True)
class Item:
    """One base program to copy: a program with its record, or the files of one; `problem` says why it is unusable."""

    name: str  # shown to the user: a path below the input folder, or its id
    program: Program | None = None
    files: tuple[Path, ...] = ()  # the main file last
    root: Path | None = None
    problem: Diagnostic | None = None


@dataclass(frozen=True)
class Failure:
    """One copy that failed. `copy` is its number from 1, or 0 if the base program itself failed."""

    name: str
    copy: int
    reason: str
    message: str


@dataclass(frozen=True)
class Varied:
    """The copies made of one item, and the failures."""

    programs: tuple[Program, ...]
    failures: tuple[Failure, ...]


def copy_seed(seed: int, copy: int) -> int:
    """The 32-bit seed of one copy: a hash of run seed and copy number."""
    return int(hashlib.sha256(f"{seed}:{copy}".encode()).hexdigest()[:8], 16)


def vary(item: Item, copies: int, seed: int, config: ParseConfig) -> Varied:
    """Makes `copies` renamed copies of the flattened base program; includes the base if flattening changed it."""
    base, failure = _base(item, config)
    if base is None:
        return Varied((), (failure,) if failure else ())
    unit, problems = parse(base.text.encode(), config)
    if unit is None or not unit.has_kernel:
        problem = problems[0] if problems else Diagnostic("no_kernel", "the program defines no kernel")
        return Varied((), (Failure(item.name, 0, problem.reason, str(problem)),))
    programs = [base] if item.program is None and base.derivation else []
    failures = []
    for copy in range(1, copies + 1):
        number = copy_seed(seed, copy)
        text, _, problems = rename(unit, config, number)
        if text is None:
            failures.append(Failure(item.name, copy, problems[0].reason, str(problems[0])))
        elif text == unit.text:
            failures.append(Failure(item.name, copy, "unchanged", "there is nothing to rename"))
        else:
            derivation = (*base.derivation, f"rename:{number}")
            programs.append(replace(base, text=text.decode(), derivation=derivation, lineage=base.lineage or base.id))
    return Varied(tuple(programs), tuple(failures))


def _base(item: Item, config: ParseConfig) -> tuple[Program | None, Failure | None]:
    """The item as a self-contained program, or the failure that prevents it."""

    def failed(problem: Diagnostic) -> tuple[None, Failure]:
        return None, Failure(item.name, 0, problem.reason, str(problem))

    if item.problem is not None:
        return failed(item.problem)
    if item.program is not None:
        return item.program, None
    main, source = item.files[-1], b""
    for path in item.files:  # the main file is the last
        text, problems = load_source(path, item.root)
        if text is None:
            return failed(problems[0].in_file(path) if len(item.files) > 1 else problems[0])
        source = text
    outcome = run(Source(source, main, item.root, item.files), ["flatten"], config)
    if outcome.source is None:
        return failed(outcome.diagnostics[0])
    family = main.parent.name
    text = outcome.source.text
    return Program(text.decode(), "handwritten", family, main.stem, derivation=outcome.applied), None
