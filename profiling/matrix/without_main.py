"""Kernels without a main(): the program that is profiled in their place, under their file's name."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hipsynth.core.errors import UsageError
from hipsynth.core.scratch import KeepFolder

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.profiling.backends.protocol import TargetResult
    from hipsynth.source.harness import HarnessChoices


def complete_project(
    project: Project, choices: HarnessChoices, keep: KeepFolder, careful: bool = False
) -> tuple[Project, tuple[str, ...]]:
    """(the program, with a main() if its one file has kernels and none; what was assumed). `keep` enters the scratch
    folder that holds it; `careful`: with small sizes and large buffers, as in choose_launches()."""
    from hipsynth.core.files import write_whole
    from hipsynth.core.program import SourceFile, load_program
    from hipsynth.core.scratch import scratch_folder
    from hipsynth.source.harness import add_harness, lacks_main
    from hipsynth.source.includes import includes_own_files

    source = project.sources[0]
    text = load_program(source.path).text if len(project.sources) == 1 else ""
    if not lacks_main(text):
        return project, refuse_choices(choices)
    harnessed = add_harness(text, replace(choices, arguments=project.arguments), careful)
    scratch = keep(scratch_folder())
    path = scratch / source.path.name
    write_whole(path, harnessed.text)
    beside = [f"-I{source.path.resolve().parent}"] if includes_own_files(text) else []
    flags = shlex.join([*shlex.split(source.flags), *beside])
    completed = replace(project, sources=(SourceFile(path, source.language, flags),), folder=scratch)
    return completed, harnessed.notes


def needs_smaller_sizes(assumed: Sequence[str], choices: HarnessChoices, results: Sequence[TargetResult]) -> bool:
    """Whether a program with a made main() failed for sizes that nobody chose."""
    from hipsynth.source.harness import needs_care

    return bool(assumed) and not choices and any(needs_care(result.reason) for result in results)


def refuse_choices(choices: HarnessChoices) -> tuple[str, ...]:
    """What is assumed of a program with a main(): nothing. Raises UsageError if something was chosen."""
    if choices:
        remedy = "drop them, and give the program its own arguments"
        raise UsageError("grid, block and values are for kernels without main()", remedy=remedy)
    return ()


def name_original(results: Sequence[TargetResult], completed: Project, project: Project) -> list[TargetResult]:
    """The results of the completed program with the name of the file that it was made of."""
    made_path, path = str(completed.sources[0].path), str(project.sources[0].path.resolve())
    if completed is project:
        return list(results)
    named = []
    for result in results:
        kernels = [
            replace(
                kernel,
                lines=tuple(replace(line, file=path) if line.file == made_path else line for line in kernel.lines),
                loops=tuple(replace(loop, file=path) if loop.file == made_path else loop for loop in kernel.loops),
                instructions=tuple(replace(i, file=path) if i.file == made_path else i for i in kernel.instructions),
            )
            for kernel in result.lines
        ]
        message = result.message.replace(made_path, path)
        named.append(replace(result, lines=tuple(kernels), message=message))
    return named
