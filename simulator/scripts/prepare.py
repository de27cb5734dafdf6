"""What a script with Triton kernels needs before it can start: Triton, PyTorch, and Triton's launcher module.

Triton compiles its launcher with the host's C compiler when a script first needs it. Here it is compiled once, outside
of any sandbox, from Triton's own source, and kept in the cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import replace_atomically
from hipsynth.core.installation import install_command
from hipsynth.simulator.api import library_path
from hipsynth.simulator.artefacts import Artefacts, ScriptInterpreter
from hipsynth.toolchain.sandbox.bubblewrap import TEMPORARY_FOLDERS

LIBHIP, LAUNCHER = "libamdhip64.so", "hip_utils"
START = Path(__file__).resolve().parent / "inside" / "start.py"
NEEDED = ("triton", "torch")


def missing_packages() -> list[str]:
    """The packages of scripts that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def require_packages() -> None:
    """Raises MissingDependency if Triton or PyTorch is not installed."""
    missing = missing_packages()
    if missing:
        raise MissingDependency(
            f"{' and '.join(missing)} not installed: no script can run", remedy=install_command("triton")
        )


def package_versions() -> str:
    """As provenance: "triton 3.9.0, torch 2.13.0"."""
    return ", ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in NEEDED)


def prepare_script(script: Path) -> Artefacts:
    """The script as a program that can be run. Raises MissingDependency."""
    require_packages()
    launcher = build_launcher()
    environment = {
        **device_environment(launcher),
        "LD_LIBRARY_PATH": str(launcher.parent),  # where other bindings of HIP look for the runtime library
        "MPLBACKEND": "Agg",
        "PYTEST_ADDOPTS": "-p no:hipsynth",  # a script that calls pytest has the device already
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
    }
    folder = TEMPORARY_FOLDERS[0]  # of the sandbox, empty when a script starts
    places = {
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "MPLCONFIGDIR": f"{folder}/matplotlib",
        "XDG_CACHE_HOME": f"{folder}/cache",
    }
    folders = (START.parent, launcher.parent, Path(sys.prefix), Path(sys.base_prefix))
    python = Path(sys.prefix).resolve() / "bin" / Path(sys.executable).name
    command = (str(python), str(START))
    interpreter = ScriptInterpreter(command, folders, tuple(environment.items()), tuple(places.items()))
    return Artefacts(script, objdump=toolchain.find_toolchain().objdump, interpreter=interpreter)


def device_environment(launcher: Path) -> dict[str, str]:
    """What the device in a process reads from its environment; `launcher`: of build_launcher()."""
    return {
        "TRITON_LIBHIP_PATH": str(launcher.with_name(LIBHIP)),
        "HIPSYNTH_TRITON_LAUNCHER": str(launcher),
        "TRITON_DEFAULT_FP_FUSION": "1",  # the default of Triton 3.9, without its warning
    }


def build_launcher() -> Path:
    """The compiled launcher module, beside a link to the runtime library under the name that Triton wants."""
    spec = importlib.util.find_spec("triton")
    assert spec is not None and spec.submodule_search_locations
    source = Path(spec.submodule_search_locations[0]) / "backends" / "amd"
    text = (source / "driver.c").read_text()
    name = f"{LAUNCHER}{sysconfig.get_config_var('EXT_SUFFIX')}"
    # The module has the folder's own path in it: one that was moved is of no use.
    parts = (text, str(cache_dir()), str(library_path()), sys.version, name)
    identity = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    folder = cache_dir() / f"triton-{identity}"
    if not (folder / name).exists():
        with replace_atomically(folder, is_finished=lambda found: (found / name).exists()) as fresh:
            fresh.mkdir()
            (fresh / LIBHIP).symlink_to(library_path())
            (fresh / "driver.c").write_text(text.replace("/*py_libhip_search_path*/", str(folder / LIBHIP), 1))
            includes = [source / "include", source, sysconfig.get_paths()["include"]]
            _compile(fresh / "driver.c", fresh / name, [f"-I{path}" for path in includes])
    return folder / name


def _compile(source: Path, target: Path, includes: list[str]) -> None:
    compiler = toolchain.find_toolchain().clang
    command = [str(compiler), "-x", "c", "-O2", "-shared", "-fPIC", "-w", *includes, "-o", str(target), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        problem = "Triton's launcher module does not compile"
        raise MissingDependency(problem, cause=result.stderr.strip()[-500:], remedy="see `synth doctor`")
