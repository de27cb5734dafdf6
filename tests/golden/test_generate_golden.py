"""Does each family still give the recorded program and output for fixed choices?

After an intended change: HIPSYNTH_UPDATE_GOLDEN=1 pytest tests/golden/test_generate_golden.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hipsynth.synth.generate.build import build_module
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.emit import render_program
from hipsynth.synth.generate.headers import find_template, load_templates
from hipsynth.synth.generate.oracle import expected_lines

FOLDER = Path(__file__).parent / "generate"
SMALL: dict[str, dict[str, int | str]] = {
    "paper": {"size": 1000, "compute": 6, "host": "hip"},
    "gemm": {"tiles_m": 4, "tiles_n": 4, "tiles_k": 2, "tile": 16},
    "transpose": {"tiles_x": 2, "tiles_y": 3, "tile": 16},
    "stencil2d": {"width": 100, "height": 40},
    "gemm_fused": {"tiles_m": 2, "tiles_n": 3, "tiles_k": 2, "tile": 16, "rows": "sum"},
    "mfma": {"waves": 2, "tiles_m": 4, "tiles_n": 2, "depth": 16},
    "matvec": {"rows": 128, "columns": 128},
    "row_norm": {"rows": 64, "columns": 256},
    "reduction": {"size": 20000, "block": 128, "grid": 16},
    "wave_reduce": {"size": 20000, "block": 128, "grid": 16},
    "loop": {"size": 5000, "block": 64, "grid": 20},
    "persistent": {"size": 5000, "block": 64, "grid": 8},
    "histogram": {"size": 20000, "block": 256, "grid": 16},
    "atomics": {"size": 3000, "cells": 100},
    "chase": {"size": 1000, "hops": 4},
}


@pytest.mark.parametrize("family", sorted(load_templates()))
def test_program_and_output_are_as_recorded(family: str) -> None:
    context, module = build_module(family, Choices(Stream("golden", family)), SMALL.get(family, {"size": 2000}))
    text = render_program(find_template(family), module, dict(context.params))
    page = text + "// prints:\n" + "".join(f"// {line}\n" for line in expected_lines(module).lines)
    path = FOLDER / f"{family}.txt"
    if os.environ.get("HIPSYNTH_UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(page)
    assert page == path.read_text()
