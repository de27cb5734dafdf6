"""Does the code that clang generates for its AMDGPU builtins decode and run?

The functions and their types are those of the installed clang; each is called from a kernel of its own, with several
values where it wants a constant.
"""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import clang_builtins
import needs
import numpy as np
import pytest
from llvm_tools import CLANG, OBJDUMP, library_of

from hipsynth.simulator import _core, devices

ARCHS = ("gfx90a", "gfx942")
# Instructions that builtins generate and the simulator does not implement.
REFUSED = {"ds_gws_sema_v", "ds_gws_sema_br", "ds_gws_sema_p", "ds_gws_sema_release_all"}
# Addresses, clocks and values that C++ leaves undefined: a bool read from any byte, what mov_dpp keeps.
OWN_VALUE = re.compile(r"_ptr$|make_buffer_rsrc|s_mem(real)?time|ballot_w64|mov_dpp")
# Not launched: barriers between waves that nobody else arrives at, images without a descriptor, and jumps to anywhere.
NOT_RUN = re.compile(
    r"ds_gws_|image_|s_getpc|s_sendmsg|endpgm|load_to_lds|global_load_lds|buffer_load_lds|s_setreg|set_fpenv"
)

LIBRARY = library_of(CLANG, "libclang-cpp")
if LIBRARY is None or OBJDUMP is None:
    needs.missing("clang 22 and its library are not installed")


def clang(arch: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    head = [str(CLANG), "-x", "hip", "--cuda-device-only", f"--offload-arch={arch}", "-nogpuinc", "-nogpulib", "-w"]
    return subprocess.run([*head, *arguments, "-"], input=text, capture_output=True, text=True, check=False)


def existing(arch: str, names: list[str]) -> list[str]:
    """The builtins that exist on the architecture."""
    asked = "\n".join(f"#if __has_builtin({name})\nhas {name}\n#endif" for name in names)
    lines = clang(arch, "-E", "-P", text=asked).stdout.splitlines()
    return [line.split()[1] for line in lines if line.startswith("has ")]


def build(arch: str, level: str, folder: Path) -> tuple[dict[str, str], bytes, str]:
    """(builtin of each kernel, code object, disassembly). Calls whose constants clang rejects are left out."""
    assert LIBRARY is not None
    table = clang_builtins.entries(LIBRARY)
    calls = list(clang_builtins.kernels(arch, existing(arch, sorted(table)), table))
    head = clang_builtins.PRELUDE.count("\n")
    source = clang_builtins.PRELUDE + "\n".join(line for _, line, _ in calls)
    checked = clang(arch, "-fsyntax-only", "-ferror-limit=0", text=source)
    bad = {int(n) - 1 - head for n in re.findall(r"<stdin>:(\d+):\d+: error", checked.stderr)}
    kept = [call for n, call in enumerate(calls) if n not in bad]
    source = clang_builtins.PRELUDE + "\n".join(line for _, line, _ in kept)
    out = folder / f"{arch}{level}.co"
    made = clang(arch, level, "--no-gpu-bundle-output", "-fno-crash-diagnostics", "-o", str(out), text=source)
    assert made.returncode == 0, made.stderr[-2000:]
    listing = subprocess.run(
        [str(OBJDUMP), "-d", f"--mcpu={arch}", str(out)], capture_output=True, text=True, check=True
    )
    symbols = {re.search(r"void (\w+)\(", line)[1]: name for name, line, _ in kept}  # type: ignore[index]
    return symbols, out.read_bytes(), listing.stdout


def check(arch: str, level: str, folder: Path) -> tuple[dict[str, str], bytes, str]:
    symbols, code, listing = build(arch, level, folder)
    assert len(set(symbols.values())) > {"gfx90a": 300, "gfx942": 260}[arch]
    refused = {line.split(":")[0] for line in _core.decode(arch, listing)["unsupported"]}
    assert refused == REFUSED
    return symbols, code, listing


def launch(device: Any, module: Any, symbol: str) -> np.ndarray:
    """Runs the kernel and returns its output buffer."""
    data = np.random.default_rng(5).normal(size=4096).astype(np.float32).view(np.uint8)
    out = np.zeros(32768, np.uint8)
    places = [device.allocate(data.size), device.allocate(out.size)]
    device.write(places[0], data), device.write(places[1], out)
    device.launch(module, symbol, (1, 1, 1), (64, 1, 1), struct.pack("<2Q", *places))
    device.read(places[1], out)
    for place in places:
        device.release(place)
    return out


@pytest.mark.parametrize("arch", ["gfx90a", pytest.param("gfx942", marks=pytest.mark.full)])
def test_optimised_calls_decode_and_run(arch: str, tmp_path: Path) -> None:
    symbols, code, listing = check(arch, "-O3", tmp_path)
    device = _core.Device(arch, devices.load_device(devices.default_device(arch)).spec(), count=True)
    module = device.load(code, listing)
    for symbol, name in symbols.items():
        if not NOT_RUN.search(name):
            launch(device, module, symbol)


@pytest.mark.full
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
@pytest.mark.parametrize("arch", ARCHS)
def test_calls_decode_at_other_levels(arch: str, level: str, tmp_path: Path) -> None:
    check(arch, level, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHS)
def test_values_do_not_depend_on_the_optimiser(arch: str, tmp_path: Path) -> None:
    """Other instructions, other operand forms, other registers: the same results."""
    found: list[dict[str, np.ndarray]] = []
    for level in ("-O0", "-O3"):
        symbols, code, listing = build(arch, level, tmp_path)
        device = _core.Device(arch, devices.load_device(devices.default_device(arch)).spec(), count=False)
        module = device.load(code, listing)
        run = {s: n for s, n in symbols.items() if not NOT_RUN.search(n) and not OWN_VALUE.search(n)}
        found.append({f"{name} ({symbol})": launch(device, module, symbol) for symbol, name in run.items()})
    assert found[0].keys() == found[1].keys()
    assert [name for name in found[0] if not np.array_equal(found[0][name], found[1][name])] == []
