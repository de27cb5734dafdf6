"""Programs that keep the original kernel for the sizes at which the changed one loses, and choose at each launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.arguments import MOST_ARGUMENTS, default_arguments
from hipsynth.source.edits import Edit
from hipsynth.source.layout import find_depth, lay_out
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.documents import ShapeSpeedup

_READ = r"(?:std::)?(?:ato(?:i|l|ll)|strtou?ll?|sto(?:i|l|ll|ul|ull))\(\w+\[{0}\]"
_NAMED = (
    r"\b(\w+) = \w+ > {0} \? " + _READ,
    r"\bif \(\w+ > {0}\) (\w+) = " + _READ,
)


@dataclass(frozen=True)
class SizeGuard:
    """Launches with `name` `sign` `size` use the changed kernel; each launch names it in its shape or arguments."""

    name: str
    sign: str
    size: int

    @property
    def condition(self) -> str:
        return f"{self.name} {self.sign} {self.size}"


def size_names(text: str) -> dict[str, int]:
    """Variables of a program that hold its arguments -> the argument's position, from 0."""
    names: dict[str, int] = {}
    for position in range(1, MOST_ARGUMENTS + 1):
        for form in _NAMED:
            names |= {match[1]: position - 1 for match in re.finditer(form.format(position), text)}
    return names


def choose_guard(program: ParsedProgram, kernel: KernelDefinition, shapes: Sequence[ShapeSpeedup]) -> SizeGuard | None:
    """The size that separates the shapes at which a change gains from those at which it loses; None if none does.
    Rather large ones than small ones gain."""
    passed = [_list_words(launch.grid, launch.block, *launch.arguments) for launch in kernel.launches]
    names = {name: at for name, at in size_names(program.text).items() if passed and all(name in row for row in passed)}
    rows = list(_list_sizes(program.text, shapes))
    for sign in (">=", "<="):
        for name, position in names.items():
            sizes = [(values[position], gains) for values, gains in rows if position < len(values)]
            winning = [size for size, gains in sizes if gains]
            losing = [size for size, gains in sizes if not gains]
            if len(sizes) < len(rows) or not winning or not losing:
                continue
            if sign == ">=" and max(losing) < min(winning):
                return SizeGuard(name, sign, min(winning))
            if sign == "<=" and max(winning) < min(losing):
                return SizeGuard(name, sign, max(winning))
    return None


def _list_words(*texts: str) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text)}


def _list_sizes(text: str, shapes: Sequence[ShapeSpeedup]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """The sizes of each shape, and whether the change gains there."""
    defaults = default_arguments(text)
    for shape in shapes:
        words = shape.arguments or tuple(map(str, defaults))
        yield tuple(int(word) if word.isdecimal() else 0 for word in words), shape.speedup >= 1


def guard_edits(
    program: ParsedProgram, kernel: KernelDefinition, edits: Sequence[Edit], guard: SizeGuard
) -> list[Edit]:
    """The edits of a kernel and its launches, so that the original stays beside it and is launched for other sizes."""
    unit, name = program.unit.text, kernel.name
    original = unit[kernel.start : kernel.end].decode(errors="surrogateescape")
    written = {(edit.start, edit.end): edit.text for edit in edits}
    definition = written.pop((kernel.start, kernel.end))
    both = definition.startswith(original)  # the changed kernel has a name of its own
    if not both:
        definition = f"{original}\n\n{rename_kernel(definition, name)}"
    guarded = [Edit(kernel.start, kernel.end, definition)]
    for launch in kernel.launches:
        before = unit[launch.start : launch.end].decode(errors="surrogateescape")
        after = written.pop((launch.start, launch.end), before)
        after = after if both else rename_kernel(after, name)
        guarded.append(
            Edit(launch.start, launch.end, write_choice(guard, after, before, find_depth(unit, launch.start)))
        )
    return [*guarded, *(Edit(start, end, text) for (start, end), text in written.items())]


def write_choice(guard: SizeGuard, after: str, before: str, depth: int) -> str:
    """The statement that launches the changed kernel for the guard's sizes, and the original for others, within `depth`
    braces."""
    note = "// for other sizes, the first kernel is faster"
    is_block = after.startswith("{") and after.endswith("}")
    inside = after[1:-1].strip() if is_block else after
    lines = [f"if ({guard.condition}) {{  {note}", inside, "} else {", before, "}"]
    return lay_out("\n".join(lines), depth).lstrip()


def rename_kernel(text: str, name: str, renamed: str = "") -> str:
    """The text with the changed kernel's own name, at its definition and launches; "": NAME_tuned. Parameters stand
    below each other as before."""
    new = renamed or f"{name}_tuned"
    lines: list[str] = []
    column = 0  # below which the lines of a list began, while one is open
    for line in text.split("\n"):
        if column and line[:column].isspace() and line[column:].lstrip() == line[column:]:
            line = f"{' ' * (len(new) - len(name))}{line}"
        else:
            column = 0
        opened = re.search(rf"\b{re.escape(name)}\(", line)
        if opened and line.count("(", opened.start()) > line.count(")", opened.start()):
            column = opened.end()
        lines.append(re.sub(rf"\b{re.escape(name)}\b(?=\s*[(<,)])", new, line))
    return "\n".join(lines)
