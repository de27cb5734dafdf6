"""Scans by doubling distances: the loop of launches that adds elements 1, 2, 4, ... apart becomes two launches.

The host swaps two arrays after each launch of `to[i] = i >= distance ? from[i] + from[i - distance] : from[i]`, which
computes an inclusive scan by some twenty passes over memory. Two kernels compute the same: one adds up chunks of the
array, the other scans each chunk after the sums of the chunks before it, in place. The second array then holds the sums
alone.

It applies where the kernel does nothing else, whatever its form; where the launches cover all elements; and where the
host uses the second array for nothing but the loop. The operation must be associative and commutative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.declarations import LAUNCH_CLOSE
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, find_opening, split_at
from hipsynth.tuning.optimize.analysis.pointer_copies import PointerCopies
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.scan_kernel import CHUNKS, LANES, ScanStep, read_step, write_kernels

_INTEGERS = frozenset({"int", "unsigned", "unsigned int", "long", "size_t", "unsigned long", "long long"})
_NAME = re.compile(r"[A-Za-z_]\w*")
_STEPS = ("{0}*=2", "{0}<<=1", "{0}+={0}", "{0}={0}*2", "{0}=2*{0}", "{0}={0}<<1", "{0}={0}+{0}")
_WAITS = frozenset({"hipDeviceSynchronize();", "(void)hipDeviceSynchronize();"})
_MOST_DEPTH = 4  # of names that stand for other names in a launch's shape


def find_scans(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with one such loop replaced, for each."""
    for kernel in program.kernels:
        for launch in kernel.launches:
            try:
                fusion = _read_scan(program, kernel, launch).write_program()
            except NotUnderstood:
                continue
            yield fusion


@dataclass(frozen=True)
class _HostLoop:
    """`for (...) { launch; swap(one, other); }`: its bytes, and the arrays that the launch reads and writes."""

    start: int
    end: int
    first: str
    second: str


def _read_scan(program: ParsedProgram, kernel: KernelDefinition, launch: LaunchStatement) -> _Scan:
    is_plain = not (kernel.template or launch.template or kernel.fixed or kernel.together)
    if not is_plain or kernel.is_overloaded(program.kernels):
        raise NotUnderstood("a kernel of another form")
    if launch.rest[:1] not in ((), ("0",)):
        raise NotUnderstood("a launch with LDS")
    step = read_step(program, kernel)
    passed = dict(zip((parameter.name for parameter in kernel.parameters), launch.arguments, strict=True))
    types = {parameter.name: parameter.type.replace("const", "").strip() for parameter in kernel.parameters}
    if types[step.count] not in _INTEGERS or types[step.distance] not in _INTEGERS:
        raise NotUnderstood("a number of elements of another type")
    host = _Host(program)
    loop = host.read_loop(launch, passed[step.distance], passed[step.count])
    if (loop.first, loop.second) != (passed[step.source], passed[step.target]):
        raise NotUnderstood("other arrays are swapped")
    if not host.covers(launch, passed[step.count]):
        raise NotUnderstood("launches that may leave out elements")
    memory = host.read_scratch(loop)
    return _Scan(program, kernel, launch, step, loop, memory, passed[step.count], types[step.count])


