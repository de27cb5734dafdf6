"""Loops of small launches, as those over the diagonals of a table: one launch of one work-group makes all passes, with
a barrier after each launch.

A launch of a few thousand work-items takes as long as an empty one, so a group that takes them in turn is faster. It
applies to a `for` loop that does nothing but compute numbers, launch kernels and swap arrays. The kernels become
functions of the device, called for each number of a work-item; the loop itself moves into the new kernel, with the
host's names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.declarations import KERNEL_MARK
from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name, wrap_parameters
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.host_loop import HostLoop, HostVariables, read_host_loop
from hipsynth.tuning.optimize.kernel_fusion.item_numbers import number_items
from hipsynth.tuning.optimize.kernel_fusion.joinable_kernels import check_joinable
from hipsynth.tuning.optimize.program_edits import edit_program

LANES = 1024


def find_launch_loops(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with all launches of one such loop in one, for each loop."""
    launches = sorted(((each, k) for k in program.kernels for each in k.launches), key=lambda pair: pair[0].start)
    visited = -1
    for launch, _ in launches:
        with contextlib.suppress(NotUnderstood):
            loop = read_host_loop(program, launch)
            if loop.start > visited:
                visited = loop.start
                within = [pair for pair in launches if loop.start <= pair[0].start < loop.end]
                yield _OneGroup(program, loop, within).write_program()


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
        text = edit_program(self.program, edits)
        return Fusion(text, name, tuple(kernels), one_group=True)

    def _turn_into_function(self, launch: LaunchStatement, kernel: KernelDefinition) -> list[Edit]:
        """The edits that make a kernel a function of the number of a work-item. Raises NotUnderstood."""
        program = self.program
        if sum(token.text == kernel.name for token in program.tokens) != 2:
            raise NotUnderstood("a kernel that is launched elsewhere")
        check_joinable(program, kernel)
        item, edits = number_items(program, launch, kernel)
        head = program.unit.text[kernel.start : program.tokens[kernel.first - 1].start]
        mark = KERNEL_MARK.encode()
        if head.count(mark) != 1 or not head.rstrip().endswith(b")"):
            raise NotUnderstood("a kernel of another form")
        begin, close = kernel.start + head.index(mark), kernel.start + len(head.rstrip()) - 1
        return [Edit(begin, begin + len(mark), "__device__"), Edit(close, close, f", unsigned {item}"), *edits]

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
