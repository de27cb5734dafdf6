"""The numbers that a program's constants and macros are."""

from __future__ import annotations

from hipsynth.source.arithmetic import read_integer
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram


def find_constants(program: ParsedProgram) -> dict[str, int]:
    """The numbers that the file's constants and macros are, by name, as far as they are written as one number, and
    the same one wherever the name is declared."""
    constants: dict[str, int] = {}
    ambiguous = set()
    tokens = program.tokens
    for i in range(2, len(tokens) - 3):
        declared = {token.text for token in tokens[max(0, i - 5) : i]} & {"constexpr", "const"}
        number = read_number(tokens[i + 2].text) if tokens[i + 1].text == "=" else None
        is_constant = declared and tokens[i + 3].text == ";"
        if is_constant and number is not None and constants.setdefault(tokens[i].text, number) != number:
            ambiguous.add(tokens[i].text)
    for name, words in program.macros.items():
        number = read_number(next(iter(words))) if len(words) == 1 else None
        if number is not None:
            constants[name] = number
    return {name: number for name, number in constants.items() if name not in ambiguous}


def read_number(text: str) -> int | None:
    """The number that an integer of C is, where every type from int on has it; None for other text."""
    number = read_integer(text)
    return number if number is not None and number < 1 << 31 else None