@dataclass(frozen=True)
class _Host:
    """Reads the host's code around a launch."""

    program: ParsedProgram

    @property
    def _tokens(self) -> tuple[Token, ...]:
        return self.program.tokens

    def _text(self, start: int, end: int) -> str:
        """The words of tokens; a space only where two names meet."""
        return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(token.text for token in self._tokens[start:end]))

    def read_loop(self, launch: LaunchStatement, distance: str, count: str) -> _HostLoop:
        tokens = self._tokens
        at = next(i for i in range(len(tokens)) if tokens[i].start == launch.start)
        if [t.text for t in tokens[at - 2 : at]] != [")", "{"]:
            raise NotUnderstood("a launch in no loop of its own")
        opening = find_opening(tokens, at - 2)
        if tokens[opening - 1].text != "for":
            raise NotUnderstood("a launch in no loop of its own")
        if not self._doubles(opening + 1, at - 2, distance, count):
            raise NotUnderstood("distances that do not double up to the number of elements")
        close = find_closing(tokens, at - 1)
        after = next((i for i in range(at, close) if tokens[i].start >= launch.end), close)
        statements = [f"{self._text(a, b)};" for a, b in split_at(tokens, after, close, ";") if a < b]
        swapped = _read_swap([text for text in statements if text not in _WAITS])
        if swapped is None:
            raise NotUnderstood("a loop that does more than swapping two arrays")
        return _HostLoop(tokens[opening - 1].start, tokens[close].end, *swapped)

    def _doubles(self, start: int, end: int, distance: str, count: str) -> bool:
        """Whether a loop's head takes a distance, or the exponent of one, from 1 to below the number of elements."""
        parts = [self._text(a, b) for a, b in split_at(self._tokens, start, end, ";")]
        begin = re.fullmatch(r"[\w ]* (\w+)=([01])", parts[0])
        if len(parts) != 3 or begin is None or not re.fullmatch(r"\w+", count):
            return False
        name, distance = begin[1], re.sub(r"\s", "", distance)
        if begin[2] == "1":
            steps = tuple(step.format(name) for step in _STEPS)
            return distance == name and parts[1] in (f"{name}<{count}", f"{count}>{name}") and parts[2] in steps
        power = f"1<<{name}"
        condition = parts[1] in (f"{power}<{count}", f"({power})<{count}", f"{count}>({power})")
        return distance == power and condition and parts[2] in (f"++{name}", f"{name}++", f"{name}+=1")

    def covers(self, launch: LaunchStatement, count: str) -> bool:
        """Whether a launch has as many groups as there are elements to a group, rounded up."""
        grid, block, named = (
            re.sub(r"^dim3\(([^,()]*)\)$", r"\1", shape)
            for shape in (self._resolve(launch.grid), self._resolve(launch.block), re.sub(r"\s", "", launch.block))
        )
        n, size = re.escape(count), f"(?:{re.escape(block)}|{re.escape(named)})"
        less = rf"(?:{int(block) - 1}|{size}-1)" if block.isdecimal() else rf"{size}-1"
        return bool(re.fullmatch(rf"\(*(?:{n}\+{less}\)/{size}|{n}-1\)/{size}\+1)\)*", grid))

    def _resolve(self, shape: str, depth: int = 0) -> str:
        """A launch's shape by the value of the variable that it names, if that never changes."""
        shape = re.sub(r"\s", "", shape)
        if match := re.fullmatch(r"dim3\(([^,]*)\)", shape):
            shape = match[1]
        if not _NAME.fullmatch(shape) or depth > _MOST_DEPTH:
            return shape
        uses = [i for i, token in enumerate(self._tokens) if token.text == shape]
        values = [value for i in uses if (value := self._read_value(i))]
        return self._resolve(values[0], depth + 1) if len(values) == 1 else shape

    def _read_value(self, at: int) -> str:
        """The value that a variable is given: `name = value;` or `dim3 name(value);`."""
        tokens = self._tokens
        if tokens[at + 1].text == "=":
            stop = next(i for i in range(at, len(tokens)) if tokens[i].text == ";")
            return self._text(at + 2, split_at(tokens, at + 2, stop, ",")[0][1])
        if tokens[at - 1].text == "dim3" and tokens[at + 1].text == "(":
            return f"dim3({self._text(at + 2, find_closing(tokens, at + 1))})"
        return "?" if tokens[at + 1].text.endswith("=") or "++" in (tokens[at + 1].text, tokens[at - 1].text) else ""

    # --- the arrays --------------------------------------------------------------------------------------------------

    def read_scratch(self, loop: _HostLoop) -> tuple[int, int]:
        """The bytes of the text that says how much memory the second array has. Raises NotUnderstood unless both are
        allocated in the same function, the second one is used for nothing else, and no other name is one of them."""
        first, second = (self._list_uses(name, loop) for name in (loop.first, loop.second))
        sizes: list[tuple[int, int]] = []
        for i in second:
            size = self._read_allocation(i)
            if size:
                sizes.append(size)
            elif not self._is_declared(i) and self._text(i - 2, i + 2) != f"hipFree({loop.second})":
                raise NotUnderstood(f"{loop.second} is used elsewhere")
        allocated = [i for i in first if self._read_allocation(i)]
        if len(sizes) != 1 or len(allocated) != 1:
            raise NotUnderstood("arrays that are not allocated once, in the same function")
        if any(not (i in allocated or self._is_declared(i) or self._is_passed(i)) for i in first):
            raise NotUnderstood(f"another name for {loop.first}")
        if PointerCopies(self.program).list_copies(first[0]):
            raise NotUnderstood(f"another name for {loop.first}")
        return sizes[0]

    def _is_passed(self, at: int) -> bool:
        """Whether a token names a pointer whose value a launch or a function takes: no method, which may keep it."""
        tokens = self._tokens
        opening = next((i for i in range(at, 0, -1) if tokens[i].text in "([{;}" and find_closing(tokens, i) > at), 0)
        if tokens[opening].text != "(" or tokens[at - 1].text == "&" or tokens[at + 1].text == "=":
            return False
        called = tokens[opening - 1]
        is_variable = any(entity.category == "variable" for entity in self.program.entities(called))
        is_plain = called.identifier and not is_variable and tokens[opening - 2].text not in (".", "->")
        return called.text == LAUNCH_CLOSE or is_plain

    def _list_uses(self, name: str, loop: _HostLoop) -> list[int]:
        """The tokens that name a variable of the loop, outside it."""
        tokens = self._tokens
        places = {
            entity.place[1]
            for token in tokens
            if token.text == name and loop.start <= token.start < loop.end
            for entity in self.program.entities(token)
            if entity.user and entity.category == "variable"
        }
        if len(places) != 1:
            raise NotUnderstood(f"{name} is no variable of this function")
        return [
            i
            for i, token in enumerate(tokens)
            if token.text == name
            and not loop.start <= token.start < loop.end
            and places & {entity.place[1] for entity in self.program.entities(token)}
        ]

    def _read_allocation(self, at: int) -> tuple[int, int] | None:
        """The bytes of the size in `hipMalloc(&name, size)`, also with a cast."""
        tokens = self._tokens
        opening = next((i for i in range(at, 0, -1) if tokens[i].text in ("hipMalloc", ";", "{", "}")), 0) + 1
        if tokens[opening - 1].text != "hipMalloc" or find_closing(tokens, opening) < at:
            return None
        parts = split_at(tokens, opening + 1, find_closing(tokens, opening), ",")
        to = self._text(*parts[0])
        if len(parts) != 2 or not re.fullmatch(
            rf"(\(void\*\*\)|reinterpret_cast<void\*\*>\()?&{tokens[at].text}\)?", to
        ):
            return None
        return tokens[parts[1][0]].start, tokens[parts[1][1] - 1].end

    def _is_declared(self, at: int) -> bool:
        """Whether a token declares a variable, which nothing or a null pointer is assigned to."""
        tokens = self._tokens
        is_declaration = any(entity.place[1] == tokens[at].start for entity in self.program.entities(tokens[at]))
        is_null = self._text(at + 1, at + 3) in ("=nullptr", "=NULL", "=0")
        return is_declaration and (is_null or tokens[at + 1].text in (",", ";", "{"))


