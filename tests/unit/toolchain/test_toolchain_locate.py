"""Finding the compiler: which one is used, and the errors if there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import MissingDependency, UsageError
from hipsynth.toolchain import check_arch, compile_device, find_toolchain, locate

KERNEL = "#include <hip/hip_runtime.h>\n__global__ void twice(float* p) { p[threadIdx.x] *= 2; }\n"


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"


def test_a_checkout_keeps_its_cache_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPSYNTH_CACHE", raising=False)
    assert cache_dir() == Path(__file__).resolve().parents[3] / ".cache" / "hipsynth"


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        check_arch("gfx000")
    assert caught.value.exit_code == 2
    assert "gfx90a" in caught.value.remedy
    assert "gfx942" in caught.value.remedy


def test_a_compiler_without_its_libclang_takes_that_of_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clang, native = tmp_path / "bin" / "clang", tmp_path / "packages" / "clang" / "native"
    native.mkdir(parents=True)
    (native.parent / "__init__.py").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "packages")])
    monkeypatch.delitem(sys.modules, "clang", raising=False)
    with pytest.raises(MissingDependency, match="libclang is not installed") as caught:
        locate.find_libclang(clang)
    assert "pip install 'hipsynth[libclang]'" in caught.value.remedy
    (native / "libclang.so").touch()
    assert locate.find_libclang(clang) == native / "libclang.so"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libclang-22.so.1").touch()
    assert locate.find_libclang(clang).parent == tmp_path / "lib"


def test_without_a_header_tree_the_remedy_is_the_set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path))
    monkeypatch.delenv("ROCM_PATH", raising=False)
    with pytest.raises(MissingDependency) as caught:
        find_toolchain()
    assert caught.value.exit_code == 4
    assert "make setup" in caught.value.remedy


def test_without_a_compiler_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locate, "find_tool", lambda _name: None)
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path))
    with pytest.raises(MissingDependency) as caught:
        find_toolchain()
    assert all(package in caught.value.remedy for package in ("clang-22", "lld-22", "llvm-22"))


def test_a_rocm_installation_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ROCm-shaped folder with its own compiler is used as it is, and makes the same machine code as ours."""
    ours = find_toolchain()
    root = tmp_path / "rocm"
    (root / "llvm/bin").mkdir(parents=True)
    for name in ("include", "share", "amdgcn"):
        (root / name).symlink_to(ours.root / name)
    for name in ("clang++", "lld", "llvm-objdump"):
        target = locate.find_tool(name)
        assert target is not None
        (root / "llvm/bin" / name).symlink_to(target.resolve())
    source = tmp_path / "twice.hip"
    source.write_text(KERNEL)
    expected = compile_device(source, "gfx90a", "-O3", tmp_path / "ours").disassembly.read_text()

    monkeypatch.setenv("ROCM_PATH", str(root))
    found = find_toolchain()
    assert (found.kind, found.root) == ("rocm", root)
    assert found.identity != ours.identity
    assert found.headers_version == ours.headers_version
    build = compile_device(source, "gfx90a", "-O3", tmp_path / "theirs", use_pch=False, use_cache=False)
    assert build.disassembly.read_text() == expected
    assert build.provenance["toolchain"] == "rocm"


def test_a_header_tree_behind_a_link_is_used_at_its_real_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A sandbox shows the folder, and not a link to it."""
    tree = find_toolchain().root
    (tmp_path / tree.name).symlink_to(tree)
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path))
    assert find_toolchain().root == tree.resolve()


def test_the_identity_covers_everything_that_affects_code() -> None:
    toolchain = find_toolchain()
    assert "clang version" in toolchain.compiler_version
    assert toolchain.headers_version.startswith("HIP ")
    provenance = toolchain.provenance()
    assert set(provenance) == {"compiler", "headers", "toolchain", "toolchain_identity"}
    assert all(provenance.values())
