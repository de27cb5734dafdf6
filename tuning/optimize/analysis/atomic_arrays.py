"""The arrays that the atomic operations of a kernel change, and whether it does nothing else with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import STEP, Body
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

Name = tuple[str, str]  # of a variable, and of the member where it is a parameter that is a structure
_NONE = ("", "")


def check_arrays_alone(body: Body, calls: Sequence[int]) -> None:
    """Raises NotUnderstood unless a kernel uses the arrays of its atomic operations, whose calls begin at these tokens,
    in their addresses alone, also through local pointers, and its launches pass each of them once."""
    targets = {target for call in calls for target in _list_targets(body, _read_address(body, call))}
    names = {_read_name(body, at) for at in targets}
    kernel = body.kernel
    uses = {i for i in range(kernel.first, kernel.last) if _read_name(body, i) in names} - _list_declarations(body)
    if uses != targets:
        raise NotUnderstood("an array that atomic operations change is used otherwise")
    parameters = {parameter.name for parameter in kernel.parameters}
    passed = [name for name, member in names if name in parameters and not member]
    if not all(is_passed_alone(body.program, kernel, name) for name in passed):
        raise NotUnderstood("an array that launches pass twice")
    inside = {body.tokens[i].text for each in body.program.functions for i in range(each.first, each.last)}
    if inside & {name for name, _ in names if name not in parameters}:
        raise NotUnderstood("a variable that functions use, too")


def _read_address(body: Body, call: int) -> tuple[int, int]:
    address, *_ = split_at(body.tokens, call + 2, find_closing(body.tokens, call + 1), ",")
    return address


def _list_targets(body: Body, span: tuple[int, int]) -> Iterator[int]:
    """The token that names the array in an address, of a local pointer or reference also that in its value. Raises
    NotUnderstood where there is none, or where the address changes the pointer."""
    at = next((i for i in range(*span) if _read_name(body, i) != _NONE), -1)
    if at < 0:
        raise NotUnderstood("an address of another form")
    yield at
    place = body.local(body.tokens[at])
    if place < 0 or body.is_in_lds(place):
        return
    declared = body.find_declaration(place)
    if body.tokens[declared + 1].text != "=" or {body.tokens[at - 1].text, body.tokens[at + 1].text} & STEP:
        raise NotUnderstood("a pointer that changes")
    end = next(i for i in range(declared, body.kernel.last) if body.tokens[i].text == ";")
    yield from _list_targets(body, split_at(body.tokens, declared + 2, end, ",")[0])


def _list_declarations(body: Body) -> set[int]:
    return {i for i in range(body.kernel.first, body.kernel.last) if body.tokens[i].start in body.locals}


def _read_name(body: Body, at: int) -> Name:
    """The variable that a token names."""
    tokens, token = body.tokens, body.tokens[at]
    if not token.identifier or tokens[at - 1].text in (".", "->", "::"):
        return _NONE
    place = body.local(token)
    if place >= 0:
        return f"{token.text} {place}", ""
    parameter = next((each for each in body.kernel.parameters if each.name == token.text), None)
    is_variable = any(entity.category == "variable" for entity in body.program.entities(token))
    if parameter is None and not is_variable:
        return _NONE
    is_structure = parameter is not None and not parameter.base and tokens[at + 1].text == "."
    return token.text, tokens[at + 2].text if is_structure else ""
