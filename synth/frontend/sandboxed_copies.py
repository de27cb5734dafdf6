"""Makes copies of untrusted programs in a sandbox, by questions to the parser's process of this worker.

Requests and answers are lines of JSON; what comes back is checked, because a program may have taken over the parser.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.source.parse import MAX_BYTES, Diagnostic, ParseConfig, prepare_preambles
from hipsynth.source.parse_protocol import absolute_config, absolute_paths
from hipsynth.source.parse_service import ParserSession
from hipsynth.synth.frontend.comments_and_strings import DEFAULT_TEXTS, Texts
from hipsynth.synth.frontend.copy_protocol import (
    CopiedText,
    CopyAnswer,
    CopyRequest,
    FlattenTask,
    ReformTask,
    RenameTask,
)
from hipsynth.synth.frontend.equivalence import same_code
from hipsynth.synth.frontend.make_copies import (
    AugmentInput,
    AugmentResult,
    CopyFailure,
    copy_seed,
    forget_output,
    with_base,
)
from hipsynth.synth.frontend.pass_input import BuildConfiguration

RENAME = "rename"
_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # how Python reads other bytes of a file's name
COPY_SERVER = "hipsynth.synth.frontend.copy_server"


@dataclass(frozen=True)
class CopyRecipe:
    """How programs are copied. `kinds`: the passes that make a copy; those other than RENAME count only where device
    code and host executable stay identical. `isolate`: programs are parsed in the sandbox."""

    copies: int = 1
    seed: int = 0
    texts: Texts = DEFAULT_TEXTS
    kinds: tuple[str, ...] = (RENAME,)
    isolate: bool = True


ONE_COPY = CopyRecipe()


@dataclass(frozen=True)
class AugmentRequest:
    """One item to vary. `generated`: folders of `config.include` that were made for this run, at any place."""

    item: AugmentInput
    config: ParseConfig
    recipe: CopyRecipe = ONE_COPY
    generated: tuple[Path, ...] = ()


def vary_isolated(request: AugmentRequest) -> AugmentResult:
    """The flattened base program and its renamed copies, made in a sandbox that sees the headers and the item's folder.

    Raises MissingDependency if programs cannot be isolated here, ParserLost if the parser crashes on this item.
    """
    item = request.item
    if problem := item.problem or _find_misnamed(item):
        return AugmentResult((), (CopyFailure(item.name, 0, problem.reason, str(problem)),))
    base: Program | CopyFailure | None = item.program
    if base is None:
        for text, folders in _item_texts(item):
            prepare_preambles(text, (*request.config.include, *folders), request.config)
        base = _ask_parser(request, _describe_files(item), _decode_base)
    if isinstance(base, CopyFailure):
        return AugmentResult((), (base,))
    prepare_preambles(base.text.encode(), request.config.include, request.config)
    return with_base(item, base, _vary_base(request, base))


def _find_misnamed(item: AugmentInput) -> Diagnostic | None:
    """A name of the item that the parser, which is asked in UTF-8, cannot be told."""
    paths = [item.root, *(path for build in item.build_configurations for path in build.files)]
    odd = next((name for name in (item.name, *map(str, paths)) if _NOT_UTF8.search(name)), None)
    return None if odd is None else Diagnostic(Reason.BAD_INPUT, f"the name {odd!a} is not UTF-8")


def _vary_base(request: AugmentRequest, base: Program) -> AugmentResult:
    """The copies of a base."""
    numbers = range(1, request.recipe.copies + 1)
    if request.recipe.kinds == (RENAME,):
        return _rename_copies(request, base, numbers)
    results = []
    for number in numbers:
        start = _reform_base(request, base, number)
        if RENAME in request.recipe.kinds:
            results.append(_rename_copies(request, start, [number]))
        elif start.text == base.text:
            nothing = CopyFailure(request.item.name, number, Reason.UNCHANGED, "there is nothing to change")
            results.append(AugmentResult((), (nothing,)))
        else:
            results.append(AugmentResult((start,), ()))
    programs = tuple(program for result in results for program in result.programs)
    failures = tuple(failure for result in results for failure in result.failures)
    reasons = {name: reason for result in results for name, reason in result.kept.items()}
    return AugmentResult(programs, failures, reasons, max((result.names for result in results), default=0))


def _rename_copies(request: AugmentRequest, base: Program, numbers: Iterable[int]) -> AugmentResult:
    task = RenameTask(_describe_text(base), tuple(numbers), request.recipe.seed, request.recipe.texts)
    result = _ask_parser(request, task, partial(_decode_copies, base))
    if not request.recipe.texts.changes_output:
        return result
    return replace(result, programs=tuple(map(forget_output, result.programs)))


SHARES = ("", ",0.2")  # of its sites that a pass changes, one after the other until the proof succeeds


def _reform_base(request: AugmentRequest, base: Program, number: int) -> Program:
    """The base after the other passes: all of them if the result is proven to be the same program, else those one by
    one for which it is."""
    kinds = [kind for kind in request.recipe.kinds if kind != RENAME]
    seed = copy_seed(request.recipe.seed, number)
    rewritten_base = _apply_passes(request, base, [f"{kind}:{seed}" for kind in kinds])
    if rewritten_base is not None and _is_same_program(base, rewritten_base, base):
        return rewritten_base
    rewritten = base
    for kind in kinds:
        for share in SHARES:
            attempt = _apply_passes(request, rewritten, [f"{kind}:{seed}{share}"])
            if attempt is not None and _is_same_program(base, attempt, rewritten):
                rewritten = attempt
                break
    return rewritten


def _is_same_program(base: Program, attempt: Program, proven: Program) -> bool:
    """Whether a program is proven to be the base, or is one that was."""
    return attempt.text == proven.text or same_code(base.text, attempt.text)


def _apply_passes(request: AugmentRequest, base: Program, steps: Sequence[str]) -> Program | None:
    """The program after passes; None if one of them leaves a text that does not parse."""
    task = ReformTask(_describe_text(base), tuple(steps))
    return next(iter(_ask_parser(request, task, partial(_decode_copies, base)).programs), None)


R = TypeVar("R")


def _ask_parser(
    request: AugmentRequest,
    task: FlattenTask | ReformTask | RenameTask,
    read: Callable[[AugmentInput, CopyAnswer], R],
) -> R:
    """Decodes the parser's answer by `read`; an invalid answer (ValueError and the like) ends the parser."""
    item = request.item
    root = item.root.absolute() if item.root else None
    session = ParserSession(COPY_SERVER, request.config, root, request.recipe.isolate)
    question = CopyRequest(absolute_config(request.config), item.name, task)
    return session.ask(item.name, question, lambda value: read(item, from_json(CopyAnswer, value)))


