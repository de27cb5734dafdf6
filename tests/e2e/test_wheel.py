"""The built wheel, installed into an empty environment, generates, profiles and answers outside the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import needs
import pytest

from hipsynth.toolchain import locate
from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parents[2]
MISSING = 4  # the exit code of what is missing
FOLDERS = (*ROOMS, "templates", "corpus")
BUILT = ("_core", "libhipsynth_hip.so", "libhipsynth_hip.version")


def run(command: list[object], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout with the installed build tools (minutes; a second time less)."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT]
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run(command, folder, {**os.environ, "PATH": binaries})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (built,) = folder.glob("hipsynth-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel; the dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", packages, wheel]
    subprocess.run(install, check=True, capture_output=True)
    (packages / "dependencies.pth").write_text("\n".join(dependencies(tmp_path_factory.mktemp("dependencies"))))
    return folder


def dependencies(folder: Path) -> list[str]:
    """Folders with all packages of this environment but hipsynth: links, so that no path entry of it is read."""
    for origin in {path for path in sys.path if "site-packages" in path} | {sysconfig.get_path("purelib")}:
        for entry in Path(origin).iterdir():
            if entry.suffix != ".pth" and "hipsynth" not in entry.name and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return [str(folder)]


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
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    own = {name for name in names if name.startswith("hipsynth/simulator/") and Path(name).name.startswith(BUILT)}
    assert len(own) == len(BUILT)
    assert names - own == tracked() | {"hipsynth/__init__.py", "hipsynth/toolchain/sandbox/hipsynth-supervisor"}


@pytest.mark.full
def test_an_installed_wheel_generates_profiles_and_answers(
    environment: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    needs.compiler()
    python, synth = environment / "bin" / "python", [environment / "bin" / "python", "-m", "hipsynth.cli.main"]
    place = run([python, "-c", "import hipsynth; print(hipsynth.__file__)"], tmp_path, outside)
    assert place.stdout.startswith(str(environment)), place.stdout + place.stderr

    doctor = run([*synth, "doctor"], tmp_path, outside)
    assert doctor.returncode == MISSING and "python -m hipsynth.toolchain" in doctor.stdout, doctor.stdout
    shutil.copytree(locate.tree_path(), tmp_path / "cache" / locate.tree_path().name, symlinks=True)
    tree = run([python, "-m", "hipsynth.toolchain"], tmp_path, outside)
    assert tree.returncode == 0 and "header tree:" in tree.stdout, tree.stderr

    made = run([*synth, "generate", "--count", "3", "--seed", "5", "--out", "programs"], tmp_path, outside)
    assert made.returncode == 0 and len(list((tmp_path / "programs").glob("*.hip"))) == 3, made.stderr
    one = sorted((tmp_path / "programs").glob("*.hip"))[0]
    measured = run(
        [*synth, "profile", "programs", "--out", "corpus", "--arch", "gfx90a", "--flags=-O3", "--json"],
        tmp_path,
        outside,
    )
    assert measured.returncode == 0 and json.loads(measured.stdout)["measured"] == 12, measured.stdout + measured.stderr
    answer = run([*synth, "predict", one, "--arch", "gfx90a", "--flags=-O3"], tmp_path, outside)
    assert answer.returncode == 0 and "predicted, not executed" in answer.stdout, answer.stderr


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
    words = ["--no-build-isolation", "--no-deps", "--config-settings=wheel.cmake=false", "--wheel-dir", tmp_path]
    done = run([sys.executable, "-m", "pip", "wheel", *words, unpacked], tmp_path, os.environ)
    assert done.returncode == 0, done.stderr
    (built,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(built).namelist() if ".dist-info/" not in name}
    assert names == tracked() | {"hipsynth/__init__.py"}
