"""From a program to its patch: what the simulator observes, which mapping wins, what is refused and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.simulator.line_sharing import FILE, TOUCH, SharingObservation, read_sharing
from hipsynth.source.names import base_name
from hipsynth.tuning.swizzle import report, search
from hipsynth.tuning.swizzle.line_use import observe_launches
from hipsynth.tuning.swizzle.mappable import HipProgram
from hipsynth.tuning.swizzle.mapping import GroupMapping
from hipsynth.tuning.swizzle.search import KernelSwizzle, SwizzleSettings, search_mappings
from hipsynth.tuning.trial import Conditions, Trial, compare_trials, run_trial, target_of
from hipsynth.tuning.trial.compare import TrialComparison

TARGET = target_of("gfx942")
# Eight groups share each row of a table: dealt out over the XCDs, every one of them fetches every row.
PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void k(const float* in, float* out, int* flags, int n) { BODY }
int main(int argc, char** argv) {
  const int groups = argc > 1 ? std::atoi(argv[1]) : 512, n = groups * 64;
  std::vector<float> host(n * 16), back(n);
  for (int i = 0; i < n * 16; ++i) host[i] = 0.25f * (i % 1000);
  float *in, *out;
  int* flags;
  if (hipMalloc(&in, n * 64) || hipMalloc(&out, n * 4) || hipMalloc(&flags, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 64, hipMemcpyHostToDevice);
  (void)hipMemset(flags, 0, n * 4);
  k<<<dim3(groups / 8, 8), 64>>>(in, out, flags, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  std::printf("%g\n", back[n / 2]);
  return CODE;
}
"""
SHARED = """
  const int g = blockIdx.y * gridDim.x + blockIdx.x, row = g / 8;
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += in[row * 8192 + i * 64 + threadIdx.x];
  out[g * 64 + threadIdx.x] = sum + g;
"""


def program(body: str = SHARED, code: int = 0) -> str:
    return PROGRAM.replace("BODY", body).replace("CODE", str(code))


@pytest.fixture(scope="module", autouse=True)
def simulator() -> None:
    needs.simulator()
    needs.compiler()


def one(body: str, **options: object) -> KernelSwizzle:
    (answer,) = search_mappings(program(body), SwizzleSettings(TARGET, ("64",), **options)).answers  # type: ignore[arg-type]
    return answer


@pytest.fixture(scope="module")
def improved() -> tuple[KernelSwizzle, str, str]:
    text = program()
    found = search_mappings(text, SwizzleSettings(TARGET, executed=2))
    return found.answers[0], found.text, report.unified_diff(text, found.text, "a.hip")


def test_groups_that_share_rows_are_brought_together(improved: tuple[KernelSwizzle, str, str]) -> None:
    answer, text, patch = improved
    assert (answer.status, answer.proof.kind, answer.outputs_equal) == ("improved", "symbolic", True)
    assert answer.before is not None and answer.after is not None and answer.ceiling is not None
    before, after = (record.metrics["L2_Cache_Hit_Rate"] or 0.0 for record in (answer.before, answer.after))
    assert after > before + 20 and after <= answer.ceiling + 0.5
    assert (answer.after.duration_ns or 0) < (answer.before.duration_ns or 0)
    assert "swizzled_k()" in text and patch.startswith("--- a/a.hip\n+++ b/a.hip\n")
    assert answer.sharing is not None and answer.sharing.lines_by_xcd_after is not None
    assert sum(answer.sharing.lines_by_xcd_after) < sum(answer.sharing.lines_by_xcd) / 3
    assert len(answer.history) == answer.evaluated >= 2 and all(tried.bottleneck for tried in answer.history)


def test_a_mapped_program_is_not_mapped_again(improved: tuple[KernelSwizzle, str, str]) -> None:
    (again,) = search_mappings(improved[1], SwizzleSettings(TARGET, ("64",), executed=1)).answers
    assert again.status == "refused" and "mapped already" in again.reason


def test_the_observer_sees_every_line_once_and_leaves_memory_alone() -> None:
    body = (
        "const int g = blockIdx.y * gridDim.x + blockIdx.x, i = g * 64 + threadIdx.x; if (in[i] >= 0) out[i] += in[i];"
    )
    seen = observe_launches(program(body), TARGET, ("16",), SharingObservation(), 30)
    (launch,) = seen.launches
    assert (launch.state, launch.grid, launch.one_in) == ("all", (2, 8, 1), 1)
    full = launch.touches[(launch.touches["reads"] == 0xFFFFFFFF)]
    assert np.bincount(full["group"]).tolist() == [4] * 16  # two lines of each array
    assert np.bincount(launch.touches["group"][launch.touches["writes"] == 0xFFFFFFFF]).tolist() == [2] * 16
    again = search_mappings(program(body), SwizzleSettings(TARGET, ("16",), executed=1)).answers[0]
    assert again.status != "refused"  # `out` was updated once, not twice: the outputs are the same