def _read_swap(statements: list[str]) -> tuple[str, str] | None:
    """The arrays that statements swap."""
    text = "".join(statements)
    if match := re.fullmatch(r"(?:std::)?swap\((\w+),(\w+)\);", text):
        return match[1], match[2]
    match = re.fullmatch(r"(?:auto|\w+)\s*\*?\s*(?:const )?(\w+)=(\w+);(\w+)=(\w+);(\w+)=(\w+);", text)
    if match is None:
        return None
    saved, first, assigned, second, last, from_saved = match.groups()
    return (first, second) if (assigned, last, from_saved) == (first, second, saved) else None


@dataclass(frozen=True)
class _Scan:
    """A loop of launches that is a scan. `memory`: the bytes of the size of the second array; `count`: the number of
    elements, `index` its type."""

    program: ParsedProgram
    kernel: KernelDefinition
    launch: LaunchStatement
    step: ScanStep
    loop: _HostLoop
    memory: tuple[int, int]
    count: str
    index: str

    def write_program(self) -> Fusion:
        text, kernel = self.program.unit.text, self.kernel
        names = {end: choose_free_name(f"{kernel.name}_{end}", self.program.text) for end in ("sums", "scan")}
        sums, scan = names["sums"], names["scan"]
        kernels = write_kernels(self.step, sums, scan, self.index)
        others = len(kernel.launches) > 1 or self._is_declared_before()
        definition = text[kernel.start : kernel.end].decode(errors="surrogateescape") + "\n\n" if others else ""
        edits = [
            Edit(kernel.start, kernel.end, definition + kernels),
            Edit(*self.memory, f"{CHUNKS} * sizeof({self.step.type})"),
            Edit(self.loop.start, self.loop.end, self._write_launches(sums, scan)),
        ]
        return Fusion(apply_edits(text, edits).decode(errors="surrogateescape"), scan, (kernel.name,))

    def _is_declared_before(self) -> bool:
        """Whether the kernel's name stands elsewhere, in a declaration."""
        named = re.findall(rf"\b{self.kernel.name}\b", self.program.text)
        return len(named) > 1 + len(self.kernel.launches)

    def _write_launches(self, sums: str, scan: str) -> str:
        loop, n, text = self.loop, self.count, self.program.unit.text
        line = text[text.rfind(b"\n", 0, loop.start) + 1 : loop.start].decode(errors="surrogateescape")
        indent = line[: len(line) - len(line.lstrip())]
        tile = LANES * self.step.items
        rest = "".join(f", {part}" for part in self.launch.rest)
        arguments = f"({loop.first}, {loop.second}, chunk, {n})"
        lines = [
            f"if ({n} > 1) {{",
            f"  // A group scans a chunk of {loop.first}; {loop.second} has the sum of each.",
            f"  const {self.index} chunk = (({n} - 1) / {CHUNKS * tile} + 1) * {tile}, chunks = ({n} - 1) / chunk + 1;",
            f"  {sums}<<<chunks, {LANES}{rest}>>>{arguments};",
            f"  {scan}<<<chunks, {LANES}{rest}>>>{arguments};",
            "}",
        ]
        return f"\n{indent}".join(lines)
