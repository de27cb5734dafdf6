"""Keeps the original kernel, for some sizes, beside one whose program was changed as text (source_changes/)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.source.layout import find_depth
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard, rename_kernel, write_choice

OTHER_NAMES = ("tuned", "plain")  # of a changed kernel that would have the original's name


@dataclass(frozen=True)
class ChangedKernel:
    """A kernel of which a program was changed, with its launches. `launches`: of all kernels, each with the text that
    stands for it in the changed program; `pieces`: what stands between, the same in both; `head`: the changed program
    up to them; `end`: where the kernel of this name ends in it."""

    kernel: KernelDefinition
    launches: tuple[tuple[LaunchStatement, str], ...]
    pieces: tuple[str, ...]
    head: str
    end: int

    def write_guarded(self, program: ParsedProgram, guard: SizeGuard) -> str:
        """The changed program with the original kernel beside the changed one, chosen at each launch. Raises
        NotUnderstood if there is no name for the changed one."""
        name, unit = self.kernel.name, program.unit.text
        definition = _text_of(unit, self.kernel.start, self.kernel.end)
        head, renamed = self.head, ""
        if definition not in head:
            words = set(re.findall(r"\w+", head))
            renamed = next((f"{name}_{end}" for end in OTHER_NAMES if f"{name}_{end}" not in words), "")
            if not renamed:
                raise NotUnderstood("no name for the changed kernel")
            before, after = (rename_kernel(part, name, renamed) for part in (head[: self.end], head[self.end :]))
            head = f"{before}\n\n{definition}{after}"
        text = head + self.pieces[0]
        for (launch, after), piece in zip(self.launches, self.pieces[1:], strict=True):
            if launch in self.kernel.launches:
                after = rename_kernel(after, name, renamed) if renamed else after
                before = _text_of(unit, launch.start, launch.end)
                after = write_choice(guard, after, before, find_depth(unit, launch.start))
            text += after + piece
        return text


def find_changed_kernel(program: ParsedProgram, changed: ParsedProgram) -> ChangedKernel:
    """The one kernel of a program that differs in a changed one. Raises NotUnderstood if there are more, or if host
    code around the launches differs."""
    unit = program.unit.text
    launches = sorted(
        (launch for kernel in program.kernels for launch in kernel.launches), key=lambda launch: launch.start
    )
    end = max(kernel.end for kernel in program.kernels)
    if not launches or launches[0].start < end:
        raise NotUnderstood("no launches behind the kernels")
    starts, ends = [end, *(launch.end for launch in launches)], [*(launch.start for launch in launches), len(unit)]
    pieces = tuple(_text_of(unit, a, b) for a, b in zip(starts, ends, strict=True))
    head, parts = _split_at(changed.text, pieces)
    replaced = tuple(zip(launches, parts, strict=True))
    differs = [kernel for kernel in program.kernels if _is_changed(unit, kernel, replaced, head)]
    if len(differs) != 1:
        raise NotUnderstood("not one kernel is changed")
    same_name = [kernel.end for kernel in changed.kernels if kernel.name == differs[0].name]
    if len(same_name) != 1:
        raise NotUnderstood("no kernel of this name is left")
    return ChangedKernel(differs[0], replaced, pieces, head, len(_text_of(changed.unit.text, 0, same_name[0])))


def _split_at(text: str, pieces: Sequence[str]) -> tuple[str, list[str]]:
    """What stands before the pieces of a text, which ends with the last one, and the statements between them."""
    at = text.rfind(pieces[0])
    if at < 0:
        raise NotUnderstood("host code that was changed, too")
    parts, begin = [], at + len(pieces[0])
    for piece in pieces[1:]:
        end = _end_of_statement(text, begin)
        if not text.startswith(piece, end):
            raise NotUnderstood("host code that was changed, too")
        parts.append(text[begin:end])
        begin = end + len(piece)
    if begin != len(text):
        raise NotUnderstood("host code that was changed, too")
    return text[:at], parts


def _end_of_statement(text: str, begin: int) -> int:
    """Where the block or the simple statement ends that begins there; the text's end if it does not."""
    depth, is_block = 0, text[begin : begin + 1] == "{"
    for at in range(begin, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text[at] == ("}" if is_block else ";"):
            return at + 1
    return len(text)


def _is_changed(
    unit: bytes, kernel: KernelDefinition, replaced: Sequence[tuple[LaunchStatement, str]], head: str
) -> bool:
    same = all(
        _text_of(unit, launch.start, launch.end) == after for launch, after in replaced if launch in kernel.launches
    )
    return not same or _text_of(unit, kernel.start, kernel.end) not in head


def _text_of(unit: bytes, start: int, end: int) -> str:
    return unit[start:end].decode(errors="surrogateescape")
