"""Loops of small launches, as those over the diagonals of a table: one launch of one work-group makes all passes, with
a barrier after each launch.

A launch of a few thousand work-items takes as long as an empty one, so a group that takes them in turn is faster. It
applies to a `for` loop that does nothing but compute numbers, launch kernels and swap arrays. The kernels become
functions of the device, called for each number of a work-item; the loop itself moves into the new kernel, with the
host's names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.declarations import KERNEL_MARK
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.tuning.optimize.function_text import choose_free_name, wrap_parameters
from hipsynth.tuning.optimize.fused_program import Fusion
from hipsynth.tuning.optimize.group_places import OWN_NUMBER
from hipsynth.tuning.optimize.host_loop import HostLoop, HostVariables, read_host_loop
from hipsynth.tuning.optimize.kernel_fusion_launches import has_one_axis
from hipsynth.tuning.optimize.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood

LANES = 1024
_OWN_TOKENS = 11  # of such a number: three names with a member each, and two operators
_NUMBERS = ("blockIdx", "blockDim", "threadIdx")
_BEFORE = frozenset({
    "(", "=", ",", "+", "return", "[", "{", ";", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ":",
})  # fmt: skip
_AFTER_BINDS = frozenset({"*", "/", "%", ".", "[", "++", "--", "("})


def find_launch_loops(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with all launches of one such loop in one, for each loop."""
    launches = sorted(((each, k) for k in program.kernels for each in k.launches), key=lambda pair: pair[0].start)
    while launches:
        try:
            loop = read_host_loop(program, launches[0][0])
            within = [pair for pair in launches if loop.start <= pair[0].start < loop.end]
            yield _OneGroup(program, loop, within).write_program()
        except NotUnderstood:
            within = launches[:1]
        launches = [pair for pair in launches if pair not in within]


@dataclass(frozen=True)
class _OneGroup:
    program: ParsedProgram
    loop: HostLoop
    launches: Sequence[tuple[LaunchStatement, KernelDefinition]]

    def write_program(self) -> Fusion:
        """Raises NotUnderstood for kernels of another form."""
        kernels = {kernel.name: kernel for _, kernel in self.launches}
        if len(kernels) != len(self.launches):
            raise NotUnderstood("a kernel that is launched twice in a pass")
        edits = [edit for pair in self.launches for edit in self._turn_into_function(*pair)]
        last = max(kernels.values(), key=lambda kernel: kernel.end)
        name = choose_free_name(f"{last.name}_passes", self.program.text)
        host = HostVariables(self.program, self.loop, tuple(self.launches))
        kernel = self._write_kernel(name, host)
        edits.append(Edit(last.end, last.end, f"\n\n{kernel}"))
        launch = f"{name}<<<1, {LANES}>>>({', '.join(host.arguments)});"
        edits.append(Edit(self.loop.start, self.loop.end, self._write_host_lines(launch)))
        text = apply_edits(self.program.unit.text, edits).decode(errors="surrogateescape")
        return Fusion(text, name, tuple(kernels), one_group=True)

    def _turn_into_function(self, launch: LaunchStatement, kernel: KernelDefinition) -> list[Edit]:
        """The edits that make a kernel a function of the number of a work-item. Raises NotUnderstood."""
        program, tokens = self.program, self.program.tokens
        named = sum(token.text == kernel.name for token in tokens)
        if not kernel.independent or kernel.template or launch.template or launch.rest or named != 2:
            raise NotUnderstood("a kernel whose work-items depend on their group, or that is launched elsewhere")
        if not (has_one_axis(program, launch.grid) and has_one_axis(program, launch.block)):
            raise NotUnderstood("launches of more than one axis")
        item = self._choose_item(kernel)
        edits = [
            Edit(tokens[i].start, tokens[i + _OWN_TOKENS - 1].end, item)
            for i in range(kernel.first, kernel.last)
            if self._is_own_number(i)
        ]
        words = [tokens[i].text for i in range(kernel.first, kernel.last)]
        if any(words.count(name) != len(edits) for name in _NUMBERS) or "gridDim" in words or not edits:
            raise NotUnderstood("work-items that use more than their number")
        head = program.unit.text[kernel.start : tokens[kernel.first - 1].start]
        mark = KERNEL_MARK.encode()
        if head.count(mark) != 1 or not head.rstrip().endswith(b")"):
            raise NotUnderstood("a kernel of another form")
        begin, close = kernel.start + head.index(mark), kernel.start + len(head.rstrip()) - 1
        return [Edit(begin, begin + len(mark), "__device__"), Edit(close, close, f", unsigned {item}"), *edits]

    def _choose_item(self, kernel: KernelDefinition) -> str:
        tokens = self.program.tokens[kernel.first : kernel.last]
        return choose_free_name("item", " ".join([*(t.text for t in tokens), *(p.name for p in kernel.parameters)]))

    def _is_own_number(self, at: int) -> bool:
        """Whether the number of a work-item in the grid begins at a token, as a summand or a whole."""
        tokens = self.program.tokens[at : at + _OWN_TOKENS]
        words = "".join(token.text for token in tokens)
        if not OWN_NUMBER.fullmatch(words):
            return False
        before, after = self.program.tokens[at - 1].text, self.program.tokens[at + _OWN_TOKENS].text
        return before in _BEFORE and after not in _AFTER_BINDS

    def _write_kernel(self, name: str, host: HostVariables) -> str:
        """The kernel that makes all passes."""
        taken = " ".join([host.text, self.loop.text])
        item = choose_free_name("item", taken)
        lines = [f"  {line}" for line in host.arrays]
        lines.append(f"  for {self.loop.head} {{")
        lines += [f"    {line}" for line in self.loop.numbers]
        for launch, kernel in self.launches:
            count = f"({launch.grid}) * ({launch.block})"
            if re.fullmatch(r"\w+", launch.block):
                count = f"({launch.grid}) * {launch.block}"
            arguments = ", ".join([*host.rename(launch, kernel), item])
            lines += [
                f"    for (unsigned {item} = threadIdx.x; {item} < {count}; {item} += blockDim.x) {{",
                f"      {kernel.name}({arguments});",
                "    }",
                "    __syncthreads();",
            ]
        if self.loop.swapped:
            first, second = self.loop.swapped
            other = choose_free_name("other", taken)
            lines += [f"    auto* const {other} = {first};", f"    {first} = {second};", f"    {second} = {other};"]
        head = wrap_parameters(f"{KERNEL_MARK} __launch_bounds__({LANES}) void {name}(", host.parameters)
        comment = "// All passes in one work-group: each needs the one before, and is too small for the device."
        return "\n".join([comment, f"{head} {{", *lines, "  }", "}"])

    def _write_host_lines(self, launch: str) -> str:
        """The launch, the host's arrays swapped as often as before, and what waited or asked for errors."""
        source = self.program.unit.text
        line = source[source.rfind(b"\n", 0, self.loop.start) + 1 : self.loop.start].decode(errors="surrogateescape")
        indent = line[: len(line) - len(line.lstrip())]
        swaps = [f"for {self.loop.head} {self.loop.swap}"] if self.loop.swapped else []
        return f"\n{indent}".join([launch, *swaps, *self.loop.waits])
