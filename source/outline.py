"""Reads kernels, launches and macros from a text without parsing it: also half-written code that does not compile.

It looks for marks in what is left of the text after comments and literals, so that a missing bracket or an unfinished
statement costs at most the function that holds it. Takes time linear in the text. A program that compiles is read
more fully by `program.py`.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from hipsynth.source.declarations import KERNEL_MARK, FunctionDeclaration, LaunchExpression, MacroText, read_parameter

# Comments and literals, whose contents may hold any words and braces. What is not closed yet ends somewhere, too: else
# each one would be searched to the end of the text.
_SEPARATED = r"\b\d\w*(?:'\w+)+"  # a number such as 1'000, which begins no literal
_OPAQUE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(\w*)\(.*?(?:\)\1\"|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n]){1,10}'"
    rf"|(?P<number>{_SEPARATED})",
    re.DOTALL,
)
_COMMENT = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|(R\"(\w*)\(.*?(?:\)\2\"|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    rf"|{_SEPARATED})",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.M)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]*")
_ATTRIBUTE = re.compile(r"__(launch_bounds|attribute)__\s*\(")
_HEAD = re.compile(r"\s*(?:\btemplate\s*<[^{};]*>\s*)?(?:\b(?:static|inline|extern|constexpr|__forceinline__)\s+)*\Z")
_MARK = re.compile(rf"{KERNEL_MARK}\b")
_NAME = re.compile(r"[^;{(]*?\b(?!__launch_bounds__|__attribute__)(\w+)\s*(?:<[^;{}()]{0,200}>\s*)?\(")
_CHEVRONS = re.compile(r"(?<!<)<<<(?!<)")
_CALL = re.compile(r"\bhipLaunchKernel(GGL)?\s*\(")
_SPELLED = re.compile(
    r"(?:\s*\((?:\s*const)?\s*void\s*\*\s*\)|\s*reinterpret_cast\s*<[^<>]*>)?(?:\s*HIP_KERNEL_NAME)?[\s(&]*"
    r"((?:\w+\s*::\s*)*\w+)\s*(<.*>)?",
    re.DOTALL,
)
_NAMESPACE = re.compile(r"\bnamespace\s+(\w+(?:\s*::\s*(?:inline\s+)?\w+)*)\s*\Z")
_MARKS = re.compile(r"[{};]")
_SIGN = re.compile(r"\w<|[,()\[\]{}>]")
_ARGUMENT_LIST = re.compile(r"<[\w\s,<>:*&]{0,300}>")
_LOADING_CALL = re.compile(r"\bhip(?:rtcCompileProgram|Module(?:Load|Launch)\w*)\s*\(")
_OPENING = re.compile(r"\s*\(")
_SAME_KIND = {"(": re.compile(r"[()]"), "{": re.compile(r"[{}]")}
# Bounds of what is looked at, so that no text takes more than linear time.
MOST_HEAD, MOST_ATTRIBUTE, MOST_LIST, MOST_LAUNCHES = 2000, 400, 4000, 1024


def blank_opaque(text: str) -> str:
    """The text with comments and literals replaced by spaces, so that offsets and lines stay."""
    return _OPAQUE.sub(_blank_match, text)


def _blank_match(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "number" else _blank_letters(match[0])


def _blank_letters(text: str) -> str:
    return " " * len(text) if "\n" not in text else re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """The text with each comment replaced by a space; literals are kept."""
    return _COMMENT.sub(lambda match: match[1] or " ", text)


def has_kernel_mark(text: str) -> bool:
    """Whether the text holds the mark of kernels anywhere, comments included."""
    return KERNEL_MARK in text


def count_kernel_marks(text: str) -> int:
    """How often the text holds the mark of kernels, comments included: at least the number of its kernels."""
    return text.count(KERNEL_MARK)


def kernel_names(text: str) -> list[str]:
    """The names of the kernels that a text defines or begins to define, each once, in source order."""
    return list(dict.fromkeys(kernel.name for kernel in outline_kernels(text)))


def loads_kernels(text: str) -> bool:
    """Whether host code in a text loads kernels, or compiles them, while it runs."""
    return bool(_LOADING_CALL.search(text))


def declared_kernels(text: str) -> frozenset[str]:
    """The names of the kernels that a text defines or declares."""
    return frozenset(declaration.name for declaration in _read_declarations(text))


def outline_kernels(text: str, most: int | None = None) -> tuple[FunctionDeclaration, ...]:
    """The kernels that a text defines or begins to define, in source order; at most `most` of them."""
    return tuple(declaration for declaration in _read_declarations(text) if declaration.defined)[:most]


@functools.lru_cache(maxsize=16)
def _read_declarations(text: str) -> tuple[FunctionDeclaration, ...]:
    return tuple(_find_kernels(text)) if has_kernel_mark(text) else ()


def parameter_names(text: str, kernel: str) -> tuple[str, ...]:
    """The parameter names of a kernel as its definition has them, else its last declaration, which may be the only one
    with names; () if there is none."""
    named = [declaration for declaration in _read_declarations(text) if declaration.name == kernel]
    best = max(enumerate(named), key=lambda pair: (pair[1].defined, pair[0]), default=(0, None))[1]
    return () if best is None else tuple(declaration.name for declaration in best.parameters)


class _Code:
    """A text without comments, literals, directives and attributes, and where its brackets are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.directives = blank_opaque(text)
        self.code = _DIRECTIVE.sub(_blank_match, self.directives)
        self.attributes = list(_find_attributes(self.code))
        pieces, at = [], 0
        for _, start, end in self.attributes:
            pieces += [self.code[at:start], _blank_letters(self.code[start:end])]
            at = end
        self.bare = "".join([*pieces, self.code[at:]])
        self.marks = [match.start() for match in _MARKS.finditer(self.bare)]
        self.ends = self._match_braces()

    def _match_braces(self) -> dict[int, int]:
        """Offset of an opening brace -> that of its closing one; those without one are left out."""
        pairs, opened = {}, []
        for at in self.marks:
            if self.bare[at] == "{":
                opened.append(at)
            elif opened and self.bare[at] == "}":
                pairs[opened.pop()] = at
        return pairs

    def next_mark(self, at: int) -> int:
        """Where the first brace or semicolon from `at` is; the end of the text if there is none."""
        place = bisect_left(self.marks, at)
        return self.marks[place] if place < len(self.marks) else len(self.bare)

    def previous_mark(self, at: int) -> int:
        """The position behind the last brace or semicolon before `at`."""
        place = bisect_left(self.marks, at)
        return self.marks[place - 1] + 1 if place else 0

    def launch_bounds(self, start: int, end: int) -> str:
        """The arguments of the first __launch_bounds__ in a range; "" without one."""
        place = bisect_left(self.attributes, start, key=lambda one: one[1])
        for kind, first, last in self.attributes[place:]:
            if first >= end:
                break
            if kind == "launch_bounds":
                return self.text[self.text.index("(", first) + 1 : last - 1].strip()
        return ""