def test_too_many_touches_are_thinned_out_by_lines() -> None:
    seen = observe_launches(program(), TARGET, ("64",), SharingObservation(most_touches=2000), 30)
    (launch,) = seen.launches
    assert launch.one_in >= 2 and 200 < len(launch.touches) <= 2000
    assert set(launch.touches["group"].tolist()) <= set(range(64))


def test_endless_groups_are_given_up() -> None:
    seen = observe_launches(program(), TARGET, ("64",), SharingObservation(most_work=1000), 30)
    assert [launch.state for launch in seen.launches] == ["too_long"]


REFUSED = {
    "order of atomics": "atomicAdd(out + threadIdx.x, in[blockIdx.x * 64 + threadIdx.x]);",
    "takes work from a queue, so atomics return": "const int g = atomicAdd(flags, 1); out[g] = in[blockIdx.x + g];",
    "another one reads": "const int i = blockIdx.x * 64 + threadIdx.x; out[i] = in[i] + out[(i + 64) % 512];",
    "persistent": "for (int i = blockIdx.x; i < n; i += gridDim.x) out[i] = in[i];",
    "does not use its block index": "out[threadIdx.x] = 1;",
}
WORDS = {
    "takes work from a queue, so atomics return": "order of atomics",
    "does not use its block index": "block index|another",
}


@pytest.mark.parametrize("name", REFUSED)
def test_kernels_whose_groups_depend_on_each_other_are_refused(name: str) -> None:
    answer = one(REFUSED[name])
    assert answer.status == "refused" and answer.history == []
    assert any(word in answer.reason for word in WORDS.get(name, name).split("|")), answer.reason


def test_every_grid_that_a_kernel_is_launched_with_is_looked_at() -> None:
    body = "const int i = blockIdx.x * 64 + threadIdx.x; out[i] = in[i] + (gridDim.y == 1 ? out[(i + 64) % 512] : 0);"
    text = program(body).replace(
        "  (void)hipMemcpy(back", "  k<<<dim3(8, 1), 64>>>(in, out, flags, n);\n  (void)hipMemcpy(back"
    )
    (answer,) = search_mappings(text, SwizzleSettings(TARGET, ("64",), executed=1)).answers
    assert answer.status == "refused" and "another one reads" in answer.reason, answer.reason


