"""Rewrites every use of a kernel's block index: in the kernel, in macros, and in device functions reached from it.

A device function that other kernels use too is copied for the kernel, so that they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hipsynth.core.errors import BadInput
from hipsynth.source.declarations import FunctionDeclaration, MacroText
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.includes import REST_OF_LINE
from hipsynth.source.outline import blank_opaque
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.program import read_parsed_program

_SPELLED = re.compile(r"hipBlockIdx_([xyz])|__builtin_amdgcn_workgroup_id_([xyz])")
_TOGETHER = re.compile(r"cooperative_groups|this_grid|grid_group|group_index|__ockl_get_group_id|get_group_id")
_BUILTIN = re.compile(r"__builtin_amdgcn_workgroup_id_[xyz]")
_LOOPS = frozenset({"for", "while"})
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)", re.M)
_REST_OF_LINE = re.compile(REST_OF_LINE)


@dataclass(frozen=True)
class FunctionDefinition:
    """A function's definition: bytes [start, end), tokens [first, last) between the braces; `words` are all words in
    it, `uses` the tokens that name the block index."""

    name: str
    kernel: bool
    start: int
    end: int
    named: int  # token of its name
    first: int
    last: int
    words: frozenset[str]
    uses: tuple[int, ...]


@dataclass(frozen=True)
class IndexMacro:
    """A macro's definition, its words, and the uses of the block index in it. `named`: where its name begins; `end`: of
    the definition."""

    name: str
    named: int
    end: int
    words: frozenset[str]
    uses: tuple[tuple[int, int, str], ...]  # [start, end) of the bytes, and the axis or ""


@dataclass(frozen=True)
class BlockIndexProgram:
    """A parsed program, as far as block indices matter."""

    text: str
    unit: ParsedUnit = field(repr=False)
    tokens: tuple[Token, ...] = field(repr=False)
    functions: tuple[FunctionDefinition, ...]
    macros: tuple[IndexMacro, ...]

    @property
    def kernels(self) -> dict[str, FunctionDefinition]:
        return {function.name: function for function in self.functions if function.kernel}

    def reached(self, kernel: FunctionDefinition) -> tuple[list[FunctionDefinition], list[IndexMacro]]:
        """The kernel with the functions and macros that it may use, by name: overloads count as one."""
        visited: set[str] = set()
        functions, macros = [kernel], []
        todo = set(kernel.words)
        while todo:
            visited |= todo
            more: set[str] = set()
            for function in self.functions:
                if function.name in todo and not function.kernel:
                    functions.append(function)
                    more |= function.words
            for macro in self.macros:
                if macro.name in todo:
                    macros.append(macro)
                    more |= macro.words
            todo = more - visited
        return list(dict.fromkeys(functions)), macros


def read_source(text: str, arch: str, flags: str = "") -> BlockIndexProgram:
    """Parses a program in the sandbox, with the macros of compiler flags. Raises BadInput without a kernel or for code
    that cannot be parsed."""
    parsed = read_parsed_program(text, arch, flags)
    user = {start for start, referents in parsed.referents.items() if any(entity.user for entity in referents)}
    functions = tuple(_function(parsed.tokens, function, user) for function in parsed.functions)
    return BlockIndexProgram(text, parsed.unit, parsed.tokens, functions, tuple(map(_macro, parsed.macros)))


def refusal(source: BlockIndexProgram, name: str) -> str:
    """Why a kernel's work-groups cannot be mapped, as far as its text tells; "" if they can."""
    same = [function for function in source.functions if function.kernel and function.name == name]
    if len(same) != 1:
        return "the file does not define it" if not same else "several kernels have its name"
    functions, macros = source.reached(same[0])
    if any(function.name == call_of(name) for function in source.functions):
        return f"it is mapped already, by {call_of(name)}()"
    words = frozenset().union(*(function.words for function in functions), *(function.words for function in macros))
    for word in sorted(words):
        if _TOGETHER.fullmatch(word):
            return f"it uses {word}: a cooperative kernel, whose groups know their places"
    for macro in macros:
        if any(_BUILTIN.fullmatch(word) for word in macro.words):
            return f"the macro {macro.name} calls a built-in function of the compiler for its block index"
    if any(_strides(source, function) for function in functions):
        return "it is persistent: its groups step through the work by gridDim, which maps the work already"
    if not any(function.uses for function in functions) and not any(function.uses for function in macros):
        return "it does not use its block index: its groups are all alike, or take work from a queue"
    return ""


