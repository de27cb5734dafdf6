"""Launches of kernels in C++, and the buffers and values that a made main() passes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter
from hipsynth.source.scalar_types import PLAIN_INTEGER

CAREFUL_ELEMENTS = 4  # for each product of all numbers, as coordinates have three
OTHER_NUMBER = 1.5  # of arguments that are no integers
MOST_BYTES = 1 << 30  # of a buffer's elements, of 8 bytes at most
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
    namespaces: str = ""  # that the kernel is in, a::b

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


def write_launch(
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
    using = f"    using namespace {launch.namespaces};\n" if launch.namespaces else ""
    lds = f", {launch.lds_bytes}" if launch.lds_bytes else ""
    block = ", ".join(map(str, launch.block))
    return (
        f"  {{\n{using}    const size_t elements = {elements};\n    (void)elements;\n{''.join(buffers)}"
        f"    {launch.instance}<<<dim3({grid}), dim3({block}){lds}>>>({', '.join(arguments)});\n  }}"
    )


def _write_extent(extent: str, sizes: Mapping[str, str]) -> str:
    """An extent of the kernel's parameters in the variables of main(), which are of type long long."""
    named = re.sub(r"[A-Za-z_]\w*", lambda word: sizes.get(word[0], word[0]), extent)
    return re.sub(r"\b(min|max)\(", r"std::\1<long long>(", named)


def check_arguments(kernel: FunctionDeclaration) -> None:
    """Raises BadInput for an argument that cannot be made."""
    for parameter in kernel.parameters:
        _make_argument(kernel, parameter, {})


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
    if parameter.name in values and PLAIN_INTEGER.fullmatch(kind) and values[parameter.name].isidentifier():
        return values[parameter.name]  # a size
    return f"hipsynth_harness::make_value<{kind}>({values.get(parameter.name, OTHER_NUMBER)})"
