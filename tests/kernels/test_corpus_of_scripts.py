"""Scripts with Triton kernels in a corpus: labels, and what is done with them beside HIP programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import needs
import pytest

from hipsynth.core.program import iter_programs
from hipsynth.core.store import Corpus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.collect import MatrixOptions, MatrixSummary, collect_matrix
from hipsynth.profiling.reports.corpus_statistics import corpus_statistics
from hipsynth.simulator.limits import RunLimits
from hipsynth.training.data.samples import iter_samples, select_labels

FOLDER = Path(__file__).with_name("scripts")
HIP = """#include <hip/hip_runtime.h>
__global__ void fill(float* x) { x[blockIdx.x * 256 + threadIdx.x] = 1.0f; }
int main() {
  float* x;
  hipMalloc(&x, 65536 * 4);
  fill<<<256, 256>>>(x);
  return hipDeviceSynchronize();
}
"""
TARGETS = [Target("gfx942", flags, "mi300x") for flags in ("-O3", "-O3 -ffast-math")]

needs.installed("triton")


def collect(folder: Path, out: Path) -> MatrixSummary:
    options = MatrixOptions(limits=RunLimits(sampling_units=0))
    return collect_matrix(iter_programs(folder, scripts=True), TARGETS, out, options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder, out = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("corpus")
    (folder / "fill.hip").write_text(HIP)
    shutil.copy(FOLDER / "vector_add.py", folder)
    summary = collect(folder, out)
    assert (summary.measured, summary.failures) == (3, []), "one item for a script: flags are for HIP"
    again = collect(folder, out)
    assert (again.measured, again.already_done) == (0, 3)
    return Corpus.open(out)


def test_a_label_says_language_meta_parameters_and_tools(corpus: Corpus) -> None:
    [row] = [row for row in corpus.measurements().to_pylist() if row["language"] == "triton"]
    assert (row["kernel"], row["dispatches"], row["flags"]) == ("add_kernel", 2, "")
    assert json.loads(row["meta"])["BLOCK_SIZE"] == 1024
    assert row["compiler"].startswith("triton 3.") and "torch 2." in row["compiler"]
    provenance = dict(row["provenance"])
    assert "global_load" in provenance["opcodes"] or "buffer_load" in provenance["opcodes"]
    assert (provenance["isolated"], provenance["host_code"]) == ("true", "foreign")


def test_statistics_count_languages(corpus: Corpus) -> None:
    statistics = corpus_statistics(corpus)
    assert statistics.programs.by_language == {"hip": 1, "triton": 1}
    assert statistics.measurements.by_language == {"hip": 2, "triton": 1}


def test_samples_of_both_languages_are_exported_and_name_triton(corpus: Corpus) -> None:
    samples = list(iter_samples(corpus, select_labels(corpus.measurements())))
    questions = {sample["language"]: sample["messages"][1]["content"] for sample in samples}
    assert len(samples) == 3
    assert "the compiler flags" not in questions["triton"] and "following Triton code" in questions["triton"]
    assert "Triton" not in questions["hip"]
