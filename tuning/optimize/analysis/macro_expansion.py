"""Macros that kernels use, written out: an analysis of tokens does not see what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.source.declarations import MacroText
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.outline import outline_macros
from hipsynth.source.tokens import find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram, read_program

MOST_ROUNDS = 4  # of macros in macros
_NUMBER = re.compile(r"[\d.]+\w*")
_ONE_BYTE = "latin-1"  # so that offsets of characters are those of bytes


@dataclass(frozen=True)
class ExpandedProgram:
    """A program whose kernels use no macros but numbers, and the original's kernels by what became of them."""

    program: ParsedProgram
    originals: Mapping[str, str]

    def restore(self, text: str) -> str:
        """A changed text with the macros in kernels that are as they were."""
        for expanded, original in self.originals.items():
            text = text.replace(expanded, original)
        return text


def expand_macros(program: ParsedProgram) -> ExpandedProgram:
    """The program with macros in kernels written out, as far as they have one definition; numbers keep their names."""
    kernels = {kernel.name: _read_text(program, kernel) for kernel in program.kernels}
    for _ in range(MOST_ROUNDS):
        edits = [edit for kernel in program.kernels for edit in _expand_kernel(program, kernel)]
        if not edits:
            break
        text = edit_text(program.unit.text, edits)
        try:
            program = read_program(text, program.arch, program.flags)
        except TEXT_ERRORS:
            break
    after = {kernel.name: _read_text(program, kernel) for kernel in program.kernels}
    return ExpandedProgram(program, {after[name]: text for name, text in kernels.items() if after[name] != text})


def names_numbers_alone(program: ParsedProgram, kernel: KernelDefinition) -> bool:
    """Whether all macros that a kernel's body uses are numbers, the same ones wherever they stand."""
    words = {token.text for token in program.tokens[kernel.first : kernel.last]}
    return all(
        len(program.macros[name]) == 1
        and all(map(_NUMBER.fullmatch, program.macros[name]))
        and len(re.findall(rf"#\s*(?:define|undef)\s+{name}\b", program.text)) == 1
        for name in words & program.macros.keys()
    )


def _read_text(program: ParsedProgram, kernel: KernelDefinition) -> str:
    return program.unit.text[kernel.start : kernel.end].decode(errors="surrogateescape")


def _expand_kernel(program: ParsedProgram, kernel: KernelDefinition) -> Iterator[Edit]:
    """The edits that write out the macros of a kernel's body, not those in the arguments of others."""
    macros = dict(_find_macros(program))
    tokens, i = program.tokens, kernel.first
    while i < kernel.last:
        macro = macros.get(tokens[i].text)
        start, i = i, i + 1
        if macro is None or macro.start > kernel.start:
            continue
        arguments: list[str] = []
        if macro.parameters is not None:
            if tokens[i].text != "(":
                continue
            close = find_closing(tokens, i)
            spans = [span for span in split_at(tokens, i + 1, close, ",") if span[0] < span[1]]
            arguments = [text_between(program.unit, tokens, *span) for span in spans]
            i = close + 1
        if len(arguments) == len(macro.parameters or ()):
            text = _write_macro(program, macro, arguments, tokens[start].start)
            yield Edit(tokens[start].start, tokens[i - 1].end, text)


def _find_macros(program: ParsedProgram) -> Iterator[tuple[str, MacroText]]:
    """The macros that mean the same wherever they stand, without those that are numbers."""
    flat = program.unit.text.decode(_ONE_BYTE)
    macros = outline_macros(flat)
    names = [macro.name for macro in macros]
    for macro in macros:
        is_number = _NUMBER.fullmatch(macro.text.strip()) is not None
        is_opaque = flat[macro.text_start : macro.end].rstrip() != macro.text or "#" in macro.text
        is_variadic = any(not name.isidentifier() for name in macro.parameters or ())
        changes = names.count(macro.name) > 1 or re.search(rf"#\s*undef\s+{macro.name}\b", flat)
        if macro.text.strip() and not (is_number or is_opaque or is_variadic or changes):
            yield macro.name, macro


def _write_macro(program: ParsedProgram, macro: MacroText, arguments: list[str], at: int) -> str:
    """What a use of a macro stands for, in lines below each other as in its definition."""
    source = program.unit.text
    line = source[source.rfind(b"\n", 0, at) + 1 : at]
    indent = " " * (len(line) - len(line.lstrip())) if line.strip() else " " * len(line)
    text = macro.text.encode(_ONE_BYTE).decode(errors="surrogateescape")
    lines = [piece.strip() for piece in re.split(r"\\\n", text) if piece.strip()]
    values = dict(zip(macro.parameters or (), arguments, strict=True))
    return re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), f"\n{indent}".join(lines))
