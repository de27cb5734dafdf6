"""A main() for kernels without one: buffers, values and launches made from their signatures."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.errors import BadInput, HipsynthError, UsageError, suggest_name
from hipsynth.core.kernel_record import Dim
from hipsynth.core.name_patterns import check_kernel_pattern, matches_name
from hipsynth.core.reasons import Reason
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter
from hipsynth.source.includes import include_runtime, includes_own_files
from hipsynth.source.launch_shapes import (
    MOST_GROUP_ITEMS,
    count_groups,
    find_indexed_block,
    find_item_counts,
    find_launch_block,
    find_launch_bound,
    find_launch_grid,
    find_launch_numbers,
    find_row_lengths,
)
from hipsynth.source.outline import blank_opaque, outline_kernels, without_comments
from hipsynth.source.template_arguments import choose_template_arguments, fill_in_types, list_explicit_instances
from hipsynth.source.torch_sources import keep_device_code, uses_pytorch

ITEMS = 1 << 20  # work-items of a launch whose shape nobody gave: they fill every device
MOST_ITEMS = 1 << 25  # of one that host code gives
LEAST_SIDE = 16  # of sizes for which host code gives a grid
SIDE = 1 << 10  # of two dimensions
CAREFUL_ELEMENTS = 4  # for each product of all numbers, as coordinates have three
FLAT_BLOCK, SQUARE_BLOCK = (256, 1, 1), (16, 16, 1)
OTHER_NUMBER = 1.5  # of arguments that are no integers
DYNAMIC_LDS = 16 << 10  # bytes of it, for kernels that use it
MOST_INSTANCES = 16  # of a template that are launched
MOST_BYTES = 1 << 30  # of a buffer's elements, of 8 bytes at most
_MAIN = re.compile(r"\bmain\s*\(")
_SECOND = re.compile(r"\b(?:threadIdx|blockIdx|hipThreadIdx|hipBlockIdx)(?:\.|_)y\b")
_DYNAMIC = re.compile(r"\bextern\s+(?:__align__\([^)]*\)\s*)?__shared__|\bHIP_DYNAMIC_SHARED\b")
_DEFINES_MARK = re.compile(r"^[ \t]*#[ \t]*define\b.*__global__", re.MULTILINE)
_INTEGER = re.compile(r"\b(?:int|unsigned|long|short|size_t|ptrdiff_t|u?int(?:8|16|32|64)_t)\b")
_PLAIN_INTEGER = re.compile(rf"(?:(?:{_INTEGER.pattern}|\bsigned\b|\bchar\b|std::)\s*)+")
HOST_CODE = "host code"  # what a line that is about no kernel is about
HOW_TO_CHOOSE = "choose with --grid, --block and --value NAME=N"
HEAD = """
// The rest was made from the signatures above: they have no main().
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <vector>
namespace hipsynth_harness {
template <class T> T make_value(double value) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(value); else return T{};
}
template <class T> T* make_buffer(size_t count) {
  std::vector<T> host(count);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) host[i] = static_cast<T>(1 + 0.125 * (i % 7));
    else if constexpr (std::is_integral_v<T>) host[i] = static_cast<T>(i % (sizeof(T) > 2 ? count : 100));
    else std::memset(static_cast<void*>(&host[i]), 0, sizeof(T));
  }
  T* device = nullptr;
  if (hipMalloc(reinterpret_cast<void**>(&device), count * sizeof(T)) != hipSuccess) return nullptr;
  (void)hipMemcpy(device, host.data(), count * sizeof(T), hipMemcpyHostToDevice);
  return device;
}
// A buffer's elements: for each work-item, for the product of the `most` largest sizes, for `rows` of the largest one.
inline size_t count_elements(size_t items, int most, size_t times, size_t rows,
                             std::initializer_list<long long> sizes) {
  std::vector<long long> sorted(sizes);
  std::sort(sorted.rbegin(), sorted.rend());
  size_t product = times;
  for (int i = 0; i < most && i < static_cast<int>(sorted.size()); ++i) product *= std::max(1ll, sorted[i]);
  const size_t all_rows = sizes.size() ? rows * std::max(1ll, sorted[0]) : 1;
  return std::max<size_t>({1, items, all_rows, sizes.size() ? product : 1});
}
}  // namespace hipsynth_harness
"""


@dataclass(frozen=True)
class HarnessChoices:
    """What the user chose of the launches: work-groups, work-items, arguments by name. `arguments`: of the command
    line, which set the sizes of main(); `kernel`: a pattern of the names of those that are launched, "" for all."""

    grid: Dim | None = None
    block: Dim | None = None
    values: Mapping[str, float] | None = None
    arguments: Sequence[str] = ()
    kernel: str = ""

    def __post_init__(self) -> None:
        check_block(self.block)

    def __bool__(self) -> bool:
        return bool(self.grid or self.block or self.values)


@dataclass(frozen=True)
class HarnessedProgram:
    """The text with its main(), and by kernel a line that says what was assumed of its launch."""

    text: str
    assumed: Mapping[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.assumed.values())


def lacks_main(text: str) -> bool:
    """Whether a text has kernels and no main()."""
    return not _MAIN.search(blank_opaque(text)) and bool(outline_kernels(text))


@dataclass(frozen=True)
class KernelLaunchPlan:
    """A launch for a kernel that no host code launches: integer arguments by name, and the elements of each buffer.
    `sized`: by dimension of the grid, the argument whose elements it covers, if it is one; `extents`: the grid as host
    code gives it, in the kernel's parameters; `careful`: buffers have room for the product of all numbers, not of the
    two largest; `has_rows`: and for a row of the largest for each work-group."""

    kernel: FunctionDeclaration
    grid: Dim
    block: Dim
    numbers: Mapping[str, float]
    elements: int
    sized: tuple[str, ...] = ()
    extents: tuple[str, ...] = ()
    careful: bool = False
    has_rows: bool = False
    lds_bytes: int = 0  # of dynamic LDS
    template: Mapping[str, str] = field(default_factory=dict)  # arguments of its template

    @property
    def instance(self) -> str:
        """The kernel's name with the arguments of its template: `scale<float>`."""
        return f"{self.kernel.name}<{', '.join(self.template.values())}>" if self.template else self.kernel.name

    @property
    def buffer_room(self) -> tuple[int, int]:
        """(how many of the largest numbers, times what): their product is the least length of a buffer."""
        return (len(self.numbers), CAREFUL_ELEMENTS) if self.careful else (2, 1)

    def describe(self) -> str:
        """`scale is launched with 4 x 1 x 1 work-groups of 256 x 1 x 1; n = 1000`."""
        shape = f"{' x '.join(map(str, self.grid))} work-groups of {' x '.join(map(str, self.block))}"
        numbers = [f"{name} = {value:.15g}" for name, value in self.numbers.items()]
        return f"{self.instance} is launched with {'; '.join([shape, *numbers])}"


