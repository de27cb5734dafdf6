"""Every use of a block index is rewritten, whatever its form; what other kernels use stays as it is."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.tuning.swizzle import edits
from hipsynth.tuning.swizzle.edits import BlockIndexProgram, call_of, patched, read_source, refusal
from hipsynth.tuning.swizzle.mapping import GroupMapping, Spread

HEAD = "#include <hip/hip_runtime.h>\n#if 1\n#include <cstdio>\n#endif\n"
PROGRAM = (
    HEAD
    + """#define ROW (blockIdx.y * blockDim.y + threadIdx.y)
#define OLD hipBlockIdx_z
struct blocks { int blockIdx; };
template <typename T> __device__ T column() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int plain(int a) { return a + 1; }
__device__ int shared() { return hipBlockIdx_x + plain(2); }
__device__ int outer() { return shared(); }
namespace ns {
template <typename T>
__launch_bounds__(64) __global__ void one(T* p, int n) {
  const int x = column<int>(), y = ROW;
  blocks other{3};
  p[y * n + x] = outer() + other.blockIdx + __builtin_amdgcn_workgroup_id_x() + OLD;
  dim3 b = blockIdx;
  p[0] += b.z;  // blockIdx in a comment
}
}
__global__ void two(int* p) { p[blockIdx.x] = outer(); }
int main() { ns::one<int><<<dim3(4, 4), 64>>>(nullptr, 1); two<<<1, 1>>>(nullptr); }
"""
)


@pytest.fixture(scope="module")
def source() -> BlockIndexProgram:
    return read_source(PROGRAM, "gfx942")


def apply(source: BlockIndexProgram, *names: str) -> str:
    return patched(source, {name: GroupMapping((Spread(8),)).source(call_of(name)) for name in names})


def test_all_forms_of_the_block_index_are_rewritten(source: BlockIndexProgram) -> None:
    text = apply(source, "one")
    assert "#define ROW (swizzled_one().y * blockDim.y" in text and "#define OLD swizzled_one().z" in text
    assert "T column() { return swizzled_one().x * blockDim.x" in text
    assert "other.blockIdx + swizzled_one().x + OLD" in text and "dim3 b = swizzled_one();" in text
    assert "blockIdx in a comment" in text and "struct blocks { int blockIdx; };" in text


def test_functions_of_other_kernels_are_copied(source: BlockIndexProgram) -> None:
    text = apply(source, "one")
    assert "__device__ int shared() { return hipBlockIdx_x + plain(2); }" in text
    assert "int shared_swizzled_one() { return swizzled_one().x + plain(2); }" in text
    assert "int outer_swizzled_one() { return shared_swizzled_one(); }" in text
    assert "= outer_swizzled_one() + other" in text and "p[blockIdx.x] = outer(); }" in text


def test_the_function_is_defined_behind_the_headers(source: BlockIndexProgram) -> None:
    text = apply(source, "one", "two")
    assert text.index("dim3 swizzled_one()") < text.index("dim3 swizzled_two()") < text.index("#define ROW")
    assert text.startswith("#include <hip/hip_runtime.h>\n\n// Which work-group")
    read_source(text, "gfx942")  # it parses


def test_nothing_changes_without_a_mapping(source: BlockIndexProgram) -> None:
    assert patched(source, {}) == PROGRAM


KERNEL = "__global__ void k(int* p, int n) { %s }\nint main() { k<<<1, 1>>>(nullptr, 1); }\n"
REFUSED = {
    "persistent": "for (int i = blockIdx.x; i < n; i += gridDim.x) p[i] = 1;",
    "persistent by a variable": "int step = gridDim.x * 64; for (int i = blockIdx.x; i < n; i += step) p[i] = 1;",
    "does not use": "p[threadIdx.x] = 1;",
}


@pytest.mark.parametrize("name", REFUSED)
def test_kernels_that_map_their_work_themselves_are_refused(name: str) -> None:
    found = refusal(read_source(HEAD + KERNEL % REFUSED[name], "gfx942"), "k")
    assert name.split(" by")[0] in found


def test_a_kernel_that_only_asks_for_the_grid_is_not_persistent() -> None:
    body = "int w = gridDim.x * 64; for (int i = 0; i < n; ++i) p[blockIdx.x * w + i] = 1;"
    assert refusal(read_source(HEAD + KERNEL % body, "gfx942"), "k") == ""


def test_cooperative_groups_are_refused() -> None:
    body = "auto g = cooperative_groups::this_grid(); p[blockIdx.x] = 1;"
    text = HEAD + "namespace cooperative_groups { __device__ int this_grid() { return 1; } }\n" + KERNEL % body
    assert "cooperative" in refusal(read_source(text, "gfx942"), "k")


def test_a_shared_macro_is_copied_for_each_mapped_kernel() -> None:
    text = HEAD + "#define ID \\\n  (blockIdx.x + 1)\n__global__ void a(int* p) { p[ID] = 1; }\n"
    text += "__global__ void b(int* p) { p[ID] = 2; }\nint main() {}\n"
    changed = apply(read_source(text, "gfx942"), "a")
    assert "#define ID_swizzled_a \\\n  (swizzled_a().x + 1)\n" in changed and "p[ID_swizzled_a] = 1" in changed
    assert "#define ID \\\n  (blockIdx.x + 1)\n" in changed and "p[ID] = 2" in changed


def test_a_shared_macro_of_a_function_cannot_be_remapped_for_one_kernel() -> None:
    text = (
        HEAD + "#define ID blockIdx.x\n__device__ int f() { return ID; }\n__global__ void a(int* p) { p[f()] = 1; }\n"
    )
    text += "__global__ void b(int* p) { p[ID] = 2; }\nint main() {}\n"
    with pytest.raises(BadInput, match="a macro"):
        apply(read_source(text, "gfx942"), "a")


def test_a_program_without_a_kernel_is_named() -> None:
    with pytest.raises(BadInput, match="no kernel"):
        edits.read_source(HEAD + "int main() {}\n", "gfx942")


def test_a_macro_with_a_builtin_is_refused() -> None:
    body = "#define BX __builtin_amdgcn_workgroup_id_x()\n" + KERNEL % "p[BX] = n;"
    assert refusal(read_source("#include <hip/hip_runtime.h>\n" + body, "gfx942"), "k").startswith("the macro BX calls")


INCLUDE = "#include <hip/hip_runtime.h>"
HEADS = {
    "a guard": f"#ifndef DEMO\n#define DEMO\n{INCLUDE}\n|%s#endif\n",
    "a condition in a comment": f"/*\n#if old\n*/\n{INCLUDE}\n|%s",
    "an include in a comment": f"{INCLUDE}\n|/*\n#include <cstdio>\n*/\n%s",
    "a comment of two lines": f"{INCLUDE} /* a\nb */|\n%s",
    "branches": f"#if 1  // one\n{INCLUDE}\n#else\n#include <hip/hip_runtime_api.h>\n#endif  // two\n|%s",
    "a branch before the functions": f"#if 0\n#error no\n#else\n{INCLUDE}\n|%s#endif\n",
    "functions in a condition": f"#if 1\n{INCLUDE}\n|inline int f() {{ return 1; }}\n#endif\n%s",
    "a condition around one of the includes": f"{INCLUDE}\n|#if 1\n#include <cstdio>\n#endif\n%s",
}


@pytest.mark.parametrize("name", HEADS)
def test_where_the_function_is_defined(name: str) -> None:
    before, after = (HEADS[name] % (KERNEL % "p[blockIdx.x] = n;")).split("|")
    text = apply(read_source(before + after, "gfx942"), "k")
    assert text.startswith(f"{before}\n// Which work-group") and text.endswith(
        after.replace("blockIdx.x", "swizzled_k().x")
    )
    read_source(text, "gfx942")  # it parses
