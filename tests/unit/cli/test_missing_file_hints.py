"""What is suggested where a compiler finds no file: by the file's name, and by the symbol that nothing defines."""

from __future__ import annotations

import pytest

from hipsynth.cli.programs import HINT, missing_file_hint


@pytest.mark.parametrize("header", ["cuda_runtime.h", "cuda_fp16.hpp", "cublas_v2.h", "device_launch_parameters.h"])
def test_cuda_sources_are_to_be_translated(header: str) -> None:
    assert "hipify" in missing_file_hint(f"a.cu:1:10: fatal error: '{header}' file not found")


def test_other_files_may_be_missing() -> None:
    assert missing_file_hint("a.hip:1:10: fatal error: 'solver.h' file not found") == HINT
    assert missing_file_hint("ld.lld: error: undefined symbol: solve(float*)") == HINT
    assert missing_file_hint("a.hip:2:3: error: expected ';'") == ""


def test_kernels_without_main_are_for_other_verbs() -> None:
    assert "synth profile" in missing_file_hint("ld.lld: error: undefined symbol: main\n>>> referenced by Scrt1.o")
