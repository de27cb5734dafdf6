"""Runs the speed benchmarks and writes docs/explanation/speed.md: `python -m benchmarks [NAME]...`.

Each *_speed.py in this folder prints a table; the page shows these tables with date and machine. Without names all
benchmarks run (`make bench`); otherwise only the named ones, and other sections are kept. Run it on an idle machine.
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
machine named there; where a script has a peer, both ran side by side. On a virtual machine whose host serves others,
the same build has measured up to 1.7 times slower an hour later: compare builds in alternating runs.
"""


def read_processor() -> str:
    """The CPU model from /proc/cpuinfo, else the machine type."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe_machine() -> str:
    """Date, CPU and current load as one line of text."""
    processor, load = read_processor(), os.getloadavg()[0]
    return f"{datetime.now(UTC).date()}, {os.cpu_count()} x {processor}, load {load:.1f} at the start."


def read_title(script: Path) -> str:
    """The first line of a script's docstring."""
    return (ast.get_docstring(ast.parse(script.read_text())) or script.stem).splitlines()[0].rstrip(".")


def run_script(script: Path) -> str:
    """Runs one script and returns its section of the page. Raises CalledProcessError if it fails."""
    environment = describe_machine()
    print(f"== {script.name}", flush=True)
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout.rstrip()
    print(output, flush=True)
    return f"## {read_title(script)}\n\n`python benchmarks/{script.name}`, {environment}\n\n```text\n{output}\n```\n"


def read_sections() -> dict[str, str]:
    """The sections of the existing page, by title."""
    text = PAGE.read_text() if PAGE.exists() else ""
    return {part.partition("\n")[0]: "## " + part.rstrip() + "\n" for part in text.split("\n## ")[1:]}


def main(names: list[str]) -> int:
    scripts = sorted(FOLDER.glob("*_speed.py"))
    script_names = {script.stem for script in scripts}
    if unknown := sorted(set(names) - script_names):
        print(f"benchmarks: no {unknown[0]}; there are {', '.join(sorted(script_names))}", file=sys.stderr)
        return 2
    sections = read_sections() | {
        read_title(script): run_script(script) for script in scripts if not names or script.stem in names
    }
    chosen_sections = [sections[read_title(script)] for script in scripts if read_title(script) in sections]
    PAGE.write_text("\n".join([INTRODUCTION, *chosen_sections]))
    print(f"written: {PAGE.relative_to(FOLDER.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