def _strides(source: BlockIndexProgram, function: FunctionDefinition) -> bool:
    """Whether a loop of the function advances by something with gridDim, directly or through one variable."""
    texts = [t.text for t in source.tokens[function.first : function.last]]
    if "gridDim" not in texts or not _LOOPS & set(texts):
        return False
    steps = {"gridDim"}
    for i, text in enumerate(texts):
        if text == "=" and i > 0:
            stop = next((j for j in range(i, len(texts)) if texts[j] == ";"), len(texts))
            if "gridDim" in texts[i:stop]:
                steps.add(texts[i - 1])
    for i, text in enumerate(texts):
        if text == "+=":
            stop = next((j for j in range(i, len(texts)) if texts[j] in (";", ")", "{")), len(texts))
            if steps & set(texts[i:stop]):
                return True
    return False


def patched(source: BlockIndexProgram, functions: Mapping[str, str]) -> str:
    """The program with the kernels' block indices replaced.

    `functions`: kernel -> definition of the device function `swizzled_KERNEL()` that returns the block to compute.
    """
    edits: list[Edit] = []
    shared = {name: _clones(source, name) for name in functions}
    for name in functions:
        edits += _kernel_edits(source, name, shared[name])
    at = _insertion_point(source)
    if functions:
        edits.append(Edit(at, at, "\n" + "\n".join(functions[name] for name in functions)))
    return edit_text(source.unit.text, _joined(edits))


def _joined(edits: Iterable[Edit]) -> list[Edit]:
    """Edits with all insertions at one place as one."""
    joined: dict[tuple[int, int], str] = {}
    for edit in edits:
        at = (edit.start, edit.end)
        joined[at] = joined.get(at, "") + edit.text if edit.start == edit.end else edit.text
    return [Edit(start, end, text) for (start, end), text in joined.items()]


def call_of(kernel: str) -> str:
    """The name of the function that returns the block that a kernel's work-group computes."""
    return f"swizzled_{kernel}"


def _clones(source: BlockIndexProgram, kernel: str) -> frozenset[str]:
    """The functions that the kernel needs in a copy of its own: those that lead to the block index, and that other
    kernels reach too. Raises BadInput for methods, which have no copies, and for macros that the kernel does not use
    itself."""
    mine, macros = source.reached(source.kernels[kernel])
    others = [source.reached(function) for name, function in source.kernels.items() if name != kernel]
    reached = {function.name for functions, _ in others for function in functions}
    shared = _shared_macros(source, kernel)
    users = [function.words for function in mine if function is not source.kernels[kernel]] + [
        function.words for function in macros
    ]
    if any(macro.name in words for macro in shared for words in users):
        raise _shared_by("a macro of a macro or function")
    leading = _leading(mine, macros)
    clones = frozenset(
        function.name
        for function in mine
        if function.name in leading and function.name in reached and not function.kernel
    )
    if any(source.tokens[function.named - 1].text in ("::", "~") for function in mine if function.name in clones):
        raise _shared_by("a method")
    if any(clones & macro.words for macro in macros):
        raise _shared_by("a function that a macro calls")
    return clones


def _shared_macros(source: BlockIndexProgram, kernel: str) -> list[IndexMacro]:
    """The macros with the block index that other kernels use, too: the kernel gets copies of its own."""
    others = [source.reached(base_kernel)[1] for name, base_kernel in source.kernels.items() if name != kernel]
    mine = source.reached(source.kernels[kernel])[1]
    return [macro for macro in mine if macro.uses and any(macro in theirs for theirs in others)]


def _shared_by(subject: str) -> BadInput:
    return BadInput(f"{subject} with the block index is used by other kernels too", remedy="give the kernel its own")


def _leading(functions: Sequence[FunctionDefinition], macros: Sequence[IndexMacro]) -> set[str]:
    """Names of the functions and macros that use the block index, themselves or through others."""
    names = {function.name for function in functions if function.uses} | {
        function.name for function in macros if function.uses
    }
    users: list[FunctionDefinition | IndexMacro] = [*functions, *macros]
    while True:
        more = {function.name for function in users if function.words & names} - names
        if not more:
            return names
        names |= more


def _kernel_edits(source: BlockIndexProgram, kernel: str, clones: frozenset[str]) -> Iterator[Edit]:
    functions, macros = source.reached(source.kernels[kernel])
    call = call_of(kernel)
    for function in functions:
        inside = [*_uses(source, function, call), *_renamed(source, function, clones, kernel)]
        if function.name not in clones:
            yield from inside
            continue
        start, end = function.start, function.end
        name = source.tokens[function.named]
        inside = [edit for edit in inside if (edit.start, edit.end) != (name.start, name.end)]
        inside.append(Edit(name.start, name.end, f"{function.name}_{call}"))
        moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in inside]
        text = edit_text(source.unit.text[start:end], moved)
        yield Edit(end, end, f"\n\n{text}")
    shared = _shared_macros(source, kernel)
    for macro in macros:
        inside = [Edit(start, end, f"{call}()" + (f".{axis}" if axis else "")) for start, end, axis in macro.uses]
        if macro in shared:
            yield from _own_macro(source, macro, kernel, inside)
        else:
            yield from inside