def _item_texts(item: AugmentInput) -> list[tuple[bytes, tuple[Path, ...]]]:
    """The texts of the item's files, with the folders whose headers are the program's own."""
    texts = []
    with contextlib.suppress(BadInput):
        for build in item.build_configurations:
            for number, path in enumerate(build.files):
                text = build.head(number) + read_regular(path, MAX_BYTES, inside=item.root)
                texts.append((text, (path.parent, *build.includes)))
    return texts


def _describe_files(item: AugmentInput) -> FlattenTask:
    builds = tuple(
        BuildConfiguration(
            absolute_paths(build.files),
            tuple(
                replace(row, includes=absolute_paths(row.includes), preludes=absolute_paths(row.preludes))
                for row in build.settings
            ),
        )
        for build in item.build_configurations
    )
    return FlattenTask(builds, item.root.absolute() if item.root else None)


def _describe_text(program: Program) -> CopiedText:
    return CopiedText(program.text, program.derivation)


# --- what the parser says, which may be anything ---------------------------------------------------------------------


def _decode_base(item: AugmentInput, answer: CopyAnswer) -> Program | CopyFailure:
    if answer.failures:
        return replace(answer.failures[0], name=item.name)
    (row,) = answer.programs
    main = item.build_configurations[-1].files[-1]
    return Program(row.text, "handwritten", main.parent.name, main.stem, derivation=row.derivation)


def _decode_copies(base: Program, item: AugmentInput, answer: CopyAnswer) -> AugmentResult:
    lineage = base.lineage or base.id
    programs = tuple(
        replace(base, text=row.text, derivation=row.derivation, lineage=lineage) for row in answer.programs
    )
    failures = tuple(replace(failure, name=item.name) for failure in answer.failures)
    return AugmentResult(programs, failures, answer.kept, answer.names)