def _find_attributes(code: str) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of each attribute whose parentheses close."""
    match_end = 0
    for match in _ATTRIBUTE.finditer(code):
        limit = match.end() + MOST_ATTRIBUTE
        close = find_closing_bracket(code, match.end() - 1, limit) if match.start() >= match_end else limit
        if close < limit and not re.search(r"[{;]", code[match.start() : close]):
            match_end = close + 1
            yield match[1], match.start(), match_end


def _find_kernels(text: str) -> Iterator[FunctionDeclaration]:
    """Definitions and declarations of kernels. None reaches into the next: kernels do not nest."""
    read = _Code(text)
    places = [match.start() for match in _marks_of(read).finditer(read.bare)]
    starts = [_start_of_kernel(read, mark, before) for before, mark in zip([0, *places], places, strict=False)]
    for mark, start, limit in zip(places, starts, [*starts[1:], len(text)], strict=False):
        after = re.compile(r"\w+").match(read.bare, mark)
        name = _NAME.match(read.bare, after.end() if after else mark, limit)
        if name is not None:
            yield _read_kernel(read, (mark, start, limit), name)


def _marks_of(read: _Code) -> re.Pattern[str]:
    """What begins a kernel: the mark, or a macro without parameters that holds it."""
    if read.directives.count(KERNEL_MARK) == read.code.count(KERNEL_MARK):
        return _MARK
    macros = [macro.name for macro in _find_macros(read.directives, KERNEL_MARK) if macro.parameters is None]
    return re.compile(rf"\b(?:{'|'.join([KERNEL_MARK, *map(re.escape, macros)])})\b")


def _start_of_kernel(read: _Code, mark: int, before: int) -> int:
    """Where the declaration with a kernel's mark begins: with its template, attributes and `static`."""
    head = _HEAD.search(read.bare, max(read.previous_mark(mark), before, mark - MOST_HEAD), mark)
    start = head.start() if head else mark
    return mark - len(read.code[start:mark].lstrip())


