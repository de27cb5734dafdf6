"""Builds the workbench's editor component: serving/web/codemirror.js and the licences of what it contains.

    .venv/bin/python -m tools.bundle_editor           # what `make editor` runs
    .venv/bin/python -m tools.bundle_editor --check   # fails if what is committed is another

npm's packages are those of tools/codemirror/package-lock.json, and none of their install scripts runs; Node is that of
`make vsix`. Equal packages give equal files, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tools import vsix
from tools.build_step import BuildFailure

SOURCE = vsix.ROOT / "tools" / "codemirror"
WEB = vsix.ROOT / "serving" / "web"
BUNDLE, LICENCES = "codemirror.js", "codemirror.licences.txt"
TARGET = "es2022"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Builds the workbench's editor component.")
    parser.add_argument("--check", action="store_true", help="only compare with what is committed")
    check = parser.parse_args(argv).check
    try:
        with TemporaryDirectory() as folder:
            files = build_bundle(Path(folder))
        if check:
            stale = [name for name, text in files.items() if (WEB / name).read_bytes() != text]
            if stale:
                raise BuildFailure(f"not what the sources give: {', '.join(stale)}; run `make editor`")
            return 0
        for name, text in files.items():
            (WEB / name).write_bytes(text)
            print(f"{(WEB / name).relative_to(vsix.ROOT)}: {len(text):,} bytes")
    except BuildFailure as error:
        print(f"make editor: {error}", file=sys.stderr)
        return 1
    return 0


def build_bundle(folder: Path) -> dict[str, bytes]:
    """The files by their names in serving/web. Raises BuildFailed."""
    vsix.install_packages(SOURCE)
    to = folder / BUNDLE
    esbuild = SOURCE / "node_modules" / "esbuild" / "bin" / "esbuild"
    options = ["--bundle", "--minify", "--format=esm", f"--target={TARGET}", "--legal-comments=none"]
    banner = f"--banner:js=// CodeMirror 6, MIT: {LICENCES}. Made by `make editor`."
    command = [str(vsix.fetch_node()), str(esbuild), "entry.js", *options, banner, f"--outfile={to}"]
    vsix.run_command(command, "the editor cannot be bundled", SOURCE)
    return {BUNDLE: to.read_bytes(), LICENCES: vsix.collect_licences(SOURCE).encode()}


if __name__ == "__main__":
    sys.exit(main())
