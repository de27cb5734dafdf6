"""The supplementary headers compile for every architecture and behave correctly on the host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hipsynth.cli.doctor_checks import HEADER_PROBES
from hipsynth.toolchain import compilable_archs, compile_device, compile_host

GROUPS = """#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
namespace cg = cooperative_groups;
template <class G> __device__ float total(const G& g, float v) {
  for (unsigned int step = g.size() / 2; step > 0; step /= 2) v += g.shfl_down(v, step);
  return v;
}
__global__ void groups(float* p, int* q, unsigned long long* m) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  cg::thread_block_tile<8> part = cg::tiled_partition<8>(tile);
  p[block.thread_rank()] = total(tile, p[tile.thread_rank()]) + part.shfl_xor(p[1], 1) + part.shfl_up(p[2], 1);
  m[0] = tile.ballot(p[0] > 1) + tile.match_any(q[0]) + tile.any(q[0]) + tile.all(q[1]) + tile.meta_group_rank();
  if (p[block.thread_rank()] > 3) {
    cg::coalesced_group active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(q, active.num_threads());
    p[7] = active.shfl(p[1], 2) + active.shfl_down(p[1], 1) + cg::tiled_partition(active, 4).shfl_up(p[2], 1);
    m[1] = active.ballot(q[2]) + cg::binary_partition(active, q[3] > 0).size();
  }
  cg::grid_group grid = cg::this_grid();
  grid.sync();
  cg::thread_group dynamic = cg::tiled_partition(block, 16);
  dynamic.sync();
  cg::sync(block);
  q[grid.thread_rank()] = dynamic.thread_rank() + block.group_index().x + block.thread_index().y + cg::group_size(tile);
}
int main() { return 0; }
"""

HALVES = """#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
__global__ void halves(half* a, __half2* b, __hip_bfloat16* c, int* n) {
  a[0] = __hmax(a[1], __hmin_nan(a[2], a[3])) + __hmul_rn(a[4], htanh(a[5])) - half(1.5);
  b[0] = __hmax2(b[1], __hfma2(b[2], b[3], h2exp(b[4])));
  a[6] = __shfl_down(a[6], 1) * __shfl_xor(a[7], 2);
  b[5] = __shfl_up(b[5], 1);
  c[0] = __shfl_down(c[0], 1) + __hmax(c[1], hexp(c[2]));
  n[0] = __hgt(a[1], a[2]) + (a[3] < a[4]) + __half2int_rn(a[5]) + (c[3] > 2.0f);
  atomicAdd(a + threadIdx.x, a[8]);
  atomicAdd(b, b[6]);
  unsafeAtomicAdd(b + 1, b[7]);
  atomicAdd(c + threadIdx.x, c[4]);
  unsafeAtomicAdd(reinterpret_cast<__hip_bfloat162*>(c) + 4, __hip_bfloat162(c[5], c[6]));
}
"""

NUMBERS = """#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_complex.h>
#include <hip/hip_fp16.h>
#include <cstdio>
__global__ void k() {}
int main() {
  for (float f : {1.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.3961776e38f, 1e-40f})
    std::printf("%04x %04x %04x %04x\\n", __bfloat16_as_ushort(__float2bfloat16(f)),
                __bfloat16_as_ushort(__float2bfloat16_rz(f)), __bfloat16_as_ushort(__float2bfloat16_ru(f)),
                __bfloat16_as_ushort(__float2bfloat16_rd(f)));
  __hip_bfloat16 a(1.5f), b = __float2bfloat16(2.0f);
  a += b * a;
  std::printf("%g %g %d %d %g\\n", float(a), __bfloat162float(__hneg(a)), a > b, a < 1.0f, 2.0f * a);
  float2 wide = __bfloat1622float2(__hadd2(__floats2bfloat162_rn(1, 2), __float2bfloat162_rn(0.5f)));
  std::printf("%g %g %d\\n", wide.x, wide.y, __hisnan(__hip_bfloat16(0.0f / 0.0f)));
  hipFloatComplex z = hipCdivf(hipCmulf(make_hipFloatComplex(1, 2), make_hipComplex(3, -1)), make_hipComplex(0, 2));
  std::printf("%g %g %g\\n", z.x, z.y, hipCabs(hipCfma(make_hipDoubleComplex(3, 0), make_hipDoubleComplex(1, 0),
                                                       make_hipDoubleComplex(0, 4))));
  std::printf("%g %g\\n", __half2float(__float2half(0.1f)), __half2float(__float2half(65519.0f)));
}
"""

# Bit patterns by IEEE rounding of the float's top 16 bits: nearest even, towards zero, up, down.
EXPECTED = """3f80 3f80 3f80 3f80
3f80 3f80 3f81 3f80
3f82 3f81 3f82 3f81
bf80 bf80 bf80 bf81
7f80 7f7f 7f80 7f7f
0001 0001 0002 0001
4.5 -4.5 1 0 9
1.5 2.5 1
2.5 -2.5 5
0.0999756 65504
"""


@pytest.mark.parametrize("arch", compilable_archs())
@pytest.mark.parametrize("name", HEADER_PROBES)
def test_every_header_family_compiles_for_every_architecture(name: str, arch: str, tmp_path: Path) -> None:
    header, body = HEADER_PROBES[name]
    source = tmp_path / "probe.hip"
    source.write_text(f"#include <{header}>\n#include <hip/hip_runtime.h>\n__global__ void k(float* p) {{ {body} }}\n")
    assert compile_device(source, arch, "-O2", tmp_path).kernels == ("_Z1kPf",)


def test_cooperative_groups_compile_on_both_sides(tmp_path: Path) -> None:
    source = tmp_path / "groups.hip"
    source.write_text(GROUPS)
    for arch in compilable_archs():
        assert compile_device(source, arch, "-O3", tmp_path).kernels == ("_Z6groupsPfPiPy",)
    assert subprocess.run([compile_host(source, "-O3", tmp_path).executable], check=False).returncode == 0


def test_newer_half_functions_compile_for_every_architecture(tmp_path: Path) -> None:
    source = tmp_path / "halves.hip"
    source.write_text(HALVES)
    archs = compilable_archs()
    assert "gfx90a" in archs
    for arch in archs:
        text = compile_device(source, arch, "-O3", tmp_path).disassembly.read_text()
        assert ("atomic_pk_add_f16" in text) == (arch != "gfx90a")
        assert "global_atomic_cmpswap" in text
        assert "v_pk_max_f16" in text or "v_max_f16" in text


def test_small_number_types_round_as_the_standard_says(tmp_path: Path) -> None:
    source = tmp_path / "numbers.hip"
    source.write_text(NUMBERS)
    program = compile_host(source, "-O3", tmp_path).executable
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == EXPECTED


def test_a_header_that_comes_into_being_before_another_is_read(tmp_path: Path) -> None:
    """In the source's own folder, which is searched first, and by __has_include."""
    library = tmp_path / "lib"
    library.mkdir()
    (library / "conf.h").write_text("#define VALUE 1\n")
    source = tmp_path / "p.hip"
    text = '#include "conf.h"\n#if __has_include("more.h")\n#include "more.h"\n#else\n#define MORE 0\n#endif\n'
    source.write_text(f"#include <hip/hip_runtime.h>\n{text}__global__ void k(int* x) {{ *x = VALUE * 16 + MORE; }}\n")

    def compiled() -> str:
        build = compile_device(source, "gfx942", f"-O3 -I{library}", tmp_path / "out")
        return build.disassembly.read_text()

    assert "v_mov_b32_e32 v1, 16" in compiled() and "v_mov_b32_e32 v1, 16" in compiled()
    (tmp_path / "conf.h").write_text("#define VALUE 2\n")
    assert "v_mov_b32_e32 v1, 32" in compiled()
    (tmp_path / "more.h").write_text("#define MORE 3\n")
    assert "v_mov_b32_e32 v1, 35" in compiled()


