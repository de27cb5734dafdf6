"""The built wheel, installed into an empty environment, is small, and profiles and answers outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import needs
import pytest

from tools import wheels
from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parents[2]
MISSING = 4  # the exit code of what is missing
MOST_BYTES = 150 << 20  # of an installation with all that it requires
FOLDERS = (*ROOMS, "templates", "corpus")
ROOT_MODULES = {"hipsynth/__init__.py", "hipsynth/triton.py"}
BUILT = ("_core", "libhipsynth_hip.so", "libhipsynth_hip.version")


def run(command: list[object], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make wheels` builds it, for this interpreter (minutes; a second time less)."""
    needs.compiler()
    (built,) = wheels.build_wheels(tmp_path_factory.mktemp("wheel"), [sys.executable])
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """A process environment that knows nothing of the checkout, with an empty cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HIPSYNTH_", "PYTHON"))}
    return {**kept, "HIPSYNTH_CACHE": str(tmp_path / "cache")}


def tracked() -> set[str]:
    """What the wheel must hold of the checkout: everything but C++ sources and the released corpus."""
    return {f"hipsynth/{line}" for line in sources() if not re.match(r"(simulator|toolchain/sandbox)/native/", line)}


def sources() -> list[str]:
    """The tracked files of the packages without the released corpus, which no package holds."""
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if not line.startswith("corpus/release/")]


@pytest.mark.full
def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    listed = zipfile.ZipFile(wheel).namelist()
    names = {name for name in listed if ".dist-info/" not in name and not name.endswith("/")}
    own = {name for name in names if name.startswith("hipsynth/simulator/") and Path(name).name.startswith(BUILT)}
    assert len(own) == len(BUILT)
    tree = {name for name in names if name.startswith("hipsynth/toolchain/tree/")}
    assert {"include/hip/hip_runtime.h", "amdgcn/bitcode/ocml.bc", "manifest.json"} <= {name[24:] for name in tree}
    assert re.search(r"-manylinux_2_\d+_x86_64\.whl$", wheel.name)
    assert names - own - tree == tracked() | ROOT_MODULES | {"hipsynth/toolchain/sandbox/hipsynth-supervisor"}


@pytest.mark.full
def test_an_installation_is_small(environment: Path) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    tools = ("pip", "setuptools", "wheel", "_distutils_hack", "distutils")  # of every new environment
    entries = [entry for entry in packages.iterdir() if not entry.name.startswith(tools)]
    files = {file for entry in entries for file in [entry, *entry.rglob("*")] if file.is_file()}
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    names = {entry.name for entry in entries}
    assert "hipsynth" in names and not names & {"pytest", "hypothesis", "torch", "pyarrow", "lightgbm", "clang"}


@pytest.mark.full
def test_an_installed_wheel_profiles_predicts_and_generates(
    environment: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    synth = [environment / "bin" / "synth"]
    place = run([environment / "bin" / "python", "-c", "import hipsynth; print(hipsynth.__file__)"], tmp_path, outside)
    assert place.stdout.startswith(str(environment)), place.stdout + place.stderr
    doctor = run([*synth, "doctor"], tmp_path, outside)
    assert doctor.returncode == 0 and "make setup" not in doctor.stdout, doctor.stdout + doctor.stderr

    shutil.copy(ROOT / "corpus/handwritten/grid_stride/vector_add.hip", tmp_path / "kernel.hip")
    profiled = run([*synth, "profile", "kernel.hip", "--arch", "gfx942", "--json"], tmp_path, outside)
    assert profiled.returncode == 0, profiled.stderr
    assert json.loads(profiled.stdout)["results"][0]["kernels"][0]["name"] == "vector_add"
    answer = run([*synth, "predict", "kernel.hip", "--arch", "gfx942"], tmp_path, outside)
    assert answer.returncode == 0 and "predicted, not executed" in answer.stdout, answer.stderr

    made = run([*synth, "generate", "--count", "3", "--seed", "5", "--out", "programs"], tmp_path, outside)
    assert made.returncode == 0 and len(list((tmp_path / "programs").glob("*.hip"))) == 3, made.stderr
    corpus = run([*synth, "profile", "programs", "--out", "corpus", "--arch", "gfx90a"], tmp_path, outside)
    assert corpus.returncode == MISSING and "pip install 'hipsynth[corpus]'" in corpus.stderr, corpus.stderr


@pytest.mark.full
def test_the_source_distribution_holds_what_a_build_needs(tmp_path: Path) -> None:
    """Its Python side makes the same packages as the checkout's, and the sources of the simulator are in it."""
    code = f"import scikit_build_core.build as build; build.build_sdist({str(tmp_path)!r})"
    done = run([sys.executable, "-c", code], ROOT, os.environ)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    unpacked = archive.with_name(archive.name.removesuffix(".tar.gz"))
    needed = [*sources(), "CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md"]
    assert not [name for name in needed if not (unpacked / name).is_file()]
    settings = ["wheel.cmake=false", "wheel.py-api=py3"]
    options = [f"--config-settings={setting}" for setting in settings]
    words = ["--no-build-isolation", "--no-deps", *options, "--wheel-dir", tmp_path]
    done = run([sys.executable, "-m", "pip", "wheel", *words, unpacked], tmp_path, os.environ)
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    assert names == tracked() | ROOT_MODULES
