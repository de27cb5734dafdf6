"""Runs every benchmark of speed and writes docs/explanation/speed.md: `python -m benchmarks` (what `make bench` runs).

Each *_speed.py of this folder prints a plain table; this page is those tables with the day and the machine. Run it on a
calm machine.
"""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs/explanation/speed.md"
INTRODUCTION = """# How fast the parts are

Written by `make bench`: each section is what one script of `benchmarks/` printed. Absolute figures belong to the
machine below; where a script has a peer, both ran side by side.
"""


def processor() -> str:
    """The processor's own name, where the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def section(script: Path) -> str:
    """Runs one script; its output under the first line of its docstring. Raises CalledProcessError when it fails."""
    title = (ast.get_docstring(ast.parse(script.read_text())) or script.stem).splitlines()[0].rstrip(".")
    print(f"== {script.name}", flush=True)
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout.rstrip()
    print(output, flush=True)
    return f"## {title}\n\n`python benchmarks/{script.name}`\n\n```text\n{output}\n```\n"


def main() -> None:
    scripts = sorted(FOLDER.glob("*_speed.py"))
    load = os.getloadavg()[0]
    machine = f"{datetime.now(UTC).date()}, {os.cpu_count()} x {processor()}, load {load:.1f} at the start.\n"
    PAGE.write_text("\n".join([INTRODUCTION, machine, *(section(script) for script in scripts)]))
    print(f"written: {PAGE.relative_to(FOLDER.parent)}")


if __name__ == "__main__":
    main()
