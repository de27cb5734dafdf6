"""Documents as tables, and the arguments of the functions that return them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import document_samples as samples
import needs
import numpy
import pytest
from profiling_samples import kernel, result, target

import hipsynth
from hipsynth.core.documents import from_json, to_json
from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.kernel_record import MeasurementSource, TimingBounds
from hipsynth.library.arguments import check_values, list_folders, list_words
from hipsynth.library.device_profile import DeviceProfile
from hipsynth.library.optimize import choose_output
from hipsynth.library.predict import PrintedPrediction
from hipsynth.library.targets import complete_shape, list_targets
from hipsynth.profiling.compare.differ import compare_profiles
from hipsynth.profiling.compare.text import comparison_lines
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.profiling.reports.executed_profile import ExecutedProfile
from hipsynth.profiling.reports.terminal import render_results
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.run_result import RunResult
from hipsynth.training.analytic.prediction_text import prediction_lines
from hipsynth.tuning.optimize.documents import SearchEnd, VerificationCheck, VerifyDocument

RESULTS = [result(target(), kernel(name="a<1>"), kernel(name="b"))]


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'torch', 'lightgbm', 'pandas', 'click', 'pyarrow'}"
    code = f"import sys, hipsynth; sys.exit(' '.join({heavy} & set(sys.modules)) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_output_of_a_search_is_checked_before_it(tmp_path: Path) -> None:
    program = tmp_path / "k.hip"
    program.write_text("__global__ void k() {}\n")
    assert choose_output(program, tmp_path / "new" / "faster.hip").parent.is_dir()
    with pytest.raises(UsageError, match="the program itself"):
        choose_output(program, tmp_path / "." / "k.hip")
    header = tmp_path / "common" / "k.h"
    header.parent.mkdir()
    header.write_text("// constants\n")
    program.write_text('#include "k.h"\n__global__ void k() {}\n')
    with pytest.raises(UsageError, match="includes"):
        choose_output(program, header, [str(header.parent)])
    assert choose_output(program, header) == header, "another program's"
    for path in ("/proc/faster.hip", tmp_path):
        with pytest.raises(BadInput, match="cannot be written"):
            choose_output(program, path)


def test_every_function_is_there_under_its_name() -> None:
    for name in hipsynth.__all__:
        assert getattr(hipsynth, name).__name__ == name
        assert name in dir(hipsynth)
    assert issubclass(UsageError, hipsynth.HipsynthError) and hipsynth.__version__[0].isdigit()
    assert {"__version__", *hipsynth.__all__} <= set(dir(hipsynth))
    assert not {"TYPE_CHECKING", "annotations", "importlib"} & set(dir(hipsynth))
    with pytest.raises(AttributeError, match="no attribute 'profiles'"):
        _ = hipsynth.profiles  # type: ignore[attr-defined]


def test_a_profile_is_a_table_of_its_kernels() -> None:
    document = profile_document("p", "p.hip", RESULTS)
    rows = document.table_rows()
    assert [row["kernel"] for row in rows] == ["a<1>", "b"]
    first = document.results[0].kernels[0]
    assert {name: rows[0][name] for name in first.counters} == dict(first.counters)
    assert rows[0]["L2_Cache_Hit_Rate"] == first.metrics["L2_Cache_Hit_Rate"]
    assert "a&lt;1&gt;" in document._repr_html_()


def test_an_executed_profile_has_the_same_document_and_shows_the_whole_page() -> None:
    executed = ExecutedProfile.of("p", "p.hip", RESULTS)
    assert to_json(executed) == to_json(profile_document("p", "p.hip", RESULTS))
    assert from_json(ProfileDocument, to_json(executed)).results == executed.results
    shown = executed._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count('"') == 10, "the page is escaped in one attribute"
    assert "allow-same-origin" not in shown


def test_frames_have_the_rows_of_every_document() -> None:
    needs.package("pandas")
    profiled = profile_document("p", "p.hip", RESULTS)
    compared = compare_profiles(profiled, profiled)
    for document in (profiled, compared, samples.predict_document()):
        frame = document.to_pandas()
        assert list(frame.columns) == list(document.table_rows()[0])
        assert len(frame) == len(document.table_rows())
    assert compared.to_pandas()["verdict"].tolist() == ["equal", "equal"]


def test_documents_print_the_text_of_the_verb_and_have_a_short_repr() -> None:
    executed = ExecutedProfile.of("p", "p.hip", RESULTS)
    assert str(executed) == render_results(RESULTS)
    assert repr(executed) == "<ExecutedProfile: kernel a<1>, b>"
    read = from_json(ProfileDocument, to_json(executed))
    assert str(read).splitlines()[0].split()[:3] == ["kernel", "arch", "device"] and len(str(read).splitlines()) == 3
    compared, predicted = compare_profiles(executed, executed), PrintedPrediction(**vars(samples.predict_document()))
    assert str(compared) == "\n".join(comparison_lines(compared))
    assert str(predicted) == "\n".join(prediction_lines(predicted.results[0]))
    optimized = samples.optimize_document(SearchEnd.CLOCK)
    assert "the clock ended the search" in str(optimized) and str(optimized).endswith("unchanged: r")
    checks = VerificationCheck("outputs_equal", True), VerificationCheck("other_sizes", None, "no size")
    verified = VerifyDocument(
        original="a.hip", changed="b.hip", arch="gfx942", flags="-O3", verified=True, checks=checks, speedup=2.0
    )
    text = "outputs equal: passed\nother sizes: not possible (no size)\nverified; 2.00 times as fast"
    assert str(verified) == text
    for document in (read, compared, predicted, optimized, verified):
        assert repr(document).startswith(f"<{type(document).__name__}") and len(repr(document)) < 100


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency) as caught:
        profile_document("p", "p.hip", RESULTS).to_pandas()
    assert caught.value.remedy == "pip install 'hipsynth[pandas]'"


@pytest.mark.parametrize("shape", [(), (1, 2, 3, 4), 0, (16, -1), ("16",)])
def test_a_wrong_shape_is_refused(shape: object) -> None:
    with pytest.raises(UsageError, match="is no shape"):
        complete_shape(shape)  # type: ignore[arg-type]


def test_targets_are_all_combinations() -> None:
    found = list_targets("", ["mi210", "mi300x"], ["-O2", "-O3"])
    assert [(one.device, one.flags) for one in found] == [
        (device, flags) for device in ("mi210", "mi300x") for flags in ("-O2", "-O3")
    ]
    assert complete_shape(256) == (256, 1, 1) and complete_shape((16, 16)) == (16, 16, 1)


def test_bad_input_raises_the_error_that_the_verb_prints(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        hipsynth.profile(tmp_path / "missing.hip")
    with pytest.raises(UsageError, match="no path is given"):
        hipsynth.profile("")
    with pytest.raises(UsageError, match="nothing to compare"):
        hipsynth.compare("a.hip")
    one = tmp_path / "one.hip"
    one.write_text("__global__ void one() {}\n")
    with pytest.raises(UsageError, match="gfx9999"):
        hipsynth.predict(one, arch="gfx9999")


def test_arguments_in_one_text_are_refused_with_the_right_call(tmp_path: Path) -> None:
    one = tmp_path / "one.hip"
    one.write_text("__global__ void one() {}\n")
    calls: list[Callable[..., object]] = [hipsynth.profile, hipsynth.predict, hipsynth.optimize]
    for call in (*calls, partial(hipsynth.verify, one), partial(hipsynth.compare, one)):
        with pytest.raises(UsageError, match="is not a list of arguments") as caught:
            call(one, args="65536 7")
        assert caught.value.remedy == "args=['65536', '7']"
    for checks in ("64", ["64"], [64]):
        with pytest.raises(UsageError, match="is not a list of arg"):
            hipsynth.verify(one, one, check_args=checks)  # type: ignore[arg-type]
    assert list_words("args", [65536, "a b", 0.5]) == ("65536", "a b", "0.5")
    assert list_folders(Path("include")) == ("include",) and list_folders(("a", Path("b"))) == ("a", "b")


def test_values_and_limits_are_numbers_that_fit(tmp_path: Path) -> None:
    one = tmp_path / "one.hip"
    one.write_text("__global__ void one(int n) {}\n")
    for call in (hipsynth.profile, hipsynth.predict):
        for value in ("x", float("nan"), 1 << 64, None):
            with pytest.raises(UsageError, match=r"values: 'n' is .*, which is no number"):
                call(one, values={"n": value})  # type: ignore[dict-item]
        for limit in (-1, 0, float("inf"), "60"):
            with pytest.raises(UsageError, match=r"timeout_s=.* is no positive number"):
                call(one, timeout_s=limit)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"timeout_s=1e\+20 is over 30 days"):
            call(one, timeout_s=1e20)
    with pytest.raises(UsageError, match="clock_s=0 is no positive number"):
        hipsynth.optimize(one, clock_s=0)
    assert check_values({"n": numpy.int64(3), "a": numpy.float32(0.5)}) == {"n": 3, "a": 0.5}


TWO = """#include <hip/hip_runtime.h>
__global__ void first(float* x) { x[threadIdx.x] = 1; }
__global__ void second(float* x) { for (int i = 0; i < N; ++i) x[i * 64 + threadIdx.x] = i; }
int main() {
  float* x;
  hipMalloc(&x, 1 << 20);
  first<<<1, 64>>>(x);
  second<<<1, 64>>>(x);
}
"""


def test_a_profile_takes_the_options_of_the_verb(tmp_path: Path) -> None:
    path = tmp_path / "two.hip"
    path.write_text(TWO)
    [profiled] = hipsynth.profile(path, arch="gfx942", defines={"N": 5}, kernel="sec", warm_l2=True, effort=2).results
    [kernel] = profiled.kernels
    assert kernel.name == "second" and kernel.counters["SQ_INSTS_VMEM_WR"] == 5
    with pytest.raises(UsageError, match="env: PATH cannot be set"):
        hipsynth.profile(path, arch="gfx942", env={"PATH": "."})
    [previewed] = hipsynth.profile(path, arch="gfx942", defines=["N=4000"], top=1, backend="preview").results
    assert [(kernel.name, kernel.backend) for kernel in previewed.kernels] == [("second", "preview")]
    assert len(hipsynth.predict(path, arch="gfx942", defines={"N": 5}).results[0].kernels) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"defines": "N=5"}, "defines='N=5' is not a list"),
        ({"backend": "recorded:folder", "lines": True}, "lines: only for the simulator"),
        ({"exact": True, "effort": 3.0}, "exact excludes effort"),
        ({"budget_s": 2.0, "per_kernel": 1}, "budget_s excludes per_kernel"),
        ({"grid": 4, "defines": {"N": 1}}, "grid, block and values are for kernels without main"),
        ({"arch": "gfx942", "device": "mi210"}, "not among the architectures: gfx942"),
        ({"flags": [" "]}, "no compiler flags are given"),
    ],
)
def test_wrong_options_are_refused_in_the_words_of_python(
    options: dict[str, object], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "two.hip"
    path.write_text(TWO)
    with pytest.raises(UsageError) as caught:
        hipsynth.profile(path, **options)  # type: ignore[arg-type]
    assert words in str(caught.value) and "--" not in str(caught.value)


def test_kernels_of_the_process_have_what_limits_them() -> None:
    limits = TimingBounds("hbm", 0, {"hbm": 12_000.0})
    block = DeviceProfile(load_device("mi300x"), lines=False)
    block.fill_in(RunResult("ok", kernels=(replace(kernel("gfx942"), limits=limits, source=MeasurementSource()),)))
    [record] = block.kernels
    [profiled] = block.document.results[0].kernels
    assert record.bottleneck == profiled.bottleneck and record.bottleneck
    assert record.bottleneck.unit == "hbm" and record.metrics == block.kernel("copy").metrics
    assert str(block) == str(block.document)