def choose_launches(text: str, choices: HarnessChoices, careful: bool = False) -> list[KernelLaunchPlan]:
    """The launch of each kernel of a text, in source order: as chosen, else as host code launches it, else work-items
    that fill every device. `careful`: sizes for kernels that index with products of many of their arguments."""
    return [replace(_choose_like_host(host, choices, careful), lds_bytes=host.lds_bytes) for host in _read_host(text)]


@dataclass(frozen=True)
class _HostLaunch:
    """A kernel that a text defines, and how its host code launches it. `is_flat`: the kernel uses one dimension of its
    launch alone; `block`: the usual one if the host code gives none in numbers; `extents`: the grid, () if it is not
    known; `numbers`: of the parameters that the host code gives in numbers; `row_lengths`: of rows."""

    kernel: FunctionDeclaration
    is_flat: bool
    block: Dim
    lds_bytes: int
    extents: tuple[str, ...]
    numbers: Mapping[str, int]
    row_lengths: tuple[str, ...]


@functools.lru_cache(maxsize=16)
def _read_host(text: str) -> tuple[_HostLaunch, ...]:
    code = blank_opaque(text)
    kernels = [kernel for kernel in outline_kernels(text) if kernel.defined]
    bodies = [code[slice(*kernel.body)] for kernel in kernels]
    flat = [not _SECOND.search(body) for body in bodies]
    return tuple(
        _HostLaunch(
            kernel,
            is_flat,
            find_launch_block(text, kernel.name)
            or find_indexed_block(text, kernel)
            or _shrink_block(FLAT_BLOCK if is_flat else SQUARE_BLOCK, find_launch_bound(text, kernel)),
            DYNAMIC_LDS if _DYNAMIC.search(body) else 0,
            find_launch_grid(text, kernel) or (),
            find_launch_numbers(text, kernel),
            find_row_lengths(body, [parameter.name for parameter in _list_integers(kernel)]),
        )
        for kernel, is_flat, body in zip(kernels, flat, bodies, strict=True)
    )