def test_a_header_that_comes_into_being_in_an_earlier_folder(tmp_path: Path) -> None:
    """Of two that -I names, where a program is restricted to its roots."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "second/conf.h").write_text("#define VALUE 16\n")
    source = tmp_path / "p.hip"
    source.write_text("#include <hip/hip_runtime.h>\n#include <conf.h>\n__global__ void k(int* x) { *x = VALUE; }\n")

    def compiled() -> str:
        build = compile_device(source, "gfx942", "-O3 -I first -I second", tmp_path / "out", roots=[tmp_path])
        return build.disassembly.read_text()

    assert "v_mov_b32_e32 v1, 16" in compiled()
    (tmp_path / "first/conf.h").write_text("#define VALUE 32\n")
    assert "v_mov_b32_e32 v1, 32" in compiled()


PACKED_ATOMICS = """#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
__global__ void halves(__half2* out) {
  __shared__ __half2 sum[1];
  unsafeAtomicAdd(threadIdx.x % 2 ? &sum[0] : out, out[1]);
}
__global__ void brains(__hip_bfloat162* out) { unsafeAtomicAdd(out, out[1]); }
"""


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_packed_atomics_are_those_of_hips_header(arch: str, tmp_path: Path) -> None:
    """One instruction for any address where the architecture has it; LDS among them."""
    (tmp_path / "p.hip").write_text(PACKED_ATOMICS)
    code = compile_device(tmp_path / "p.hip", arch, "-O3", tmp_path / "out").disassembly.read_text()
    loops, packed = code.count("atomic_cmpswap"), re.findall(r"atomic_pk_add_b?f16", code)
    assert (bool(loops), len(packed)) == ((True, 0) if arch == "gfx90a" else (False, 2))
