"""The numbers that a program's constants and macros are."""

from __future__ import annotations

from hipsynth.source.arithmetic import evaluate_integer, parse_arithmetic, read_integer
from hipsynth.source.outline import find_closing_bracket
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram

_MOST = 1 << 31  # what every type from int on holds is below
_BEFORE_DECLARATION = frozenset({";", "{", "}", "(", ")", ","})
_AFTER_DECLARED = frozenset({"=", "{", ";"})


def find_constants(program: ParsedProgram) -> dict[str, int]:
    """The numbers that the file's constants and macros are, by name, as far as they are written as one number, and
    the same one wherever a variable of the name is declared."""
    constants: dict[str, int] = {}
    ambiguous = set()
    tokens = program.tokens
    for i in range(2, len(tokens) - 3):
        if tokens[i + 1].text not in _AFTER_DECLARED:
            continue
        name, number = tokens[i].text, _read_constant(program, i)
        is_other = number is None and _declares_variable(program, i)
        if is_other or (number is not None and constants.setdefault(name, number) != number):
            ambiguous.add(name)
    for name in program.macros:
        number = read_macro(program, name)
        if number is None:
            ambiguous.add(name)
        else:
            constants[name] = number
    return {name: number for name, number in constants.items() if name not in ambiguous}


def _read_constant(program: ParsedProgram, at: int) -> int | None:
    """The number that a declaration gives to the constant whose name is a token; None for anything else."""
    tokens = program.tokens
    if tokens[at + 1].text != "=" or tokens[at + 3].text != ";":
        return None
    first = at
    while first > 0 and tokens[first - 1].text not in _BEFORE_DECLARATION:
        first -= 1
    words = {token.text for token in tokens[first:at]}
    return read_number(tokens[at + 2].text) if words & {"constexpr", "const"} and "*" not in words else None


def _declares_variable(program: ParsedProgram, at: int) -> bool:
    token = program.tokens[at]
    return any(
        entity.place == ("", token.start) and entity.category == "variable" for entity in program.entities(token)
    )


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