def _own_macro(source: BlockIndexProgram, macro: IndexMacro, kernel: str, inside: Sequence[Edit]) -> Iterator[Edit]:
    """A copy of a macro behind it, and its uses in the kernel."""
    name, base = f"{macro.name}_{call_of(kernel)}", macro.named
    length = len(macro.name.encode())
    moved = [Edit(0, length, name), *(Edit(macro.start - base, macro.end - base, macro.text) for macro in inside)]
    text = edit_text(source.unit.text[base : macro.end], moved)
    yield Edit(macro.end, macro.end, f"\n#define {text}")
    function = source.kernels[kernel]
    for token in source.tokens[function.first : function.last]:
        if token.text == macro.name:
            yield Edit(token.start, token.end, name)


def _uses(source: BlockIndexProgram, function: FunctionDefinition, call: str) -> Iterator[Edit]:
    for i in function.uses:
        token = source.tokens[i]
        spelled = _SPELLED.fullmatch(token.text)
        if not spelled:
            yield Edit(token.start, token.end, f"{call}()")
        elif spelled[1]:
            yield Edit(token.start, token.end, f"{call}().{spelled[1]}")
        else:  # __builtin_amdgcn_workgroup_id_x()
            yield Edit(token.start, source.tokens[i + 2].end, f"{call}().{spelled[2]}")


def _renamed(
    source: BlockIndexProgram, function: FunctionDefinition, clones: frozenset[str], kernel: str
) -> Iterator[Edit]:
    for token in source.tokens[function.first : function.last]:
        if token.text in clones and token.identifier:
            yield Edit(token.start, token.end, f"{token.text}_{call_of(kernel)}")


def _function(tokens: Sequence[Token], definition: FunctionDeclaration, user: set[int]) -> FunctionDefinition:
    """A definition in the file; `user`: offsets of tokens that name something that the file declares."""
    words = frozenset(token.text for token in tokens[definition.named + 1 : definition.last] if token.identifier)
    uses = tuple(i for i in range(definition.first, definition.last) if _is_block_index(tokens, i, user))
    return FunctionDefinition(
        definition.name,
        definition.kernel,
        definition.start,
        definition.end,
        definition.named,
        definition.first,
        definition.last,
        words,
        uses,
    )


def _is_block_index(tokens: Sequence[Token], at: int, user: set[int]) -> bool:
    token = tokens[at]
    spelled = _SPELLED.fullmatch(token.text)
    if spelled and spelled[2]:
        return True
    named = token.text == "blockIdx" or spelled is not None
    return named and token.start not in user and tokens[at - 1].text not in (".", "->", "::")


def _macro(definition: MacroText) -> IndexMacro:
    base = definition.text_start
    uses = [(base + m.start(), base + m.end(), "") for m in re.finditer(r"\bblockIdx\b", definition.text)]
    uses += [(base + m.start(), base + m.end(), m[1]) for m in re.finditer(r"\bhipBlockIdx_([xyz])\b", definition.text)]
    return IndexMacro(definition.name, definition.start, definition.end, definition.words, tuple(uses))


def _insertion_point(source: BlockIndexProgram) -> int:
    """Behind the last #include that stands in no #if but those around all functions; if there is none, behind the #if
    with an #include; before any function."""
    flat = source.unit.text.decode("latin-1")  # offsets are those of bytes
    first = min(function.start for function in source.functions)
    last = max(function.end for function in source.functions)
    includes, conditions = _read_conditions(flat)
    conditions = [(start, end) for start, end in conditions if end < last]
    outside, inside = [0], [0]
    for include in includes:
        around = [end for start, end in conditions if start < include < end]
        if include < first and max(around, default=0) < first:
            (inside if around else outside).append(_find_line_end(flat, max(around, default=include)))
    before_functions = flat.rfind("\n", 0, first) + 1 if min(includes, default=first) < first else 0
    return max(outside) or max(inside) or before_functions


def _read_conditions(flat: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Where each #include is, and from where to where each branch of an #if reaches, as far as the text has its end."""
    includes: list[int] = []
    conditions: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in _DIRECTIVE.finditer(blank_opaque(flat)):
        word, at = match[1], match.start()
        if word == "include":
            includes.append(at)
        elif word.startswith("if"):
            opened.append(at)
        elif word.startswith(("endif", "else", "elif")) and opened:
            conditions.append((opened[-1], at))
            if word == "endif":
                opened.pop()
    return includes, conditions


def _find_line_end(flat: str, at: int) -> int:
    """Behind the line of a directive, or behind the comment that goes on in the next one."""
    match = _REST_OF_LINE.match(flat, at)
    end = match.end() if match else at
    return flat.find("*/", end) + 2 if flat.startswith("/*", end) else end + 1
