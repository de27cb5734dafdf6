"""Sets up a checkout step by step, skipping steps that are already done; prints one line per step.

    python3 tools/setup.py            # all steps (what `make setup` runs)
    python3 tools/setup.py --freeze   # rewrite requirements.lock from .venv

Uses only the standard library. Exit code 0 if all required steps succeed (each missing optional part is reported in one
line), 1 if a required step failed, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".stamps"
LOCK = ROOT / "requirements.lock"
NATIVE_BUILD = ROOT / "build" / "native"
OLDEST = (3, 11)
TORCH = "torch"
# What an activated environment or a user's pip settings would change about the set-up.
LEAKS = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_USER")


def name_python_packages(default: Path = Path("/usr/bin/python3")) -> str:
    """How names of this interpreter's Debian packages begin: python3 for the distribution's own, else python3.12."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return "python3" if default.resolve().name == name else name


OF_PYTHON = name_python_packages()
# Debian package -> (how to detect it, whether it is required, consequence if it is missing)
SYSTEM: dict[str, tuple[str, bool, str]] = {
    "clang-22": ("program clang++-22", True, "no kernel can be compiled"),
    "lld-22": ("program lld-22", True, "no kernel can be linked"),
    "llvm-22": ("program llvm-objdump-22", True, "no kernel can be disassembled"),
    "g++": ("program g++", True, "the simulator cannot be built"),
    "libstdc++-12-dev": ("headers c++", True, "no host program can be compiled"),
    f"{OF_PYTHON}-dev": ("headers python", True, "the simulator's Python binding cannot be built"),
    f"{OF_PYTHON}-venv": ("module ensurepip", True, "no virtual environment can be made"),
    "libthrust-dev": ("file /usr/include/thrust/version.h", False, "programs that use thrust do not compile"),
    "libomp-22-dev": ("file /usr/lib/llvm-22/lib/libomp.so", False, "programs that use OpenMP do not compile"),
    "bubblewrap": ("program bwrap", False, "programs run only with --no-sandbox, with your rights"),
    "clang-format-22": ("program clang-format-22", False, "`make lint` does not check C++ layout"),
}


class StepFailure(Exception):
    """A step failed: `args[0]` describes the failure, `args[1]` the remedy."""


def leave_activated_environment() -> None:
    """Goes on under the interpreter that an activated virtual environment was made from, without its variables.

    The same checkout then gets the same .venv, whatever is activated.
    """
    for name in LEAKS:
        os.environ.pop(name, None)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if sys.prefix != sys.base_prefix and base.exists():
        os.execv(base, [str(base), *sys.argv])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Sets up this checkout.")
    parser.add_argument("--freeze", action="store_true", help="rewrite requirements.lock from .venv")
    options = parser.parse_args(argv)
    if options.freeze:
        return freeze_requirements()
    start = time.monotonic()
    steps = (
        ("python", check_python),
        ("system packages", install_system_packages),
        ("virtual environment", make_environment),
        ("PyTorch", install_torch),
        ("Python packages", install_packages),
        ("hipsynth", install_hipsynth),
        ("simulator", build_simulator),
        ("header tree", build_header_tree),
    )
    for name, step in steps:
        began = time.monotonic()
        try:
            message = step()
        except StepFailure as failure:
            print(f"{name}: FAILED: {failure.args[0]}; {failure.args[1]}", flush=True)
            return 1
        except KeyboardInterrupt:
            print(f"\n{name}: interrupted; finished steps are kept: run `make setup` again to continue", flush=True)
            return 130
        took = time.monotonic() - began
        print(f"{name}: {message}" + (f" ({took:.0f} s)" if took >= 1 else ""), flush=True)
    print(f"set-up complete in {time.monotonic() - start:.1f} s: .venv/bin/synth --help", flush=True)
    return 0


# --- steps ---------------------------------------------------------------------------------------------------------


def check_python() -> str:
    if sys.version_info[:2] < OLDEST:
        release = ".".join(map(str, sys.version_info[:2]))
        raise StepFailure(f"this is Python {release}", "run `make setup PYTHON=python3.11` (3.11 or newer)")
    return f"{sys.version.split()[0]}"


def install_system_packages() -> str:
    """Installs missing Debian packages; prints one line for each optional one that cannot be installed."""
    lacking = [name for name in SYSTEM if not is_present(name)]
    if not lacking:
        return "all installed"
    problem = install_with_apt(lacking) or "not available"
    still = [name for name in lacking if not is_present(name)]
    for name in still:
        if not SYSTEM[name][1]:
            print(f"system packages: without {name} {SYSTEM[name][2]}; to install: {name_command([name])}", flush=True)
    required = [name for name in still if SYSTEM[name][1]]
    if required:
        costs = "; ".join(f"without {name} {SYSTEM[name][2]}" for name in required)
        raise StepFailure(f"{problem}: {costs}", f"run as root: {name_command(required)}")
    installed = [name for name in lacking if name not in still]
    return "installed " + ", ".join(installed) if installed else f"nothing installed ({problem})"


