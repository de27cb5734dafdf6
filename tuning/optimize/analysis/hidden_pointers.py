"""Pointers that a kernel may follow and no launch shows: in arrays of pointers, members of classes, and variables
outside functions. What they point to may be an array that is passed as well."""

from __future__ import annotations

import re

from hipsynth.source.declarations import FunctionParameter
from hipsynth.source.tokens import CLOSING, OPENING, Span, text_between
from hipsynth.tuning.optimize.analysis.called_text import list_called
from hipsynth.tuning.optimize.analysis.device_variables import find_declaration, list_variables
from hipsynth.tuning.optimize.analysis.element_types import is_plain_structure, list_classes, may_hold_pointers
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram

_FIXED = frozenset({"const", "constexpr", "__constant__"})
_COPIES = re.compile(r"hipMemcpy(?:To|From)Symbol(?:Async)?|hipGetSymbolSize|sizeof")
_POINTERS = re.compile(r"\*\s*(?:const\s*)?\*")
_HOST = re.compile(r"\(\s*void\s*\*\s*\*\s*\)|<\s*void\s*\*\s*\*\s*>|\bchar\s*\*\s*\*")


def find_hidden_pointers(program: ParsedProgram, kernel: KernelDefinition) -> str:
    """Why a kernel may reach an array by a pointer that no launch passes; "" if it cannot."""
    for parameter in kernel.parameters:
        if _leads_to_pointers(program, kernel, parameter):
            return f"the parameter {parameter.name} may lead to other arrays"
    for span in [(kernel.first, kernel.last), *list_called(program, (kernel.first, kernel.last))]:
        if _makes_pointers(program, span):
            return "it takes numbers or elements for pointers"
    for name, place in sorted(find_variables(program, kernel)):
        if not any(token.start == place and token.text == name for token in program.tokens):
            return f"a macro declares {name}, outside of functions"
        if _is_pointer(program, place):
            return f"{name}, outside of functions, may be a pointer to an array"
        if _is_exposed(program, place):
            return f"the host may pass {name}, which is outside of functions, as an array"
    return ""


# --- parameters ------------------------------------------------------------------------------------------------------


def _leads_to_pointers(program: ParsedProgram, kernel: KernelDefinition, parameter: FunctionParameter) -> bool:
    """Whether a parameter points to pointers, or is a structure with pointers that may come from anywhere: those of
    plain structures are followed in the host code."""
    if parameter.text.count("*") > 1 or ("*" in parameter.text and re.search(r"[\[(]", parameter.text)):
        return True
    head, star, _ = parameter.text.partition("*")
    kind = kernel.resolve_type(re.sub(r"\bconst\b", "", head if star else parameter.type).strip())
    if kind in kernel.template_names:
        return _has_many_pointers(program)
    if not may_hold_pointers(program, kind.partition("[")[0]):
        return False
    return bool(star) or not is_plain_structure(program, kind) or _is_set_elsewhere(program, kernel, parameter)


def _has_many_pointers(program: ParsedProgram) -> bool:
    """Whether a program has pointers to pointers, or classes with pointers, that a template may be given."""
    text = _HOST.sub("", " ".join(token.text for token in program.tokens))
    return bool(_POINTERS.search(text)) or any(may_hold_pointers(program, name) for name in list_classes(program))


def _is_set_elsewhere(program: ParsedProgram, kernel: KernelDefinition, parameter: FunctionParameter) -> bool:
    """Whether structures that launches pass may be changed by what takes a reference or an address of them."""
    at = kernel.parameters.index(parameter)
    names = {launch.arguments[at] for launch in kernel.launches}
    launches = [(each.start, each.end) for k in program.kernels for each in k.launches]
    tokens = program.tokens
    return any(
        token.text in names
        and tokens[i - 1].text in ("(", ",", "&")
        and tokens[i + 1].text in (")", ",")
        and "swap" not in {tokens[i - 2].text, tokens[i - 4].text}
        and not any(start <= token.start < end for start, end in launches)
        for i, token in enumerate(tokens)
    )


# --- code ------------------------------------------------------------------------------------------------------------


def _makes_pointers(program: ParsedProgram, span: Span) -> bool:
    """Whether code has pointers to pointers, or takes an element or a number for a pointer."""
    tokens = program.tokens
    for i in range(*span):
        if tokens[i].text != "*":
            continue
        if tokens[i + 1].text == "*" and _is_type(program, i - 1):
            return True
        if tokens[i + 1].text in (")", ">") and _is_type(program, i - 1) and _is_element(program, i + 2):
            return True
    return False


def _is_type(program: ParsedProgram, at: int) -> bool:
    token = program.tokens[at]
    is_word = token.text.isidentifier() and not token.identifier and token.text not in ("return", "sizeof")
    return is_word or any(entity.category == "type" for entity in program.entities(token))


def _is_element(program: ParsedProgram, at: int) -> bool:
    """Whether an expression that a cast takes begins with an element of an array, or is a number."""
    tokens = program.tokens
    while tokens[at].text == "(":
        at += 1
    shapes = {entity.shape for entity in program.entities(tokens[at])}
    return tokens[at].identifier and (tokens[at + 1].text == "[" or bool(shapes & {"integer", "real"}))


# --- variables outside functions -------------------------------------------------------------------------------------


def find_variables(program: ParsedProgram, kernel: KernelDefinition) -> set[tuple[str, int]]:
    """The variables outside functions that a kernel uses, also in functions and macros, with the places of their
    declarations."""
    spans = [(kernel.first, kernel.last), *list_called(program, (kernel.first, kernel.last))]
    return {variable for span in spans for variable in list_variables(program, span)}


def _is_pointer(program: ParsedProgram, place: int) -> bool:
    """Whether a variable may hold a pointer, be it that of an array or structure; what is constant for the compiler has
    none to arrays of the device."""
    first, at = find_declaration(program, place)
    words = [token.text for token in program.tokens[first:at]]
    if "constexpr" in words:
        return False
    if {entity.shape for entity in program.entities(program.tokens[at])} <= {"integer", "real"}:
        return False
    end = next(i for i in range(first, at + 1) if program.declares_name(i))
    kind = re.sub(r"\bextern\b", "", text_between(program.unit, program.tokens, first, end))
    return "*" in words or may_hold_pointers(program, kind)


def _is_exposed(program: ParsedProgram, place: int) -> bool:
    """Whether host code names a variable but to copy it, so that a launch may pass its address."""
    tokens, (first, at) = program.tokens, find_declaration(program, place)
    if _FIXED & {token.text for token in tokens[first:at]}:
        return False
    device = [(each.first, each.last) for each in (*program.kernels, *program.functions)]
    return any(
        token.text == tokens[at].text
        and token.start != place
        and not any(start <= i < end for start, end in device)
        and place in {entity.place[1] for entity in program.entities(token)}
        and not _is_copied(program, i)
        for i, token in enumerate(tokens)
    )


def _is_copied(program: ParsedProgram, at: int) -> bool:
    """Whether a token stands in the arguments of a call that copies a variable."""
    tokens, depth = program.tokens, 0
    for i in range(at - 1, 0, -1):
        depth += (tokens[i].text in CLOSING) - (tokens[i].text in OPENING)
        if tokens[i].text in (";", "{", "}"):
            return False
        if depth < 0:
            depth = 0
            if _COPIES.fullmatch(tokens[i - 1].text):
                return True
    return False
