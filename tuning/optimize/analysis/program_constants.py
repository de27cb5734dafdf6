"""The numbers that a program's constants and macros are."""

from __future__ import annotations

from hipsynth.source.arithmetic import evaluate_integer, parse_arithmetic, read_integer
from hipsynth.source.outline import find_closing_bracket
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram

_MOST = 1 << 31  # what every type from int on holds is below


def find_constants(program: ParsedProgram) -> dict[str, int]:
    """The numbers that the file's constants and macros are, by name, as far as they are written as one number, and
    the same one wherever a variable of the name is declared."""
    constants: dict[str, int] = {}
    ambiguous = set()
    tokens = program.tokens
    for i in range(2, len(tokens) - 3):
        declared = {token.text for token in tokens[max(0, i - 5) : i]} & {"constexpr", "const"}
        number = read_number(tokens[i + 2].text) if tokens[i + 1].text == "=" else None
        is_constant = declared and tokens[i + 3].text == ";"
        if is_constant and number is not None and constants.setdefault(tokens[i].text, number) != number:
            ambiguous.add(tokens[i].text)
    for name in program.macros:
        number = read_macro(program, name)
        if number is None:
            ambiguous.add(name)
        else:
            constants[name] = number
    return {name: number for name, number in constants.items() if name not in ambiguous}


def read_macro(program: ParsedProgram, name: str) -> int | None:
    """The number that a macro is wherever it is used: an integer, or arithmetic in brackets. None for other macros,
    those with several definitions, and negative numbers, which an unsigned type has not."""
    text = program.macro_texts.get(name, "")
    number = read_number(text)
    if number is not None or not text.startswith("(") or find_closing_bracket(text, 0) != len(text) - 1:
        return number
    value = evaluate_integer(parse_arithmetic(text))
    return value if value is not None and 0 <= value < _MOST else None


def read_number(text: str) -> int | None:
    """The number that an integer of C is, where every type from int on has it; None for other text."""
    number = read_integer(text)
    return number if number is not None and number < _MOST else None