def _read_kernel(read: _Code, place: tuple[int, int, int], name: re.Match[str]) -> FunctionDeclaration:
    """The kernel with its mark, its start and the start of the next one at `place`."""
    mark, start, most = place
    limit = min(read.next_mark(name.end()), most)
    close = find_closing_bracket(read.bare, name.end() - 1, limit)
    defined = limit == most or read.bare[limit] != ";" or bool(read.bare[close + 1 : limit].strip()) or close == limit
    begun = limit < most and read.bare[limit] == "{"
    end = read.ends.get(limit, most) if begun else limit
    closed = begun and end < most
    end = min(end, most)
    head = read.text[start:mark].strip()
    template = head if read.code.startswith("template", start) else ""
    return FunctionDeclaration(
        name[1],
        True,
        start,
        end + closed,
        name.start(1),
        (limit + 1, end) if begun else (end, end),
        tuple(read_parameter(part) for part in split_commas(read.code[name.end() : close]) if part.strip()),
        template,
        _template_names(template),
        read.launch_bounds(start, limit),
        defined,
        closed,
    )


def _template_names(template: str) -> tuple[str, ...]:
    start, end = template.find("<"), template.rfind(">")
    return tuple(read_parameter(part).name for part in split_commas(template[start + 1 : end])) if start >= 0 else ()


def find_namespaces(text: str, at: int) -> str:
    """The named namespaces around a place, `a::b`; "" if there are none."""
    code = _DIRECTIVE.sub(_blank_match, blank_opaque(text)[:at])
    opened: list[str] = []
    start = 0
    for mark in _MARKS.finditer(code):
        if mark[0] == "{":
            name = _NAMESPACE.search(code, max(start, mark.start() - MOST_HEAD), mark.start())
            opened.append("".join(re.sub(r"\binline\b", "", name[1]).split()) if name else "")
        elif mark[0] == "}" and opened:
            opened.pop()
        start = mark.end()
    return "::".join(filter(None, opened))


def find_closing_bracket(code: str, at: int, limit: int | None = None) -> int:
    """Where the parenthesis or brace at `at` closes; `limit`, or the end of the code, if it does not before that."""
    end, depth = len(code) if limit is None else limit, 0
    for match in _SAME_KIND[code[at : at + 1]].finditer(code, at, end):
        depth += 1 if match[0] in "({" else -1
        if depth == 0:
            return match.start()
    return end


def split_commas(text: str, code: str = "") -> list[str]:
    """The parts of a list between the commas that stand in no brackets, nor in the angle brackets of a template.

    `code`: the text without comments and literals, if it has any.
    """
    parts, depth, angles, start = [], 0, 0, 0
    code = code or text
    for match in _SIGN.finditer(code):
        sign = match[0][-1]
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "<":
            angles += bool(angles or _ARGUMENT_LIST.match(code, match.end() - 1))
        elif sign == ">":
            angles = max(0, angles - 1)
        elif sign == "," and depth == 0 and angles == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def outline_launches(text: str) -> tuple[LaunchExpression, ...]:
    """The launches of a text: <<< >>>, hipLaunchKernelGGL, hipLaunchKernel; at most MOST_LAUNCHES of each."""
    read = blank_opaque(text)
    launches = [_read_chevrons(text, read, match) for match in islice(_CHEVRONS.finditer(read), MOST_LAUNCHES)]
    launches += [_read_launch_call(text, read, match) for match in islice(_CALL.finditer(read), MOST_LAUNCHES)]
    return tuple(sorted((launch for launch in launches if launch is not None), key=lambda one: one.start))


