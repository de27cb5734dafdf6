"""Finds the functions, classes and global variables of a program's tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hipsynth.profiling.preview.expressions import Expressions
from hipsynth.profiling.preview.tokens import arguments
from hipsynth.profiling.preview.values import Class, Function, TemplateParameters


@dataclass
class Declarations:
    functions: dict[str, list[Function]] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    globals: list[tuple[int, int]] = field(default_factory=list)  # statements, by position
    kernels: dict[str, list[bool]] = field(default_factory=dict)  # whether each parameter is constant
    template_parameters: dict[str, TemplateParameters] = field(default_factory=dict)  # of kernels
    launchers: set[str] = field(default_factory=set)  # functions that launch kernels, directly or through others


def find_declarations(view: Expressions) -> Declarations:
    """The declarations outside all functions; namespaces and extern "C" blocks are entered."""
    found = Declarations()
    _scan(view, 0, len(view.words), found)
    made = [f for fs in found.functions.values() for f in fs]
    made += [f for one in found.classes.values() for fs in one.methods.values() for f in fs]
    bodies: dict[str, set[str]] = {}
    for function in made:
        bodies.setdefault(function.name, set()).update(view.words[function.body[0] : function.body[1]])
    direct = {name for name, words in bodies.items() if words & {"<<<", "hipLaunchKernelGGL"}}
    while True:
        more = {name for name, words in bodies.items() if name not in direct and words & direct}
        if not more:
            break
        direct |= more
    found.launchers = direct
    return found


def _scan(view: Expressions, start: int, end: int, found: Declarations) -> None:
    words, at = view.words, start
    while at < end:
        stop = _statement_end(view, at, end)
        head = words[at:stop]
        brace = next((i for i in range(at, stop) if words[i] == "{"), None)
        if head[:1] == ["namespace"] or head[:2] == ["extern", '"C"']:
            if brace is not None:
                _scan(view, brace + 1, view.partner.get(brace, end), found)
                at = view.partner.get(brace, end) + 1
                continue
        elif head[:1] == ["enum"] and brace is not None:
            found.globals.append((at, stop))
        elif any(w in ("struct", "class") for w in head[:8]) and brace is not None and _is_class(view, at, brace):
            _class(view, at, brace, found)
        elif brace is not None and (made := _function(view, at, brace, of := _method_of(view, at, brace))) is not None:
            home = found.classes[of].methods if of in found.classes else found.functions
            home.setdefault(made.name, []).append(made)
        elif "__global__" in head and brace is not None:
            _kernel(view, at, brace, found)
        elif head and "__global__" not in head and "operator" not in head:
            found.globals.append((at, stop))
        at = stop


def _kernel(view: Expressions, at: int, brace: int, found: Declarations) -> None:
    opens = next((i for i in range(at, brace) if view.words[i] == "(" and view.partner.get(i) == brace - 1), None)
    if opens is not None:
        name, (parameters, _) = view.words[opens - 1], arguments(view.words, opens)
        again = name in found.kernels
        found.kernels[name] = ["const" in words for words in parameters]
        template, _ = _template(view.words[at:brace])
        used = {word for words in parameters for word in words}
        packed = any("..." in words for words in [*parameters, view.words[at:opens]])
        found.template_parameters[name] = (
            [] if again or packed else [(name, [] if name in used else default) for name, default in template]
        )


def _statement_end(view: Expressions, at: int, end: int) -> int:
    """The position after the declaration that begins at `at`: past its `;` or its body."""
    i = at
    while i < end:
        word = view.words[i]
        if word == ";":
            return i + 1
        if word == "}":
            return i + 1
        close = view.partner.get(i)
        if word == "{" and close is not None:
            after = view.words[close + 1] if close + 1 < len(view.words) else ""
            if after not in (";", ",", "(", ")"):
                return close + 1
        i = i + 1 if close is None else close + 1
    return end


def _is_class(view: Expressions, at: int, brace: int) -> bool:
    return "(" not in view.words[at:brace] and "=" not in view.words[at:brace]


def _method_of(view: Expressions, at: int, brace: int) -> str:
    """The class of a method that is defined outside it: `type name::method(...)`; empty if it is none."""
    head = view.words[at : view.words.index("(", at, brace)] if "(" in view.words[at:brace] else []
    if head[-2:-1] != ["::"] or len(head) < 3:
        return ""
    before = head[:-2]
    if before[-1] == ">":  # of a template: name<T>::method
        before = before[: len(before) - 1 - before[::-1].index("<")]
    return before[-1] if before else ""


def _template(words: list[str]) -> tuple[TemplateParameters, list[str]]:
    """The template's parameters, and the words after it."""
    found: TemplateParameters = []
    while words[:1] == ["template"]:
        depth, i = 0, 1
        while i < len(words):
            depth += (words[i] == "<") - (words[i] == ">")
            i += 1
            if depth == 0:
                break
        for part in arguments(["(", *words[2 : i - 1], ")"], 0)[0]:
            equals = part.index("=") if "=" in part else len(part)
            if part[:equals]:
                found.append((part[equals - 1], part[equals + 1 :]))
        words = words[i:]
    return found, words


