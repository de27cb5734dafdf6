"""Device code of a program in which kernels have more static LDS than the device: the compiler rejects it as a whole.

Each kernel that the compiler names is compiled with a higher limit of its own, which leaves the code of the others as
it is; the device refuses to start it. One that is beyond this limit, too, loses its body for as much LDS as the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import CompileFailed
from hipsynth.core.program import Project, text_id
from hipsynth.profiling.preview.interpret import Code
from hipsynth.profiling.preview.programs import device_code
from hipsynth.source.completion.repair import position_of
from hipsynth.source.names import base_name, short_name
from hipsynth.source.outline import outline_kernels
from hipsynth.toolchain.diagnostics import LocalMemoryError, read_local_memory_errors

RAISED = 327_680  # bytes; LLVM's largest limit, above that of every device of simulator/devices
MOST_COMPILES = 4  # clang ends after 20 errors
_ATTRIBUTE = f'__attribute__((target("addressablelocalmemorysize{RAISED}"))) '
_BODY = f"__shared__ volatile char left_out[{RAISED}]; left_out[0] = 0;"


def code_with_oversized(
    text: str, arch: str, flags: str, failure: CompileFailed, project: Project | None = None
) -> Code | None:
    """The device code of a program that clang rejected with `failure` for nothing but the LDS of kernels in its text;
    None if there is another reason, or the kernels cannot be told apart in the text. Raises OutOfTime."""
    oversized: dict[str, str] = {}
    for _ in range(MOST_COMPILES):
        errors = read_local_memory_errors(failure.diagnostics)
        if not errors or any(Path(error.file).name != f"{text_id(text)}.hip" for error in errors):
            return None
        for error in errors:
            oversized |= _list_refusals(error)
        changed = _raise_limits(text, errors)
        if changed is None:
            return None
        text = changed
        try:
            return replace(device_code(text, arch, flags, project=project), oversized=oversized)
        except CompileFailed as error:
            failure = error
    return None


def note_oversized(code: Code) -> tuple[str, ...]:
    """A note on a program that the compiler rejects for the LDS of kernels, which names them."""
    named = [f"{short_name(kernel)} ({why})" for kernel, why in code.oversized.items() if kernel.endswith(")")]
    if not named:
        return ()
    return (f"it does not compile for {', '.join(named)}: the prediction is of the other kernels",)


def _list_refusals(error: LocalMemoryError) -> dict[str, str]:
    """Why the device does not start a kernel, by its full name; by its base name, for other builds of a template that
    loses its body."""
    size = f"{error.bytes} bytes of LDS; at most {error.most}"
    if error.most < RAISED:
        return {error.kernel: size}
    return {base_name(error.kernel): f"its template was left out for {short_name(error.kernel)}"}


def _raise_limits(text: str, errors: Sequence[LocalMemoryError]) -> str | None:
    """The text with a higher limit for each kernel that an error names, or a body that fits this limit; None if the
    body is not found."""
    bodies = {kernel.name_start: kernel.body for kernel in outline_kernels(text)}
    edits: set[tuple[int, int, str]] = set()
    for error in errors:
        at = position_of(text, error.line, error.column)
        if error.most < RAISED:
            edits.add((at, at, _ATTRIBUTE))
        elif at in bodies:
            edits.add((*bodies[at], _BODY))
        else:
            return None
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
