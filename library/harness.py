"""HIP files as programs that can be changed and compared: their own headers written in, a main() for kernels without
one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.library.programs import read_nonempty, read_source

if TYPE_CHECKING:
    from hipsynth.profiling.backends.protocol import Target


MISSING_HEADER_REMEDY = "give the folder that has it: -I FOLDER"


@contextmanager
def name_messages(path: Path, text: str) -> Iterator[None]:
    """BadInput about a line of the text that a file was read as gets the file's own name and line, or those of the
    header that the line is from; where a header is missing, the remedy is the option that names its folder."""

    from hipsynth.source.own_headers import find_line
    from hipsynth.source.parse import UnparsableProgram
    from hipsynth.toolchain.diagnostics import read_missing_header, replace_places

    def write_place(line: int, column: int) -> str:
        header, own_line = find_line(text, line)
        return f"{header or path}:{own_line}:{column}"

    try:
        yield
    except UnparsableProgram as error:
        problem = error.problem
        if problem.line:
            place = write_place(problem.line, problem.column)
            error.cause = f"{place}: {problem.message}{_quote_line(text, problem.line)}"
        error.remedy = MISSING_HEADER_REMEDY if problem.missing_header else error.remedy
        raise
    except BadInput as error:
        from hipsynth.tuning.trial.run import TRIAL_FILE

        error.cause = replace_places(error.cause, TRIAL_FILE, write_place).replace(TRIAL_FILE, str(path))
        error.remedy = MISSING_HEADER_REMEDY if read_missing_header(error.cause) else error.remedy
        raise


def _quote_line(text: str, line: int) -> str:
    """The line of a text below a message about it, "" if there is none."""
    rows = text.splitlines()[line - 1 : line]
    return "".join(f"\n    {row.strip()[:200]}" for row in rows)


def read_runnable(path: Path, target: Target, includes: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """(the text of a HIP file with the headers of its folder and of the folders `includes` written in, with a main()
    behind it if it has kernels and none; what was assumed of its launches). Raises BadInput if it cannot be read, or
    its kernels' arguments cannot be made."""
    from hipsynth.source.harness import lacks_main
    from hipsynth.source.own_headers import write_in_headers
    from hipsynth.tuning.trial.fitting_main import add_fitting_main

    text = write_in_headers(read_nonempty(path), path.parent, [Path(folder) for folder in includes])
    if not lacks_main(text):
        return text, ()
    with name_messages(path, text):
        harnessed = add_fitting_main(text, target)
    return harnessed.text, harnessed.notes


def read_compared(
    original: Path, changed: Path, target: Target, includes: Sequence[str] = ()
) -> tuple[str, str, tuple[str, ...]]:
    """(the texts of two HIP files as read_runnable() gives them; what was assumed of the launches). If neither has a
    main(), both get that of the original. Raises BadInput as read_runnable() does, or if only one has a main()."""
    from hipsynth.source.harness import lacks_main
    from hipsynth.source.harness_edits import copy_harness
    from hipsynth.source.own_headers import write_in_headers

    changed_text = write_in_headers(read_source(changed), changed.parent, [Path(folder) for folder in includes])
    text, notes = read_runnable(original, target, includes)
    if lacks_main(changed_text) == bool(notes) or not changed_text.strip():
        return text, (copy_harness(text, changed_text) if notes else changed_text), notes
    without = original if notes else changed
    raise BadInput(
        f"{without}: has no main(), and the other program has one",
        remedy="give both the same main(), or neither",
        reason=Reason.NO_MAIN,
    )
