"""Arguments for the parameters of kernel templates that no host code here launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.outline import blank_opaque, outline_kernels

TYPE, TRUTH = "float", "true"  # of a parameter that is a type, or a bool
DEFAULT_ARGUMENT = "4"  # of a number that is not one of work-items: elements of a vector or of a work-item
_OF_ITEMS = re.compile(r"block|thread|group|items", re.IGNORECASE)
_TYPE_WORDS = re.compile(r"(?:class|typename)\b")
_NUMBER = re.compile(r"(?:\d+[uUlL]*|true|false)")
_KNOWN_TYPE = re.compile(
    r"(?:unsigned |signed )?(?:char|short|int|long|long long|float|double|bool|_Float16|__half|half|__hip_bfloat16|"
    r"u?int(?:8|16|32|64)_t|size_t|(?:u?(?:char|short|int|long)|float|double)[1-4])"
)
_SPECIALISATION = re.compile(r"template\s*<\s*>")
_PARAMETERS = re.compile(r"\s*template\s*<([^<>]*)>")


def choose_template_arguments(
    text: str, kernel: FunctionDeclaration, block_items: int, item_counts: Mapping[str, int]
) -> dict[str, str]:
    """Parameter of a kernel's template -> argument, in order: those of an instance that the text launches or
    instantiates, one with the number of a group's work-items rather than another one; else float, true, the number
    that `item_counts` has, that of a group's work-items, or four where the name says nothing of them. Raises BadInput
    for parameters of another kind."""
    kinds = _read_parameters(kernel)
    named = list_named_arguments(text, kernel)
    named.sort(key=lambda arguments: str(block_items) not in [value.rstrip("uUlL") for value in arguments.values()])
    if named:
        return named[0]
    return {name: _choose_usual(name, kind, block_items, item_counts.get(name)) for name, kind in kinds.items()}


def list_named_arguments(text: str, kernel: FunctionDeclaration) -> list[dict[str, str]]:
    """Parameter -> argument of each instance of a kernel's template that the text launches or instantiates. Raises
    BadInput for parameters that are no types, numbers or truths."""
    return _fill_parameters(kernel, _find_instances(text, kernel.name))


def list_explicit_instances(text: str, kernel: FunctionDeclaration) -> list[dict[str, str]]:
    """Parameter -> argument of each explicit instantiation and full specialisation of a kernel's template. Raises as
    list_named_arguments."""
    name = re.escape(kernel.name)
    explicit = re.compile(rf"\btemplate\b(?!\s*<)[^;{{}}()]*\b{name}\s*<([^<>;{{}}]*)>\s*\(")
    instances = [_split_arguments(listed) for listed in explicit.findall(blank_opaque(text))]
    return _fill_parameters(kernel, [*instances, *_list_specialised(text, kernel.name)])


def is_specialisation(kernel: FunctionDeclaration) -> bool:
    """Whether a kernel is a full specialisation, `template <> ... fill<int>(...)`."""
    return _SPECIALISATION.match(kernel.template) is not None


def _list_specialised(text: str, name: str) -> list[list[str]]:
    """The template arguments of each full specialisation of a kernel that names them."""
    arguments = re.compile(rf"{re.escape(name)}\s*<([^<>;{{}}]*)>")
    kernels = [kernel for kernel in outline_kernels(text) if kernel.name == name and is_specialisation(kernel)]
    matches = [arguments.match(text, kernel.name_start) for kernel in kernels]
    return [_split_arguments(match[1]) for match in matches if match]


def _fill_parameters(kernel: FunctionDeclaration, instances: Iterable[list[str]]) -> list[dict[str, str]]:
    kinds = _read_parameters(kernel)
    return [dict(zip(kinds, arguments, strict=True)) for arguments in instances if _fits_parameters(kinds, arguments)]


def fill_in_types(declaration: str, arguments: Mapping[str, str]) -> str:
    """A declaration with arguments in place of the template's parameters."""
    for name, argument in arguments.items():
        declaration = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", argument, declaration)
    return declaration


def _read_parameters(kernel: FunctionDeclaration) -> dict[str, str]:
    """Name of each parameter -> what it is: "class", "bool", "int". Raises BadInput."""
    listed = _PARAMETERS.match(kernel.template)
    kinds: dict[str, str] = {}
    for parameter in listed[1].split(",") if listed else ():
        words = parameter.partition("=")[0].split()
        is_plain = len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and "..." not in parameter
        if is_plain:
            kinds[words[-1]] = "class" if _TYPE_WORDS.match(words[0]) else "bool" if words[0] == "bool" else "int"
    if listed is None or len(kinds) != len(listed[1].split(",")):
        problem = f"{kernel.name} is a template, and there is no main() that says of what"
        raise BadInput(problem, remedy="add a main() that launches it", reason=Reason.NO_MAIN)
    return kinds


def _find_instances(text: str, name: str) -> list[list[str]]:
    """The template arguments of each launch and each explicit instantiation or specialisation of a kernel in a text."""
    instance = re.compile(
        rf"\b{re.escape(name)}\s*<([^<>;{{}}]*)>\s*(?:<<<|\)|,)"
        rf"|\btemplate\b[^;{{}}()]*\b{re.escape(name)}\s*<([^<>;{{}}]*)>\s*\("
    )
    instances = [_split_arguments(match[1] or match[2] or "") for match in instance.finditer(blank_opaque(text))]
    return [*instances, *_list_specialised(text, name)]


def _split_arguments(listed: str) -> list[str]:
    return [word.strip() for word in listed.split(",")]


def _fits_parameters(kinds: Mapping[str, str], arguments: list[str]) -> bool:
    """Whether arguments are types and numbers that mean the same outside the function that launches."""
    return len(arguments) == len(kinds) and all(
        (_KNOWN_TYPE if kind == "class" else _NUMBER).fullmatch(argument)
        for kind, argument in zip(kinds.values(), arguments, strict=True)
    )


def _choose_usual(name: str, kind: str, block_items: int, item_count: int | None) -> str:
    number = str(item_count or block_items) if item_count or _OF_ITEMS.search(name) else DEFAULT_ARGUMENT
    return {"class": TYPE, "bool": TRUTH}.get(kind, number)