def test_mappings_that_are_right_alone_are_compared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone each program equals the original; with both kernels mapped it does not."""
    record = KernelRecord("k", 1, (1, 1, 1), (1, 1, 1), 1.0, {})
    works = [search._Work(KernelSwizzle(name), name, record, None, None, (1, 1, 1)) for name in "ab"]  # type: ignore[arg-type]
    for work in works:
        work.best = (GroupMapping(), record)
    source = HipProgram(program(), TARGET)
    monkeypatch.setattr(source, "write_mapped", " ".join)
    monkeypatch.setattr(source, "run_trial", lambda text, _: text)
    monkeypatch.setattr(
        search, "compare_trials", lambda _, text: TrialComparison(text != "a b", True, reason="a copy differs")
    )
    assert search._verify_program(source, works, Trial("ok"), SwizzleSettings(TARGET)) == source.text
    assert [work.answer.status for work in works] == ["refused"] * 2
    assert all("together" in work.answer.reason and not work.answer.outputs_equal for work in works)


def test_wrong_and_broken_programs_are_refused_with_the_reason() -> None:
    (wrong,) = search_mappings(program(code=3), SwizzleSettings(TARGET, ("64",), executed=1)).answers
    assert wrong.status == "refused" and "wrong to begin with: exit code 3" in wrong.reason
    with pytest.raises(BadInput, match="does not run"):
        search_mappings(program("out[1 << 28] = 1;"), SwizzleSettings(TARGET, ("64",)))


def test_a_mapping_of_ones_own_is_checked_before_it_runs() -> None:
    skipping = one(SHARED, formula="id % 8 * 2 + id / 8 % 2")
    assert skipping.status == "refused" and skipping.proof.fault == "skips" and "16 of 64" in skipping.reason
    good = one(SHARED, formula="select(id < n / 8 * 8, id % 8 * (n / 8) + id / 8, id)")
    assert good.status in ("improved", "ceiling") and good.evaluated == 1
    with pytest.raises(UsageError):
        one(SHARED, formula="os.system")
    with pytest.raises(UsageError, match="no kernel"):
        one(SHARED, kernels=("other",))


def test_a_template_is_mapped_once_whatever_kernels_are_chosen() -> None:
    other = "__global__ void a(float* out) { out[blockIdx.x * 64 + threadIdx.x] = 1; }"
    launches = "a<<<8, 64>>>(out);\n  k<1><<<dim3(groups / 8, 8), 64>>>(in, out, flags, n);\n  k<2><<<"
    text = (
        program()
        .replace("__global__ void k(", f"{other}\ntemplate <int N> __global__ void k(")
        .replace("k<<<", launches)
    )
    answers = search_mappings(text, SwizzleSettings(TARGET, ("64",), executed=1, kernels=("k",))).answers
    reasons = [answer.reason for answer in answers]
    assert len(reasons) == 2 and ["another instance" in reason for reason in reasons] == [False, True]


def test_a_mapping_that_is_proven_for_one_grid_changes_no_other() -> None:
    question = SwizzleSettings(TARGET, ("512",), formula="id % 8 * 64 + id / 8")
    found = search_mappings(program(), question)
    assert found.answers[0].status == "improved" and "if (!(X == 64u && Y == 8u && Z == 1u)) return" in found.text
    runs = [run_trial(text, TARGET, Conditions(("256",), exact=True)) for text in (program(), found.text)]
    assert compare_trials(*runs).equal
    other = replace(question, check_arguments=("256",))
    (refused,) = search_mappings(program(), other).answers
    assert refused.status == "refused" and "--check-args" in refused.reason


def test_names_of_kernels() -> None:
    names = ["axpy", "void ns::axpy<float>", "_Z4axpyPKDF16_i", "_ZN2ns4axpyIDF16_EEvPT_"]
    assert [base_name(name) for name in names] == ["axpy"] * 4


def test_a_damaged_file_of_touches_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE
    assert read_sharing(tmp_path) == []
    good = b"k all 2 1 1 64 1 1 0 1 1\n" + np.array([(1, 5, 1, 0, 0)], TOUCH).tobytes()
    path.write_bytes(good)
    assert read_sharing(tmp_path)[0].touches["line"].tolist() == [5]
    bad = [good[:-1], good.replace(b"all", b"any"), good.replace(b"2 1 1 64", b"1 1 1 64"), b"\0" * 50, b"k all\n"]
    for data in bad:
        path.write_bytes(data)
        with pytest.raises(BadInput):
            read_sharing(tmp_path)


def test_the_verb_writes_the_program_and_a_patch(tmp_path: Path) -> None:
    path = tmp_path / "a.hip"
    path.write_text(program())
    done = CliRunner().invoke(cli, ["swizzle", str(path), "--tries", "1", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    (kernel,) = found["kernels"]
    wanted = {"name", "status", "reason", "mapping", "bijection", "outputs_equal", "before", "after", "ceiling"}
    assert wanted | {"evaluated", "seconds"} <= set(kernel) and kernel["status"] == "improved"
    assert kernel["ceiling"]["L2_Cache_Hit_Rate"] > kernel["before"]["L2_Cache_Hit_Rate"]
    assert Path(found["patched"]).name == "a.swizzled.hip" and "swizzled_k" in Path(found["patched"]).read_text()
    assert Path(found["patch"]).read_text().startswith("--- a/a.hip")


def counted(duration_ns: float, hits: float, requests: float = 1000.0) -> KernelRecord:
    counters = {"TCC_HIT": hits / 100 * requests, "TCC_MISS": (1 - hits / 100) * requests}
    return KernelRecord("k", 1, (8, 1, 1), (64, 1, 1), duration_ns, counters, metrics={search.HIT_RATE: hits})


def test_more_hits_are_no_improvement_of_a_kernel_that_is_slower() -> None:
    assert not search._is_better(counted(76.8, 94.2), counted(76.5, 91.6), original=True)
    assert search._is_better(counted(76.5, 94.2), counted(76.5, 91.6), original=True)
    assert search._is_better(counted(70.0, 91.6), counted(76.5, 91.6), original=True)


def test_an_exceeded_ceiling_is_no_exact_one() -> None:
    """The ceiling is that of the original's requests: a mapping that makes more of them has a higher one."""
    answer = KernelSwizzle("k", before=counted(1.0, 59.9), ceiling=72.45)
    search._raise_ceiling(answer, counted(1.0, 72.54, requests=1010.0))
    assert answer.exact_ceiling and answer.ceiling == pytest.approx(100 * (1 - 275.5 / 1010))
    answer = KernelSwizzle("k", before=counted(1.0, 59.9), ceiling=72.45)
    search._raise_ceiling(answer, counted(1.0, 72.54))
    assert not answer.exact_ceiling and answer.ceiling == 72.54
