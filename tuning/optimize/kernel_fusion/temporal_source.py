"""The text of a launch that makes many passes of a loop on tiles in the LDS, and of the host code around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.source.declarations import KERNEL_MARK
from hipsynth.source.edits import Edit
from hipsynth.source.layout import read_indent
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name, wrap_parameters
from hipsynth.tuning.optimize.kernel_fusion.host_loop import HostLoop, HostVariables
from hipsynth.tuning.optimize.kernel_fusion.item_places import ItemPlaces

_LOCALS = ("tiles", "lane", "first", "place", "edge", "item", "from", "to", "size")


@dataclass(frozen=True)
class StagedArray:
    """An array of the host that passes change, or `count` that an array of pointers has (0 if it is none): the number
    of its first tile, and the kernel's parameters that it is passed for."""

    name: str
    tile: int
    count: int
    parameters: tuple[str, ...]
    type: str

    @property
    def pointers(self) -> tuple[str, ...]:
        """The host's expressions of the array's, or the arrays' addresses."""
        return tuple(f"{self.name}[{k}]" for k in range(self.count)) or (self.name,)


@dataclass(frozen=True)
class TemporalSource:
    """What is known of a loop whose launches are to make many passes. `head`: type, name, first value and condition of
    the loop's variable; `item`: a free name in the kernel for a work-item's number."""

    program: ParsedProgram
    launch: LaunchStatement
    kernel: KernelDefinition
    loop: HostLoop
    host: HostVariables
    arrays: Sequence[StagedArray]
    places: ItemPlaces
    passes: int
    lanes: int
    head: tuple[str, str, str, str]
    item: str

    @property
    def name(self) -> str:
        """Of the new kernel."""
        return f"{self.kernel.name}_steps"

    @property
    def structure(self) -> str:
        """The type of a kernel parameter with all arrays."""
        return "".join(word[:1].upper() + word[1:] for word in self.kernel.name.split("_")) + "Arrays"

    @property
    def pointers(self) -> list[str]:
        """The host's expressions of all arrays, in the order of their tiles."""
        return [pointer for array in self.arrays for pointer in array.pointers]

    def write_edits(self, edits: Sequence[Edit]) -> list[Edit]:
        """`edits`: those that put `item` for a work-item's number. Raises NotUnderstood if a name is not free."""
        program, kernel = self.program, self.kernel
        new = (self.name, self.structure, f"{kernel.name}_item", f"allocate_{kernel.name}_copies")
        if any(choose_free_name(name, program.text) != name for name in new):
            raise NotUnderstood("names that the program uses")
        tokens = program.tokens
        head = program.unit.text[kernel.start : tokens[kernel.first - 1].start].decode(errors="surrogateescape")
        body = [token.text for token in tokens[kernel.first : kernel.last]]
        first = choose_free_name("first", " ".join([*body, *(p.name for p in kernel.parameters)]))
        parameters = [*(p.text for p in kernel.parameters), f"unsigned {self.item}", f"int {first}"]
        function = wrap_parameters(f"__device__ void {kernel.name}_item(", parameters)
        passed = [*(p.name for p in kernel.parameters), "blockIdx.x * blockDim.x + threadIdx.x", "0"]
        original = f"{head.rstrip()} {{\n{wrap_parameters(f'  {kernel.name}_item(', passed)};\n}}"
        pieces = [original, self._write_structure(), self._write_kernel()]
        subscripts = [
            Edit(tokens[end].start, tokens[end].start, f" - {first}") for _, end in self.places.subscripts
        ]  # fmt: skip
        return [
            Edit(kernel.start, tokens[kernel.first - 1].start, f"{function} "),
            *edits,
            *subscripts,
            Edit(kernel.end, kernel.end, "".join(f"\n\n{piece}" for piece in pieces)),
            Edit(self.loop.start, self.loop.end, self._write_host_lines()),
        ]

    # --- device ------------------------------------------------------------------------------------------------------

    def _write_structure(self) -> str:
        """The structure of all arrays, and the function that allocates copies."""
        kind, count, name = self.arrays[0].type, len(self.pointers), self.structure
        inputs = self._find_inputs()
        parameter = f", const void* const (&inputs)[{len(inputs)}]" if inputs else ""
        check = """  for (const void* input : inputs) {
    if (hipMemGetAddressRange(&base, &bytes, const_cast<void*>(input)) != hipSuccess) return 0;
    for (const void* array : arrays.each) {
      if (array == base) return 0;
    }
  }
"""
        return f"""struct {name} {{
  {kind}* each[{count}];  // {", ".join(self.pointers)}
}};

// Allocates copies of the arrays, puts them in place of these, and returns how many elements each has: 0 if they are
// not allocations of their own that have one size.
static int allocate_{self.kernel.name}_copies({name}& arrays{parameter}) {{
  hipDeviceptr_t base = nullptr;
  size_t bytes = 0, expected = 0;
  for (int k = 0; k < {count}; ++k) {{
    if (hipMemGetAddressRange(&base, &bytes, arrays.each[k]) != hipSuccess || base != arrays.each[k]) return 0;
    if (k > 0 && bytes != expected) return 0;
    for (int other = 0; other < k; ++other) {{
      if (arrays.each[other] == arrays.each[k]) return 0;
    }}
    expected = bytes;
  }}
{check if inputs else ""}  const size_t size = expected / sizeof({kind});
  {kind}* copies = nullptr;
  if (size > 1 << 30 || hipMalloc(&copies, {count} * size * sizeof({kind})) != hipSuccess) return 0;
  for (int k = 0; k < {count}; ++k) arrays.each[k] = copies + k * size;
  return size;
}}"""

    def _find_inputs(self) -> list[str]:
        """The host's expressions of arrays that no pass changes."""
        staged = {parameter for array in self.arrays for parameter in array.parameters}
        passed = zip(self.kernel.parameters, self.launch.arguments, strict=False)
        return list(dict.fromkeys(text for p, text in passed if p.base and p.name not in staged))

    def _write_kernel(self) -> str:
        """The kernel that makes many passes."""
        kind, variable, _, condition = self.head
        names = self._choose_names()
        tiles, lane, first, place, edge, item, source, to, size = (names[name] for name in _LOCALS)
        begin, element, passes = self._name_begin(), self.arrays[0].type, self.passes
        before, behind = -self.places.least * passes, self.places.largest * passes
        count, width = len(self.pointers), self.lanes - before - behind
        parameters = [f"{self.structure} {source}", f"{self.structure} {to}", f"int {size}", f"{kind} {begin}"]
        parameters += [text for text, argument in self._find_others()]
        head = wrap_parameters(f"{KERNEL_MARK} __launch_bounds__({self.lanes}) void {self.name}(", parameters)
        minus = f" - {before}" if before else ""
        lines = [
            f"// Up to {passes} passes: a group has {width} elements of each array, and computes those beside them for",
            "// itself on which theirs depend, fewer after each pass. It stores to copies: others still read those.",
            f"{head} {{",
            f"  __shared__ {element} {tiles}[{count}][{self.lanes}];",
            *(f"  {line}" for line in self._declare_arrays(tiles)),
            f"  const int {lane} = threadIdx.x, {first} = blockIdx.x * {width}{minus}, {place} = {first} + {lane};",
            f"  if ({place} >= 0 && {place} < {size}) {{",
            f"    for (int k = 0; k < {count}; ++k) {tiles}[k][{lane}] = {source}.each[k][{place}];",
            "  }",
            "  __syncthreads();",
            f"  for ({kind} {variable} = {begin}; {variable} < {begin} + {passes} && {condition}; ++{variable}) {{",
            *(f"    {line}" for line in self.loop.numbers),
            *self._write_pass(edge, lane, place, item, first, begin),
            "    __syncthreads();",
            *self._write_swap(),
            "  }",
            f"  if ({self._write_range(lane, before, behind)}{place} < {size}) {{",
            f"    for (int k = 0; k < {count}; ++k) {to}.each[k][{place}] = {tiles}[k][{lane}];",
            "  }",
            "}",
        ]
        return "\n".join(lines)

    def _choose_names(self) -> dict[str, str]:
        taken = " ".join([self.host.text, self.loop.text, *self.loop.numbers, self._name_begin()])
        return {name: choose_free_name(name, taken) for name in _LOCALS}

    def _name_begin(self) -> str:
        return choose_free_name(f"first_{self.head[1]}", " ".join([self.host.text, self.loop.text]))

    def _declare_arrays(self, tiles: str) -> list[str]:
        """What the host's arrays are called, as names of tiles."""
        lines = []
        for array in self.arrays:
            if array.count:
                where = tiles if array.tile == 0 else f"{tiles} + {array.tile}"
                lines.append(f"{array.type} (*const {array.name})[{self.lanes}] = {where};")
            else:
                const = "" if array.name in self.loop.swapped else " const"
                lines.append(f"{array.type}*{const} {self.host.name_of(array.name)} = {tiles}[{array.tile}];")
        return lines

    def _write_pass(self, edge: str, lane: str, place: str, item: str, first: str, begin: str) -> list[str]:
        """The work-item of a place in a pass."""
        variable, block = self.head[1], self.launch.block
        grid = f"({self.launch.grid})"
        count = f"{grid} * {block}" if re.fullmatch(r"\w+", block) else f"{grid} * ({block})"
        base = self._write_base()
        arguments = [*self.host.rename(self.launch, self.kernel), item, first]
        lines = []
        condition = self._write_range(lane, -self.places.least, self.places.largest, edge)
        if condition:
            lines.append(f"const int {edge} = {variable} - {begin} + 1;  // this close to it, neighbours are missing")
        lines.append(f"const unsigned {item} = {place}{f' - {base}' if base else ''};")
        lines.append(f"if ({condition}{item} < {count}) {{")
        call = wrap_parameters(f"      {self.kernel.name}_item(", arguments)
        return [*(f"    {line}" for line in lines), f"{call};", "    }"]

    def _write_base(self) -> str:
        """The place of the first work-item, in the host's names."""
        names = (parameter.name for parameter in self.kernel.parameters)
        renamed = dict(zip(names, self.host.rename(self.launch, self.kernel), strict=True))

        def rename(match: re.Match[str]) -> str:
            text = renamed.get(match[0], match[0])
            return text if re.fullmatch(r"\w+", text) else f"({text})"

        return re.sub(r"\b[A-Za-z_]\w*", rename, self.places.base)

    def _write_range(self, lane: str, before: int, behind: int, times: str = "") -> str:
        """The condition that a lane is so far from both ends of a tile, and the `&&` behind it."""
        near, far = (f"{n} * {times}" if times and n > 1 else times or str(n) for n in (before, behind))
        low = f"{lane} >= {near} && " if before else ""
        return f"{low}{lane} < {self.lanes} - {far} && " if behind else low

    def _write_swap(self) -> list[str]:
        if not self.loop.swapped:
            return []
        first, second = self.loop.swapped
        other = choose_free_name("other", " ".join([self.host.text, self.loop.text]))
        return [f"    auto* const {other} = {first};", f"    {first} = {second};", f"    {second} = {other};"]

    # --- host --------------------------------------------------------------------------------------------------------

    def _find_others(self) -> list[tuple[str, str]]:
        """The declarations of what else the loop needs, and what is passed for them."""
        staged = set(self.pointers)
        pairs = zip(self.host.parameters, self.host.arguments, strict=True)
        return [(text, argument) for text, argument in pairs if argument not in staged]

    def _write_host_lines(self) -> str:
        """The launches, or the loop as it was."""
        kind, variable, value, condition = self.head
        source = self.program.unit.text
        indent = read_indent(source, self.loop.start)
        taken = " ".join(token.text for token in self.program.tokens)
        arrays, copies, size, inputs = (choose_free_name(n, taken) for n in ("arrays", "copies", "elements", "inputs"))
        reach = (self.places.largest - self.places.least) * self.passes
        width = self.lanes - reach
        others = [argument for _, argument in self._find_others()]
        shape = f"<<<({size} + {width - 1}) / {width}, {self.lanes}>>>"
        read_only = self._find_inputs()
        original = source[self.loop.start : self.loop.end].decode(errors="surrogateescape").replace("\n", "\n  ")
        swaps = [f"for {self.loop.head} {self.loop.swap}"] if self.loop.swapped else []
        begin = f"{indent}    {self.name}{shape}("
        there = wrap_parameters(begin, [arrays, copies, size, variable, *others])
        back = wrap_parameters(begin, [copies, arrays, size, f"{variable} + {self.passes}", *others])
        lines = [
            f"{self.structure} {arrays} = {{{{{', '.join(self.pointers)}}}}}, {copies} = {arrays};",
            *([f"const void* const {inputs}[] = {{{', '.join(read_only)}}};"] if read_only else []),
            f"const int {size} = allocate_{self.kernel.name}_copies({copies}{f', {inputs}' if read_only else ''});",
            f"if ({size} > 0) {{",
            f"  for ({kind} {variable} = {value}; {condition}; {variable} += {2 * self.passes}) {{",
            f"{there.removeprefix(indent)};",
            "    // Back from the copies, even if no pass is left.",
            f"{back.removeprefix(indent)};",
            "  }",
            f"  (void)hipFree({copies}.each[0]);",
            *(f"  {line}" for line in (*swaps, *self.loop.waits)),
            "} else {",
            f"  {original}",
            "}",
        ]
        return f"\n{indent}".join(lines)