def _read_chevrons(text: str, read: str, match: re.Match[str]) -> LaunchExpression | None:
    close = read.find(">>>", match.end(), match.end() + MOST_LIST)
    if close < 0:
        return None
    start, template = _spelled_before(read, match.start())
    shape = split_commas(text[match.end() : close], read[match.end() : close])
    after = _OPENING.match(read, close + 3)
    end = close + 3
    arguments: list[str] = []
    if after is not None:
        end = find_closing_bracket(read, after.end() - 1, min(after.end() + MOST_LIST, len(read)))
        arguments = split_commas(text[after.end() : end], read[after.end() : end])
        end = min(end + 1, len(read))
    name = "".join(read[start : match.start() - len(template)].split())
    return LaunchExpression(name, template.strip(), start, end, _strip_parts(shape), _strip_parts(arguments))


def _spelled_before(read: str, at: int) -> tuple[int, str]:
    """Where the name of a kernel before `at` begins, and its template arguments with the blanks around them."""
    least = max(0, at - MOST_HEAD)
    name_end = least + len(read[least:at].rstrip())
    if read[name_end - 1 : name_end] == ">":
        depth = 0
        for i in range(name_end - 1, least - 1, -1):
            depth += (read[i] == ">") - (read[i] == "<")
            if depth == 0:
                name_end = least + len(read[least:i].rstrip())
                break
    start = name_end
    while start > least and (read[start - 1].isalnum() or read[start - 1] in "_:"):
        start -= 1
    return start, read[name_end:at]


def _read_launch_call(text: str, read: str, match: re.Match[str]) -> LaunchExpression | None:
    end = find_closing_bracket(read, match.end() - 1, min(match.end() + MOST_LIST, len(read)))
    parts = split_commas(text[match.end() : end], read[match.end() : end])
    kernel = _SPELLED.match(parts[0])
    if len(parts) < 3 or kernel is None:
        return None
    name, template, end = "".join(kernel[1].split()), (kernel[2] or "").strip(), min(end + 1, len(read))
    if match[1]:  # kernel, grid, block, LDS bytes, stream, arguments
        return LaunchExpression(
            name, template, match.start(), end, _strip_parts(parts[1:5]), _strip_parts(parts[5:]), False
        )
    # kernel, grid, block, an array of pointers to the arguments, LDS bytes, stream
    return LaunchExpression(name, template, match.start(), end, _strip_parts([*parts[1:3], *parts[4:]]), (), False)


def _strip_parts(parts: Sequence[str]) -> tuple[str, ...]:
    stripped = tuple(part.strip() for part in parts)
    return () if stripped == ("",) else stripped


def outline_macros(text: str) -> tuple[MacroText, ...]:
    """The macros that a text defines, without the comments and literals in them, in source order."""
    return tuple(_find_macros(blank_opaque(text)))


def _find_macros(read: str, word: str = "") -> Iterator[MacroText]:
    """The macros whose definitions hold a word. `read`: the text without comments and literals."""
    for line in _DIRECTIVE.finditer(read):
        if word not in line[0]:
            continue
        head = _DEFINE.match(read, line.start(), line.end())
        if head is not None:
            parameters = (
                None if head[2] is None else tuple(part.strip() for part in head[2][1:-1].split(",") if part.strip())
            )
            body = read[head.end() : line.end()]
            yield MacroText(head[1], parameters, body.rstrip(), head.start(1), line.end(), head.end())
