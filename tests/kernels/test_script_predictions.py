"""`synth predict` of Python scripts: launches that were recorded without executing kernels, beside what executes."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from triton_samples import DOUBLE

import hipsynth
from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.profiling.preview import interpret, script_launches
from hipsynth.simulator.scripts import prepare
from hipsynth.training.models.documents import PredictionResult, SimulatedKernel

FOLDER = Path(__file__).with_name("scripts")
EXAMPLES = FOLDER.parents[2] / "examples"
HEAD = DOUBLE + '\nx = torch.ones(1 << 24, device="cuda")\n'

needs.installed("triton")


def predict(script: Path, *arguments: str, check: bool = False) -> PredictionResult:
    [result] = hipsynth.predict(script, arch="gfx942", args=arguments, check=check).results
    return result


def predict_text(text: str, folder: Path) -> PredictionResult:
    script = folder / "script.py"
    script.write_text(HEAD + text)
    return predict(script)


@pytest.fixture(scope="module")
def matmul() -> PredictionResult:
    return predict(EXAMPLES / "matmul.py", "1024", check=True)


def test_a_prediction_is_near_what_executes(matmul: PredictionResult) -> None:
    [kernel] = matmul.kernels
    [executed] = matmul.executed or ()
    assert isinstance(executed, SimulatedKernel)
    low, high = kernel.intervals["duration_ns"]
    assert kernel.duration_ns is not None and low <= kernel.duration_ns <= high
    assert 0.5 < kernel.duration_ns / executed.duration_ns < 2
    name = "L1_Cache_Arithmetic_Intensity"  # of the instructions alone
    assert kernel.metrics[name] == pytest.approx(executed.metrics[name], rel=0.01)


def test_a_kernel_is_the_one_that_a_profile_shows(matmul: PredictionResult) -> None:
    [kernel] = matmul.kernels
    [executed] = matmul.executed or ()
    assert isinstance(executed, SimulatedKernel)
    assert (kernel.language, kernel.name, kernel.grid, kernel.block) == (
        "triton", "matmul_kernel", executed.grid, executed.block,
    )  # fmt: skip
    assert kernel.meta == executed.meta and executed.meta and executed.meta["matrix_instr_nonkdim"] == 16
    assert kernel.bottleneck and kernel.verdict and kernel.why


def test_each_configuration_that_autotuning_tries_is_predicted() -> None:
    result = predict(FOLDER / "autotune.py")
    builds = [kernel.meta["BLOCK"] for kernel in result.kernels if kernel.meta]
    assert set(builds) == {64, 1024, 2048}
    assert all(kernel.duration_ns for kernel in result.kernels)


def test_what_a_benchmark_times_finds_empty_caches(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    time = "triton.testing.do_bench(lambda: double[(512,)](x, BLOCK={}))\n"
    script.write_text(DOUBLE + '\nx = torch.ones(1 << 20, device="cuda")\n' + time.format(1024) + time.format(2048))
    result = predict(script, check=True)
    assert len(result.kernels) == 2 and len(result.executed or ()) == 2
    for kernel, executed in zip(result.kernels, result.executed or (), strict=True):
        assert isinstance(executed, SimulatedKernel)
        assert kernel.duration_ns == pytest.approx(executed.duration_ns, rel=0.01)


def test_large_kernels_are_not_executed(tmp_path: Path) -> None:
    text = "for _ in range(200): double[(1 << 14,)](x, BLOCK=1024)\nassert x.isinf().all(), 'not computed'\n"
    result = predict_text(text + "double[(64,)](x, BLOCK=64)\n", tmp_path)
    assert [kernel.grid for kernel in result.kernels] == [(1 << 14, 1, 1)]
    assert "AssertionError: not computed" in result.notes[0], "launches behind a failed check may be missing"


def test_a_kernel_that_leaves_its_tensors_is_noted(tmp_path: Path) -> None:
    result = predict_text("y = torch.ones(1 << 12, device='cuda')\ndouble[(1 << 20,)](y, BLOCK=64)\n", tmp_path)
    [note] = result.notes
    assert note.startswith(f"double cannot be executed as it is launched: {Reason.ILLEGAL_ACCESS.meaning}")
    assert [kernel.grid for kernel in result.kernels] == [(1 << 20, 1, 1)]


def test_launches_of_threads_are_predicted_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
from concurrent.futures import ThreadPoolExecutor
def launch(blocks):
    y = torch.ones(blocks * 1024, device='cuda')
    double[(blocks,)](y, BLOCK=1024)
    assert y.eq(2).all()
with ThreadPoolExecutor(2) as pool:
    list(pool.map(launch, (4, 8, 16)))
"""
    result = predict_text(text, tmp_path)
    assert {kernel.grid for kernel in result.kernels} == {(4, 1, 1), (8, 1, 1), (16, 1, 1)} and not result.notes
    monkeypatch.setattr(script_launches, "prepare_script", lambda _: pytest.fail("it ran again"))
    assert predict_text(text, tmp_path).kernels == result.kernels


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("print(x.sum())\n", Reason.NO_DISPATCH, "launches no kernel"),
        pytest.param("raise ValueError('none')\n", Reason.NO_DISPATCH, "ValueError: none", marks=pytest.mark.full),
        ("@triton.jit\ndef bad(p): tl.store(p, gone)\nbad[(1,)](x)\n", Reason.COMPILE_FAILED, "gone is not defined"),
        pytest.param("import no_such_module\n", Reason.NEEDS_LIBRARY, "no_such_module", marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_scripts_without_launches_fail_with_a_reason(text: str, reason: Reason, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as raised:
        predict_text(text, tmp_path)
    assert raised.value.reason == reason and words in str(raised.value)


def test_a_launcher_that_cannot_be_loaded_is_missing_and_its_recording_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "launcher" / prepare.build_launcher().name
    launcher.parent.mkdir()
    launcher.write_bytes(b"")
    launcher.with_name(prepare.LIBHIP).symlink_to(prepare.library_path())
    text = "double[(64,)](x, BLOCK=1024)  # of a moved cache\n"
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "build_launcher", lambda: launcher)
        with pytest.raises(MissingDependency, match=r"launcher module .* cannot be loaded"):
            predict_text(text, tmp_path)
    assert predict_text(text, tmp_path).kernels[0].duration_ns


def test_a_moved_cache_gets_a_launcher_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "cache_dir", lambda: tmp_path / "first")
    first = prepare.build_launcher()
    (tmp_path / "first").rename(tmp_path / "second")
    monkeypatch.setattr(prepare, "cache_dir", lambda: tmp_path / "second")
    second = prepare.build_launcher()
    assert second.parent.name != first.parent.name
    assert str(second.with_name(prepare.LIBHIP)) in second.with_name("driver.c").read_text()


@pytest.mark.full
def test_a_script_that_failed_before_its_first_launch_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[Path]()
    monkeypatch.setattr(
        script_launches, "prepare_script", lambda path: started.append(path) or prepare.prepare_script(path)
    )
    for _ in range(2):
        with pytest.raises(BadInput, match="RuntimeError: not now"):
            predict_text("raise RuntimeError('not now')\n", tmp_path)
    assert len(started) == 2


def test_options_of_hip_programs_are_refused() -> None:
    with pytest.raises(UsageError, match="grid: only for HIP programs"):
        hipsynth.predict(EXAMPLES / "matmul.py", arch="gfx942", grid=4)


def test_a_kernel_without_end_has_a_reason_in_the_place_of_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpret, "MOST_BY_DATA", 1_000_000)
    [kernel] = predict_text(
        """
@triton.jit
def spin(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + offsets)
    while tl.sum(values) > 0:
        values += 1
        tl.store(x_ptr + offsets, values)

spin[(64,)](x, BLOCK=256)
""",
        tmp_path,
    ).kernels
    assert kernel.duration_ns is None and not kernel.metrics and "does its loop end?" in kernel.reason
