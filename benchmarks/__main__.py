"""Runs the benchmarks of speed and writes docs/explanation/speed.md: `python -m benchmarks [NAME]...`.

Each *_speed.py of this folder prints a plain table; this page is those tables with the day and the machine. Without
names all of them run (`make bench`), else those alone, and the other sections stay. Run it on a calm machine.
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


def processor() -> str:
    """The processor's own name, where the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> str:
    """Today's line about where the figures are from."""
    return f"{datetime.now(UTC).date()}, {os.cpu_count()} x {processor()}, load {os.getloadavg()[0]:.1f} at the start."


def title(script: Path) -> str:
    """The first line of its docstring."""
    return (ast.get_docstring(ast.parse(script.read_text())) or script.stem).splitlines()[0].rstrip(".")


def section(script: Path) -> str:
    """Runs one script; its output under its title. Raises CalledProcessError when it fails."""
    where = machine()
    print(f"== {script.name}", flush=True)
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout.rstrip()
    print(output, flush=True)
    return f"## {title(script)}\n\n`python benchmarks/{script.name}`, {where}\n\n```text\n{output}\n```\n"


def written() -> dict[str, str]:
    """The sections of the page as it is, by title."""
    text = PAGE.read_text() if PAGE.exists() else ""
    return {part.partition("\n")[0]: "## " + part.rstrip() + "\n" for part in text.split("\n## ")[1:]}


def main(names: list[str]) -> int:
    scripts = sorted(FOLDER.glob("*_speed.py"))
    known = {script.stem for script in scripts}
    if unknown := sorted(set(names) - known):
        print(f"benchmarks: no {unknown[0]}; there are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    sections = written() | {title(one): section(one) for one in scripts if not names or one.stem in names}
    kept = [sections[title(one)] for one in scripts if title(one) in sections]
    PAGE.write_text("\n".join([INTRODUCTION, *kept]))
    print(f"written: {PAGE.relative_to(FOLDER.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
