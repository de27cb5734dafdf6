"""Programs as people write them (solvers, sorts, transforms, fractals) check their results on every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip_programs import run

# program -> what it prints
PROGRAMS = {
    "tiled_gemm": "tiled gemm ok",
    "nbody": "nbody ok",
    "jacobi": "jacobi ok",
    "bitonic_sort": "bitonic sort ok",
    "group_scan": "group scan ok",
    "lane_groups": "lane groups ok",
    "mandelbrot": "mandelbrot ok",
    "spmv_csr": "spmv ok",
    "fft": "fft ok",
    "game_of_life": "life ok",
    "conv2d": "conv2d ok",
    "half_axpy": "half axpy ok",
    "fp8": "fp8 ok",
    "linked_list": "linked list ok",
    "clocks": "clocks ok",
}
NEWER = ("fp8", "half_axpy", "tiled_gemm", "fft")  # quickly run on gfx950, too
OPENMP = Path("/usr/lib/llvm-22/lib/libomp.so")
ARCHS = ("gfx90a", "gfx942", "gfx950")
FLAGS = ("-O0", "-O3", "-O3 -ffast-math")


def check(name: str, arch: str, flags: str, scratch: Path) -> None:
    done = run(name, scratch, arch=arch, flags=flags)
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, PROGRAMS[name] + "\n"), (
        done.message,
        done.stdout,
        done.stderr,
    )


@pytest.mark.parametrize(("name", "arch"), [(name, ARCHS[i % 2]) for i, name in enumerate(PROGRAMS)])
def test_program(name: str, arch: str, tmp_path: Path) -> None:
    check(name, arch, "-O3", tmp_path)


@pytest.mark.parametrize("name", NEWER)
def test_program_on_gfx950(name: str, tmp_path: Path) -> None:
    check(name, "gfx950", "-O3", tmp_path)


def test_matrix_instructions_of_cdna4(tmp_path: Path) -> None:
    done = run("cdna4_matrix", tmp_path, arch="gfx950")
    assert (done.status, done.stdout) == ("ok", "cdna4 matrix ok\n"), (done.message, done.stdout)


@pytest.mark.parametrize("name", ["conv2d", "linked_list"])
def test_without_optimisation(name: str, tmp_path: Path) -> None:
    check(name, "gfx942", "-O0", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_build_of_a_program(name: str, arch: str, flags: str, tmp_path: Path) -> None:
    check(name, arch, flags, tmp_path)


def test_host_side_with_openmp(tmp_path: Path) -> None:
    if not OPENMP.exists():
        pytest.skip("needs libomp-22-dev")
    done = run("host_threads", tmp_path, flags="-O3 -fopenmp")
    assert (done.status, done.stdout) == ("ok", "host threads ok\n"), done


def test_rest_of_a_containers_last_page_may_be_touched(tmp_path: Path) -> None:
    done = run("thrust_page", tmp_path)
    assert (done.status, done.stdout) == ("ok", "page ok\n"), done


def test_beyond_a_containers_last_page_is_an_illegal_access(tmp_path: Path) -> None:
    done = run("thrust_page", tmp_path, ("1024",))
    assert (done.status, done.reason) == ("failed", "illegal_access"), done
    assert "4096 bytes" in done.message