def _function(view: Expressions, at: int, brace: int, of: str = "") -> Function | None:
    """The function whose body begins at `brace`; None if it is a kernel or no function."""
    template, head = _template(view.words[at:brace])
    before = head[: head.index("(")] if "(" in head else head
    if "__global__" in head or "operator" in head or "=" in before or ("__device__" in head and "__host__" not in head):
        return None
    start = brace - len(head)
    opens = next((i for i in range(start, brace) if view.words[i] == "(" and i > start), None)
    if opens is None or not re.match(r"[A-Za-z_]\w*$", view.words[opens - 1]):
        return None
    name = view.words[opens - 1]
    parameters, after = arguments(view.words, opens)
    parameters = [p for p in parameters if p != ["void"]]
    defaults = [p[p.index("=") + 1 :] if "=" in p else [] for p in parameters]
    parameters = [p[: p.index("=")] if "=" in p else p for p in parameters]
    initial: list[tuple[str, list[str]]] = []
    body = brace
    if name == of and ":" in view.words[after : brace + 1]:
        initial, body = _initializers(view, view.words.index(":", after) + 1)
    names = [parameter for parameter, _ in template]
    return Function(name, parameters, (body, view.partner.get(body, body)), None, initial, names, defaults)


def _initializers(view: Expressions, at: int) -> tuple[list[tuple[str, list[str]]], int]:
    """The members that a constructor initialises from `at` on, and the position of its body."""
    found = []
    while at + 1 < len(view.words) and view.words[at + 1] in ("(", "{"):
        close = view.partner.get(at + 1, at + 1)
        found.append((view.words[at], view.words[at + 2 : close]))
        at = close + 1
        if view.words[at : at + 1] != [","]:
            break
        at += 1
    return found, at


def _class(view: Expressions, at: int, brace: int, found: Declarations) -> None:
    template, head = _template(view.words[at:brace])
    names = [w for w in head if re.match(r"[A-Za-z_]\w*$", w) and w not in ("struct", "class", "final", "typedef")]
    if not names:
        return
    made = Class(names[0], [], {}, [parameter for parameter, _ in template])
    for base in names[1:] if ":" in head else []:
        if base in found.classes:
            made.fields += found.classes[base].fields
            made.methods |= {name: [*fs] for name, fs in found.classes[base].methods.items() if name != base}
    found.classes[made.name] = made
    i, end = brace + 1, view.partner.get(brace, len(view.words))
    while i < end:
        if view.words[i] in ("public", "private", "protected"):
            i += 2
            continue
        stop = _member_end(view, i, end)
        body = next((k for k in range(i, stop) if view.words[k] == "{"), None)
        method = _function(view, i, body, made.name) if body is not None else None
        words = view.words[i:stop]
        if method:
            made.methods.setdefault(method.name, []).append(method)
        elif "(" not in words and "friend" not in words:
            _fields(words, made)
        i = stop


def _member_end(view: Expressions, at: int, end: int) -> int:
    """As _statement_end; the initialisers of a constructor may be in braces."""
    i = at
    while i < end:
        word, close = view.words[i], view.partner.get(i)
        if word == ";":
            return i + 1
        if word == "{" and close is not None:
            previous, after = view.words[i - 1], view.words[close + 1] if close + 1 < end else ""
            if after in (";", ",") or (after == "{" and re.match(r"\w+$", previous)):
                i = close + 1
                continue
            return close + 1
        i = i + 1 if close is None else close + 1
    return end


def _fields(words: list[str], made: Class) -> None:
    """Adds the members that a declaration names, each with its own type: `*` and the lengths of arrays included."""
    base: list[str] = []
    for part in _listed([w for w in words if w not in (";", "static", "constexpr", "mutable")]):
        start = next((i for i, w in enumerate(part) if w in ("=", "{")), len(part))
        head, initial = part[:start], part[start + 1 :]
        if part[start : start + 1] == ["{"]:
            initial = initial[:-1]
        array = head[head.index("[") :] if "[" in head else []
        head = head[: len(head) - len(array)]
        if not head or not re.match(r"[A-Za-z_]\w*$", head[-1]) or (not base and len(head) < 2):
            return
        kind = [*base, *head[:-1]]
        base = base or [w for w in kind if w not in ("*", "&")]
        made.fields.append((head[-1], [*kind, *array], initial))


def _listed(words: list[str]) -> list[list[str]]:
    """The parts between commas outside all brackets, those of template arguments included."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in ("(", "[", "{", "<")) - (word in (")", "]", "}", ">"))
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
