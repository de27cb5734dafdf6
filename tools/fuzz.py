"""Fuzzes the C++ core: `python -m tools.fuzz [SECONDS] [--corpus DIR]`, or `make fuzz SECONDS=600`.

Builds libFuzzer programs with AddressSanitizer and UndefinedBehaviorSanitizer, seeds them with the code of the test
kernels and divides the time among them. An input that crashes, hangs or triggers a sanitizer is kept in
out/fuzz/crashes and makes the run fail; turn it into a test in tests/unit/sim/test_hostile_code.py.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import HipsynthError
from hipsynth.simulator import devices
from tools.native_build import ROOT, NativeBuild

BUILD = NativeBuild("fuzz", ("-DHIPSYNTH_SANITIZE=ON", "-DHIPSYNTH_FUZZ=ON"))
TARGETS = {"text": 0.2, "object": 0.35, "launch": 0.35, "bundle": 0.1}  # share of the time
SOURCES = ("programs_sim.hip",)
HANG_S = 20


def strip_comments(disassembly: str) -> str:
    """Only the instructions, one per line."""
    lines = (line.split("//")[0].strip() for line in disassembly.splitlines())
    return "\n".join(line for line in lines if line and not line.endswith(":") and "file format" not in line)


def pack_head(arch: str) -> bytes:
    """Launch parameters of the `launch` target: struct Parameters of simulator/native/fuzz/launch.cpp."""
    number = devices.list_architectures().index(arch)
    return struct.pack("<4B4H6I", number, 15, 15, 0, 1024, 64, 0x3F0, 0, 2, 1, 1, 64, 1, 1)


def build_bundle(arch: str, elf: bytes) -> bytes:
    """An offload bundle in clang's layout: an empty host entry, and the device code on the next page."""
    triples, page = (b"host-x86_64-unknown-linux-gnu-", f"hipv4-amdgcn-amd-amdhsa--{arch}".encode()), 4096
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(triples))
    for triple, size in zip(triples, (0, len(elf)), strict=True):
        head += struct.pack("<3Q", page, size, len(triple)) + triple
    return head.ljust(page, b"\0") + elf


def split_kernels(text: str) -> list[str]:
    """The functions of a disassembly as separate texts."""
    return ["\n".join(part.splitlines()[1:]) for part in text.split("\n\n") if "//" in part]


def write_seeds(folder: Path) -> None:
    """Writes the architecture tables and one seed per test kernel, architecture and target."""
    for target in TARGETS:
        (folder / target).mkdir(parents=True, exist_ok=True)
    for number, arch in enumerate(devices.list_architectures()):
        table = devices.device_of(arch)
        (folder / f"{table.arch}.txt").write_text("".join(f"{k} {float(v)!r}\n" for k, v in table.spec().items()))
        for source in SOURCES:
            compiled = toolchain.compile_device(
                ROOT / "tests" / "kernels" / source, table.arch, "-O1", folder / "build" / table.arch
            )
            text, elf = compiled.disassembly.read_text(), compiled.code_object.read_bytes()
            first = bytes([number])
            name = f"{Path(source).stem}-{table.arch}"
            packed = first + struct.pack("<I", len(text.encode())) + text.encode() + elf
            (folder / "object" / name).write_bytes(packed)
            (folder / "bundle" / name).write_bytes(first + build_bundle(table.arch, elf))
            (folder / "bundle" / f"{name}-elf").write_bytes(first + elf)
            for i, kernel in enumerate(split_kernels(text)):
                (folder / "text" / f"{name}-{i}").write_bytes(first + kernel.encode())
                (folder / "launch" / f"{name}-{i}").write_bytes(pack_head(table.arch) + strip_comments(kernel).encode())


def fuzz_target(target: str, seconds: int, corpus: Path) -> bool:
    """Runs one target for `seconds`; returns whether no input crashed, hung or triggered a sanitizer."""
    crashes = corpus / "crashes"
    crashes.mkdir(exist_ok=True)
    environment = os.environ | {
        "HIPSYNTH_FUZZ_TABLES": str(corpus),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    print(f"== {target}: {seconds} s", flush=True)
    command = [
        str(BUILD.folder / "simulator" / "native" / "fuzz" / f"fuzz_{target}"),
        str(corpus / target),
        f"-max_total_time={seconds}",
        f"-timeout={HANG_S}",
        "-rss_limit_mb=4096",
        "-max_len=262144",
        "-print_final_stats=1",
        "-verbosity=1",
        f"-artifact_prefix={crashes}/{target}-",
    ]
    process = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, errors="replace")
    tail = process.stderr.splitlines()
    print("\n".join(line for line in tail if line.startswith("stat::")), flush=True)
    if process.returncode:
        print("\n".join(tail[-60:]))
    return process.returncode == 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Fuzz the simulator core.")
    parser.add_argument("seconds", type=int, nargs="?", default=600)
    parser.add_argument("--corpus", type=Path, default=ROOT / "out" / "fuzz")
    parser.add_argument("--target", choices=TARGETS, help="run only this target")
    options = parser.parse_args(arguments)
    try:
        BUILD.compile_core()
        write_seeds(options.corpus.resolve())
    except (HipsynthError, subprocess.CalledProcessError, OSError) as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 4
    wanted = {options.target: 1.0} if options.target else TARGETS
    survived = [
        fuzz_target(t, max(1, round(options.seconds * share)), options.corpus.resolve()) for t, share in wanted.items()
    ]
    print("survived" if all(survived) else "CRASHED: see crashes in the corpus folder")
    return 0 if all(survived) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