def _list_integers(kernel: FunctionDeclaration) -> list[FunctionParameter]:
    return [p for p in kernel.parameters if not p.base and _INTEGER.search(p.type) and "*" not in p.text]


def _shrink_block(block: Dim, bound: int) -> Dim:
    """The block with so many rows, and so long ones, that it has at most `bound` work-items."""
    width = min(block[0], bound)
    return width, min(block[1], bound // width), 1


def _choose_like_host(host: _HostLaunch, choices: HarnessChoices, careful: bool) -> KernelLaunchPlan:
    """A launch with the grid that host code gives, unless the user chose one: with the largest sizes that nobody gave
    for which it is not too large. Without such a grid, of work-items that fill a device."""
    usual = launch = _choose_launch(host, choices, careful)
    if choices.grid or not host.extents:
        return usual
    while max(launch.numbers.values(), default=0) >= LEAST_SIDE:
        grid = count_groups(host.extents, launch.numbers)
        items = math.prod(grid) * math.prod(launch.block) if grid is not None else 0
        if grid is not None and items <= MOST_ITEMS:
            return replace(launch, grid=grid, sized=(), extents=host.extents, elements=max(launch.elements, items))
        fixed_names = {*(choices.values or {}), *host.numbers}
        halves = {name: value // 2 for name, value in launch.numbers.items() if name not in fixed_names}
        if grid is None or not halves:
            break
        launch = replace(launch, numbers={**launch.numbers, **halves})
    return usual


def _choose_launch(host: _HostLaunch, choices: HarnessChoices, careful: bool) -> KernelLaunchPlan:
    kernel, is_flat, has_rows = host.kernel, host.is_flat, bool(host.row_lengths)
    integers = _list_integers(kernel)
    block = choices.block or host.block
    side = ITEMS if is_flat and len(integers) < 2 and not has_rows else SIDE
    if careful and integers:
        side = min(side, 1 << ITEMS.bit_length() // max(2, len(integers)))
    fixed_numbers = {**host.numbers, **(choices.values or {})}
    numbers = {p.name: float(fixed_numbers.get(p.name, side)) for p in integers}
    is_by_row = is_flat and (has_rows or (careful and len(integers) > 1))  # a group may be one of as many rows
    sized = () if choices.grid or is_by_row else _name_extents(is_flat, numbers)
    grid = choices.grid or ((side, 1, 1) if is_by_row else _fill_grid(is_flat, block, [numbers[n] for n in sized]))
    plan = KernelLaunchPlan(kernel, grid, block, numbers, 1, sized, careful=careful, has_rows=has_rows or careful)
    return replace(plan, elements=_count_elements(plan))


def _count_elements(plan: KernelLaunchPlan) -> int:
    """The least length of a plan's buffers, as main() counts it."""
    groups, items = math.prod(plan.grid), math.prod(plan.grid) * math.prod(plan.block)
    most, times = plan.buffer_room
    sizes = sorted((max(1.0, size) for size in plan.numbers.values()), reverse=True)
    if not sizes:
        return max(items, 1)
    rows = (items if plan.careful and len(sizes) == 1 else groups) * sizes[0] if plan.has_rows else 1
    return int(max(items, times * math.prod(sizes[:most]), rows, 1))


def _choose_instances(text: str, launch: KernelLaunchPlan) -> Iterator[KernelLaunchPlan]:
    """The launch of an instance of its kernel's template, with parameters of its types, and of all instances that the
    text makes explicitly. Raises BadInput for templates that none can be chosen of."""
    kernel = launch.kernel
    if not kernel.template:
        yield launch
        return
    item_counts = find_item_counts(text, kernel, launch.block)
    chosen = choose_template_arguments(text, kernel, math.prod(launch.block), item_counts)
    others = [template for template in list_explicit_instances(text, kernel) if template != chosen]
    for template in (chosen, *others[: MOST_INSTANCES - 1]):
        parameters = tuple(replace(p, text=fill_in_types(p.text, template)) for p in kernel.parameters)
        yield replace(launch, kernel=replace(kernel, parameters=parameters), template=template)


def add_harness(text: str, choices: HarnessChoices, careful: bool = False) -> HarnessedProgram:
    """Adds a main() behind the text, whose lines keep their numbers; it launches each kernel once, of a template each
    explicit instance, with integer arguments that its own arguments may set. Of an extension of PyTorch, the device
    code alone stays.

    Raises UsageError for values of no argument, BadInput for kernels whose arguments cannot be made.
    """
    check_argument_names(text, choices.values or {})
    for name, value in (choices.values or {}).items():
        if not math.isfinite(value):
            raise UsageError(f"{name} = {value}", cause="not a finite number", remedy="choose a finite one")
    is_extension = uses_pytorch(text)
    text, plans = _leave_out_others(text, choose_launches(text, choices, careful), choices.kernel)
    launches = [instance for plan in plans for instance in _choose_instances(text, plan)]
    variables = _name_sizes(launches)
    words = dict(zip(variables, choices.arguments, strict=False))
    lines = [
        f"  const long long {variable} = argc > {at} ? std::atoi(argv[{at}]) : {int(value)};"
        for at, ((_, value), variable) in enumerate(variables.items(), 1)
    ]
    lines += [_write_launch(launch, choices.values or {}, variables) for launch in launches]
    head = "int main(int argc, char** argv) {\n  (void)argc, (void)argv;"
    body = "\n".join(lines)
    main = f"{head}\n{body}\n  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;\n}}\n"
    assumed: dict[str, str] = {}
    for launch in launches:
        name, note = launch.kernel.name, _harness_note(_apply_arguments(launch, words), _find_structures(text, launch))
        assumed[name] = f"{assumed[name]}; {launch.instance} alike" if name in assumed else note
    if is_extension:
        text = keep_device_code(text)
        assumed |= {HOST_CODE: "host code that uses PyTorch is left out"}
    return HarnessedProgram(f"{include_runtime(text).rstrip()}\n{HEAD}{main}", assumed)


def _leave_out_others(
    text: str, launches: Sequence[KernelLaunchPlan], pattern: str
) -> tuple[str, list[KernelLaunchPlan]]:
    """(the text with empty bodies of kernels that do not match, so that none of them fails; the launches of those that
    match). A template's arguments in the pattern are not compared. Raises UsageError if no kernel matches."""
    if not pattern:
        return text, list(launches)
    name_pattern = pattern.partition("<")[0]
    check_kernel_pattern(name_pattern, [launch.kernel.name for launch in launches])
    matching = [launch for launch in launches if matches_name(launch.kernel.name, name_pattern)]
    for kernel in (launch.kernel for launch in launches if launch not in matching):
        start, end = kernel.body
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text, matching


def ensure_main(text: str, choices: HarnessChoices | None = None) -> HarnessedProgram:
    """The text with a main(): unchanged and without notes if it has one or no kernels. Raises as `add_harness`."""
    return add_harness(text, choices or HarnessChoices()) if lacks_main(text) else HarnessedProgram(text, {})


def complete_text(text: str, choices: HarnessChoices, careful: bool = False) -> HarnessedProgram | None:
    """The text with a main(); None if it has one, is half-written, or its kernels' arguments cannot be made."""
    code = blank_opaque(text)
    if code.count("{") != code.count("}") or not lacks_main(text):
        return None
    with contextlib.suppress(HipsynthError):
        return add_harness(text, choices, careful)
    return None


def check_block(block: Dim | None) -> None:
    """Raises UsageError for a work-group that no device starts."""
    if block is not None and math.prod(block) > MOST_GROUP_ITEMS:
        raise UsageError(
            f"work-groups of {' x '.join(map(str, block))} work-items",
            cause=f"a work-group has at most {MOST_GROUP_ITEMS}",
            remedy="choose a smaller block",
            reason=Reason.BAD_CONFIGURATION,
        )


def check_argument_names(text: str, names: Iterable[str], others: Collection[str] = ()) -> None:
    """Raises UsageError for a name that is neither an argument of a kernel nor one of `others`. Texts with macros or
    headers of their own may have kernels that are not seen here: any of their words counts."""
    known_names = [parameter.name for kernel in outline_kernels(text) for parameter in kernel.parameters]
    elsewhere = _DEFINES_MARK.search(text) or includes_own_files(text)
    words = set(re.findall(r"\w+", without_comments(text))) if elsewhere else set()
    for name in names:
        if name in known_names or name in others or name in words:
            continue
        cause = suggest_name(name, [*known_names, *others])
        remedy = f"arguments: {', '.join(dict.fromkeys(filter(None, known_names))) or 'none'}"
        raise UsageError(f"{name}: no kernel has an argument of this name", cause=cause, remedy=remedy)


def needs_care(reason: Reason) -> bool:
    """Whether a run's failure may be one of sizes that nobody gave: accesses outside its buffers, or endless work."""
    return reason in (Reason.ILLEGAL_ACCESS, Reason.TIMEOUT, Reason.INSTRUCTION_LIMIT)


def _find_structures(text: str, launch: KernelLaunchPlan) -> list[str]:
    """The parameters whose types are structures of the text, of which nobody knows what to put in."""
    names = set(re.findall(r"\b(?:struct|class|union)\s+([A-Za-z_]\w*)", blank_opaque(text)))
    return [p.name for p in launch.kernel.parameters if not p.base and names & set(re.findall(r"\w+", p.type))]


def _harness_note(launch: KernelLaunchPlan, structures: Sequence[str]) -> str:
    buffers = ", ".join(p.name for p in launch.kernel.parameters if p.base)
    sized = f"; {buffers} of {launch.elements:,} elements" if buffers else ""
    zeros = f"; {', '.join(structures)}: all zeros, pointers among them" if structures else ""
    return f"no main(): {launch.describe()}{sized}{zeros}"


def _apply_arguments(launch: KernelLaunchPlan, words: Mapping[tuple[str, float], str]) -> KernelLaunchPlan:
    """The launch as main() makes it where words of the command line replace the integer arguments that they are for."""
    numbers = {name: _read_size(words.get((name, size)), size) for name, size in launch.numbers.items()}
    if numbers == launch.numbers:
        return launch
    sides = [math.ceil(numbers[name] / side) for name, side in zip(launch.sized, launch.block, strict=False)]
    x, y, z = *sides, *launch.grid[len(sides) :]
    grid = (count_groups(launch.extents, numbers) if launch.extents else None) or (x, y, z)
    changed = replace(launch, numbers=numbers, grid=grid)
    return replace(changed, elements=_count_elements(changed))


def _read_size(word: str | None, default: float) -> float:
    """The integer that std::atoi() reads of a word; the default without one."""
    digits = re.match(r"\s*[-+]?\d+", word or "")
    return default if word is None else float(digits[0]) if digits else 0.0


def _name_sizes(launches: Iterable[KernelLaunchPlan]) -> dict[tuple[str, float], str]:
    """The variable of main() for each integer argument and default: arguments of one name and default share it."""
    variables: dict[tuple[str, float], str] = {}
    for launch in launches:
        for name, value in launch.numbers.items():
            others = sum(other == name for other, _ in variables)
            variables.setdefault((name, value), f"{name}_value{others + 1 if others else ''}")
    return variables


def _write_launch(
    launch: KernelLaunchPlan, values: Mapping[str, float], variables: Mapping[tuple[str, float], str]
) -> str:
    """The launch in C++. Raises BadInput for templates, and for arguments that cannot be made."""
    kernel = launch.kernel
    if launch.elements * 8 > MOST_BYTES:
        problem = f"{kernel.name}: buffers of {launch.elements:,} elements are too large"
        raise BadInput(problem, remedy="give a smaller grid, block or values", reason=Reason.NO_MAIN)
    sizes = {name: variables[name, value] for name, value in launch.numbers.items()}
    extents = [_write_extent(extent, sizes) for extent in launch.extents] or [
        f"({sizes[name]} + {side - 1}) / {side}" for name, side in zip(launch.sized, launch.block, strict=False)
    ]
    grid = ", ".join([*extents, *map(str, launch.grid[len(extents) :])])
    groups = [*extents, *(str(side) for side in launch.grid[len(extents) :] if side > 1)]
    items = " * ".join([f"{math.prod(launch.block)}ull", *(f"({extent})" for extent in groups)])
    most, times = launch.buffer_room
    rows = items if launch.careful and len(sizes) == 1 else " * ".join(["1ull", *(f"({extent})" for extent in groups)])
    counted = f"{items}, {most}, {times}, {rows if launch.has_rows else 0}, {{{', '.join(sizes.values())}}}"
    elements = f"hipsynth_harness::count_elements({counted})"
    texts = sizes | {name: f"{value:.17g}" for name, value in values.items() if name not in sizes}
    buffers, arguments = [], []
    for number, parameter in enumerate(kernel.parameters):
        value = _make_argument(kernel, parameter, texts)
        if parameter.base:
            name = f"{parameter.name}_buffer" if parameter.name else f"buffer_{number}"
            buffers.append(f"    auto* {name} = {value};\n")
            value = name
        arguments.append(value)
    lds = f", {launch.lds_bytes}" if launch.lds_bytes else ""
    return (
        f"  {{\n    const size_t elements = {elements};\n    (void)elements;\n{''.join(buffers)}"
        f"    {launch.instance}<<<dim3({grid}), dim3({_join(launch.block)}){lds}>>>({', '.join(arguments)});\n  }}"
    )


def _write_extent(extent: str, sizes: Mapping[str, str]) -> str:
    """An extent of the kernel's parameters in the variables of main(), which are of type long long."""
    named = re.sub(r"[A-Za-z_]\w*", lambda word: sizes.get(word[0], word[0]), extent)
    return re.sub(r"\b(min|max)\(", r"std::\1<long long>(", named)


def _name_extents(is_flat: bool, numbers: Mapping[str, float]) -> tuple[str, ...]:
    """The arguments that the dimensions of a grid cover: the only one, or the largest one or two."""
    largest = sorted(numbers, key=lambda name: -numbers[name])
    if is_flat:
        return tuple(largest) if len(largest) == 1 else ()
    return (largest[0], largest[min(1, len(largest) - 1)]) if largest else ()


def _fill_grid(is_flat: bool, block: Dim, extents: Sequence[float]) -> Dim:
    """A work-item for each element of the extents; without any, as many as fill a device."""
    if is_flat:
        count = extents[0] if extents else ITEMS
        return (max(1, math.ceil(count / math.prod(block))), 1, 1)
    width, height = extents or (SIDE, SIDE)
    return (max(1, math.ceil(width / block[0])), max(1, math.ceil(height / block[1])), 1)


def _make_argument(
    kernel: FunctionDeclaration,
    parameter: FunctionParameter,
    values: Mapping[str, str],
) -> str:
    is_simple = not any(sign in parameter.text for sign in ("(", "[", "&", "..."))
    if parameter.base and is_simple:
        kind = "char" if parameter.base == "void" else parameter.base
        return f"hipsynth_harness::make_buffer<{kind}>(elements)"
    if not is_simple or "*" in parameter.text:
        problem = f"{kernel.name}: nothing can be made for its argument {parameter.text}"
        raise BadInput(problem, remedy="add a main() that launches it", reason=Reason.NO_MAIN)
    kind = re.sub(r"\bconst\b", "", parameter.type).strip()
    if parameter.name in values and _PLAIN_INTEGER.fullmatch(kind) and values[parameter.name].isidentifier():
        return values[parameter.name]  # a size
    return f"hipsynth_harness::make_value<{kind}>({values.get(parameter.name, OTHER_NUMBER)})"


def _join(shape: Dim) -> str:
    return ", ".join(map(str, shape))
