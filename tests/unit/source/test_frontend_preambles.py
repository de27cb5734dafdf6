"""Precompiled headers of the front end: built once, reused, and removed when unused."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from hipsynth.source.parse import ParseConfig, parse_source
from hipsynth.source.preambles import MOST_CACHED_PREAMBLES, _is_fresh, _stamp_header

TEXT = b"#include <hip/hip_runtime.h>\n#include <cstdio>\n__global__ void k(int* p) { *p = 1; }\nint main() {}\n"
HOUR = 3600.0


def test_a_deleted_preamble_is_rebuilt(config: ParseConfig, tmp_path: Path) -> None:
    own = replace(config, cache=tmp_path)
    first, _ = parse_source(TEXT, own)
    for path in tmp_path.glob("*.pch"):
        path.unlink()
    again, diagnostics = parse_source(TEXT, own)
    assert first is not None and again is not None, diagnostics
    assert list(tmp_path.glob("*.pch")) and again.tokens == first.tokens


def test_a_preamble_is_as_old_as_its_headers(tmp_path: Path) -> None:
    """An update may bring headers whose times are before the preamble was built, and after the ones that it had."""
    header, target, listing = (tmp_path / name for name in ("a.h", "a.pch", "a.files"))
    header.write_text("int a;\n")
    target.touch()
    listing.write_text(f"{_stamp_header(str(header))}\n")
    assert _is_fresh(target, listing)
    os.utime(header, (HOUR, HOUR))
    assert not _is_fresh(target, listing)
    listing.write_text(f"{header}\n")  # as an earlier version listed it
    assert not _is_fresh(target, listing)


def test_least_recently_used_preambles_are_removed(config: ParseConfig, tmp_path: Path) -> None:
    now = time.time()
    for number in range(MOST_CACHED_PREAMBLES + 3):
        for suffix in (".pch", ".hip", ".files"):
            path = tmp_path / f"{number:024d}{suffix}"
            path.write_bytes(b"")
            os.utime(path, (now, now - HOUR * (number + 2)))
    recent = tmp_path / f"{99:024d}.pch"
    recent.write_bytes(b"")
    unit, diagnostics = parse_source(TEXT, replace(config, cache=tmp_path))
    assert unit is not None, diagnostics
    left = {path.stem for path in tmp_path.glob("*.pch")}
    assert len(left) == MOST_CACHED_PREAMBLES and recent.stem in left
    assert f"{MOST_CACHED_PREAMBLES + 2:024d}" not in left and f"{0:024d}" in left
    assert not (tmp_path / f"{MOST_CACHED_PREAMBLES + 2:024d}.files").exists()