def name_command(packages: list[str]) -> str:
    """The command that installs packages, and where those are that a distribution may lack."""
    command = "apt-get install " + " ".join(packages)
    return command + (" (from apt.llvm.org, if apt-get has none)" if any("-22" in name for name in packages) else "")


def is_present(package: str) -> bool:
    """Whether the package's program, file, module or headers exist, from whatever source."""
    kind, name = SYSTEM[package][0].split(" ", 1)
    if kind == "program":
        return shutil.which(name) is not None
    if kind == "file":
        return Path(name).exists()
    if kind == "module":
        return importlib.util.find_spec(name) is not None
    if name == "python":
        import sysconfig

        return (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    return any(Path("/usr/include/c++").glob("*/vector"))


def install_with_apt(names: list[str]) -> str:
    """Installs what it can; returns why it could not install the rest, or ""."""
    if shutil.which("apt-get") is None:
        return "apt-get not found (not a Debian system)"
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            return "neither root nor sudo"
        if (
            subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
            and not sys.stdin.isatty()
        ):
            return "sudo requires a password"
        prefix = ["sudo"]
    print(f"system packages: installing {', '.join(names)}", flush=True)
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    run_quietly([*apt, "update"])
    install = [*apt, "install", "-y", "--no-install-recommends"]
    if run_quietly([*install, *names]):
        return ""
    for name in names:  # one unavailable package must not prevent the others
        run_quietly([*install, name])
    return "apt-get could not install it"


def make_environment() -> str:
    version = sys.version.split()[0]
    settings = VENV / "pyvenv.cfg"
    # Scripts in a .venv name its place, which differs after the checkout has moved.
    is_here = settings.exists() and f" {VENV}\n" in settings.read_text()
    if is_here and PYTHON.exists() and has_stamp("venv", version):
        return ".venv"
    run_or_fail(
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        "the virtual environment cannot be made",
        f"apt-get install {OF_PYTHON}-venv, or name another interpreter: make setup PYTHON=python3.11",
    )
    write_stamp("venv", version)
    return "made .venv"


def install_torch() -> str:
    """Installs PyTorch first, separately, so that no dependent package pulls in another build of it."""
    line = next(line for line in LOCK.read_text().splitlines() if line.startswith(TORCH + "=="))
    if has_stamp("torch", line):
        return line
    installed = run_text([str(PYTHON), "-c", "import importlib.metadata as m; print(m.version('torch'))"])
    if installed.split("+")[0] != line.split("==")[1]:
        print(f"PyTorch: installing {line}", flush=True)
        install_with_pip([line], "PyTorch cannot be installed")
    write_stamp("torch", line)
    return line


def install_packages() -> str:
    lines = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    if has_stamp("packages", LOCK.read_text()):
        return f"{len(lines)} as locked"
    print(f"Python packages: installing {len(lines)}", flush=True)
    install_with_pip(["--no-build-isolation", "setuptools", "wheel"], "setuptools cannot be installed")
    install_with_pip(["--no-build-isolation", "-r", str(LOCK)], "the packages of requirements.lock cannot be installed")
    write_stamp("packages", LOCK.read_text())
    return f"{len(lines)} installed"


def install_hipsynth() -> str:
    """Installs the `synth` command and a path entry for this checkout, in a form that type checkers understand."""
    identity = str(ROOT) + (ROOT / "pyproject.toml").read_text()
    if has_stamp("editable", identity) and (VENV / "bin" / "synth").exists():
        return ".venv/bin/synth"
    settings = ["editable.mode=inplace", "wheel.cmake=false", "wheel.py-api=py3"]
    options = [f"--config-settings={setting}" for setting in settings]
    install_with_pip(
        ["--no-build-isolation", "--no-deps", *options, "-e", str(ROOT)], "hipsynth itself cannot be installed"
    )
    write_stamp("editable", identity)
    return "installed .venv/bin/synth"


def build_simulator() -> str:
    """Builds the simulator core and the HIP runtime library into simulator/ (incremental)."""
    folders = [ROOT / name for name in ("toolchain/sandbox/native", "simulator/native", "simulator/isa")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if is_native(path)]
    sources = [ROOT / "CMakeLists.txt", *paths]
    identity = digest_files(sources) + str(ROOT) + sys.version
    wanted = ("simulator/_core*.so", "simulator/libhipsynth_hip.so", "toolchain/sandbox/hipsynth-supervisor")
    if has_stamp("native", identity) and all(any(ROOT.glob(name)) for name in wanted):
        return f"built from {len(sources)} files"
    print("simulator: building (a few minutes the first time)", flush=True)
    # A CMake build folder cannot change its compiler or Python: start a new one if they change.
    choice = (ROOT / "CMakeLists.txt").read_text() + str(ROOT) + sys.version
    if not has_stamp("native-choice", choice):
        shutil.rmtree(NATIVE_BUILD, ignore_errors=True)
        write_stamp("native-choice", choice)
    binaries = PYTHON.parent
    configure = [str(binaries / "cmake"), "-S", str(ROOT), "-B", str(NATIVE_BUILD), "-G", "Ninja", "-Wno-dev"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={PYTHON}", f"-DPython3_EXECUTABLE={PYTHON}"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={binaries / 'ninja'}", f"-Dnanobind_DIR={find_nanobind()}"]
    remedy = "see build/native.log; `make clean` and try again"
    log = ROOT / "build" / "native.log"
    run_or_fail(configure, "the simulator's build cannot be configured", remedy, log=log)
    jobs = str(max(1, min(os.cpu_count() or 1, read_memory_gib() // 2)))
    run_or_fail(
        [str(binaries / "cmake"), "--build", str(NATIVE_BUILD), "-j", jobs],
        "the simulator does not build",
        remedy,
        log=log,
    )
    staged = NATIVE_BUILD / "installed"
    install = [str(binaries / "cmake"), "--install", str(NATIVE_BUILD), "--prefix", str(staged)]
    run_or_fail(install, "the simulator cannot be installed", remedy, log=log)
    for path in staged.rglob("*"):
        if path.is_file():
            replace_file(path, ROOT / path.relative_to(staged))
    write_stamp("native", identity)
    return "built"


def build_header_tree() -> str:
    # Check in this process, to start a second interpreter only if there is something to build.
    sys.path.insert(0, str(ROOT))
    from hipsynth.toolchain import locate

    manifest = locate.read_manifest(locate.tree_path())
    if manifest is None:
        code = subprocess.run([str(PYTHON), "-m", "hipsynth.toolchain"], cwd=ROOT, check=False).returncode
        if code != 0:
            raise StepFailure("the header tree cannot be built", "see the line above, then run `make setup` again")
        manifest = locate.read_manifest(locate.tree_path()) or {}
    return str(manifest["headers_version"])


# --- helpers -------------------------------------------------------------------------------------------------------


def replace_file(source: Path, target: Path) -> None:
    """Puts a copy in a file's place; programs that have mapped the old one keep it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    shutil.copy2(source, fresh)
    fresh.replace(target)


def is_native(path: Path) -> bool:
    suffixes = {".cpp", ".h", ".toml", ".txt", ".cmake", ".map", ".proftext", ".py", ".in", ".inc"}
    return path.suffix in suffixes and path.is_file()


def digest_files(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def has_stamp(name: str, identity: str) -> bool:
    path = STAMPS / name
    return path.exists() and path.read_text() == hashlib.sha256(identity.encode()).hexdigest()


def write_stamp(name: str, identity: str) -> None:
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / name).write_text(hashlib.sha256(identity.encode()).hexdigest())


def run_quietly(command: list[str], log: Path | None = None) -> bool:
    """Runs a command, appends its output to `log` instead of showing it, and returns whether it succeeded."""
    environment = {**os.environ, "DS_BUILD_OPS": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:  # such as a missing program in a damaged .venv
        result = subprocess.CompletedProcess(command, 127, "", f"error: {error}\n")
    path = log or ROOT / "build" / "setup.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("$ " + " ".join(command) + "\n" + result.stdout + result.stderr)
    return result.returncode == 0


def run_or_fail(command: list[str], failure: str, remedy: str, log: Path | None = None) -> None:
    if not run_quietly(command, log):
        raise StepFailure(failure + find_last_error(log or ROOT / "build" / "setup.log"), remedy)


def find_last_error(log: Path) -> str:
    """The first error line of the last command in a log."""
    last = ("\n" + log.read_text(errors="replace")).rpartition("\n$ ")[2].partition("\n")[2]
    match = re.search(r"^.*\b(?:error|ERROR|Error)\b.*$", last, re.MULTILINE)
    return f" ({match.group().strip()[:200]})" if match else ""


def install_with_pip(arguments: list[str], failure: str) -> None:
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-input", *arguments]
    run_or_fail(command, failure, "check the network and run `make setup` again (details: build/setup.log)")


def run_text(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def find_nanobind() -> str:
    return run_text([str(PYTHON), "-m", "nanobind", "--cmake_dir"])


def read_memory_gib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30


def freeze_requirements() -> int:
    """Rewrites requirements.lock from .venv, without hipsynth itself and without build tags (2.13.0+cpu)."""
    lines = run_text([str(PYTHON), "-m", "pip", "freeze", "--exclude-editable"]).splitlines()
    requirements = sorted(
        (line.partition("+")[0] for line in lines if "==" in line and line[:8] != "hipsynth"), key=str.lower
    )
    head = [line for line in LOCK.read_text().splitlines() if line.startswith("#")]
    LOCK.write_text("\n".join([*head, *requirements]) + "\n")
    print(f"requirements.lock: {len(requirements)} packages")
    return 0


if __name__ == "__main__":
    leave_activated_environment()
    sys.exit(main())
