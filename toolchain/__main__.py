"""`python -m hipsynth.toolchain`: builds the header tree if it is missing and prints where it is."""

from __future__ import annotations

import sys

from hipsynth.core.errors import HipsynthError
from hipsynth.toolchain.header_tree import build_tree
from hipsynth.toolchain.locate import read_manifest


def main() -> int:
    try:
        tree = build_tree(lambda line: print(line, flush=True))
    except HipsynthError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    manifest = read_manifest(tree) or {}
    print(f"header tree: {manifest.get('headers_version')} in {tree}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
