"""Python scripts with Triton kernels on the virtual device: results, counters, and what fails with which reason."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import pytest
from triton_samples import DOUBLE

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.reports.autotunings import tuning_lines
from hipsynth.profiling.reports.code_listing import assembly_listing, ttgir_listing
from hipsynth.profiling.reports.describe import result_document
from hipsynth.simulator import api, devices
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.scripts import compiled_kernels
from hipsynth.simulator.scripts.prepare import prepare_script

FOLDER = Path(__file__).with_name("scripts")
EXAMPLES = FOLDER.parents[2] / "examples"

needs.installed("triton")


def profile(
    script: Path, scratch: Path, *arguments: str, arch: str = "gfx942", exact: bool = False, lines: bool = False
) -> TargetResult:
    project = Project((SourceFile(script, "python"),), script.parent, arguments)
    limits = RunLimits(sampling_units=0, lines=lines) if exact else RunLimits(lines=lines)
    device = "mi300x" if arch == "gfx942" else "mi250"
    return SimBackend().profile(project_program(project), Target(arch, "-O3", device), scratch, limits)


def profile_text(text: str, folder: Path) -> TargetResult:
    script = folder / "code" / "script.py"
    script.parent.mkdir()
    script.write_text(DOUBLE + text)
    return profile(script, folder / "scratch")


@pytest.fixture(scope="module")
def vector_add(tmp_path_factory: pytest.TempPathFactory) -> TargetResult:
    return profile(FOLDER / "vector_add.py", tmp_path_factory.mktemp("vector_add"))


def test_a_script_prints_what_it_prints_on_the_device(vector_add: TargetResult) -> None:
    difference, tensor = vector_add.stdout.splitlines()
    assert vector_add.status == "ok" and vector_add.exit_code == 0, vector_add.message
    assert difference == "difference 0.0"
    assert tensor.endswith("device='cuda:0')")


def test_softmax_passes_its_own_check_and_has_the_lines_of_its_python_function(tmp_path: Path) -> None:
    found = profile(FOLDER / "softmax.py", tmp_path, exact=True, lines=True)
    assert (found.status, found.stdout) == ("ok", "passed, takes time: True\n"), found.message
    [kernel], [attributed] = found.kernels, found.lines
    assert kernel.grid == (304, 1, 1), "as it asks the driver"
    text = (FOLDER / "softmax.py").read_text().splitlines()
    lines = {line.line: line.amounts for line in attributed.lines if line.file}
    assert {line.file for line in attributed.lines if line.line} == {str(FOLDER / "softmax.py")}
    [loads, stores, sums] = (
        [n for n, line in enumerate(text, 1) if word in line] for word in ("tl.load", "tl.store", "tl.max")
    )
    assert lines[loads[0]].bytes + lines[stores[0]].bytes == pytest.approx(
        sum(kernel.counters[name] for name in ("EXACT_READ_BYTES", "EXACT_WRITE_BYTES"))
    )
    places = {word: {row.line for row in attributed.operations if word in row.text} for word in ("max", "buffer_store")}
    assert places["buffer_store"] == {stores[0]} and sums[0] in places["max"]
    written = [row for row in result_document(found).kernels[0].ttgir or () if "amdg.buffer_store" in row.text]
    assert {(row.file, row.line) for row in written} == {(str(FOLDER / "softmax.py"), stores[0])}
    ttgir, machine_code = ttgir_listing([found]), assembly_listing([found])
    assert re.search(rf" {stores[0]} +amdg\.buffer_store", ttgir)
    assert re.search(rf"^ +\d+\.\d % \S* +{sums[0]} .*tt\.reduce", ttgir, re.MULTILINE), "with the line's share"
    assert f"softmax.py:{stores[0]}  {text[stores[0] - 1].strip()}" in machine_code
    assert "buffer_store_dword" in machine_code and "s_endpgm" in machine_code
    assert lines[sums[0]].classes["valu"] > 0  # of Triton's own maximum, at the line that asks for it
    assert sum(line.amounts.instructions for line in attributed.lines) == pytest.approx(kernel.counters["SQ_INSTS"])
    [loop] = [loop for loop in attributed.loops if loop.depth == 1]
    assert "tl.range" in text[loop.line - 1] or loop.line in lines


def test_a_kernel_has_counters_and_what_it_was_specialized_for(vector_add: TargetResult) -> None:
    (kernel,) = vector_add.kernels
    assert (kernel.name, kernel.dispatches, kernel.grid, kernel.block) == ("add_kernel", 2, (97, 1, 1), (256, 1, 1))
    assert kernel.language == "triton"
    assert kernel.meta["BLOCK_SIZE"] == 1024
    assert kernel.meta["num_warps"] == kernel.block[0] / 64
    # Triton masks by an offset behind the end of a buffer: lanes beyond the vector request nothing.
    assert kernel.counters["EXACT_WRITE_BYTES"] == 98432 * 4
    assert kernel.counters["EXACT_READ_BYTES"] == 2 * 98432 * 4


COPY_ROWS = """
@triton.jit
def copy_rows(out, x, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    at = row * columns + column
    tl.store(out + at, tl.load(x + at, mask=column < columns), mask=column < columns)
x = torch.zeros(ROWS * 320, device="cuda")
copy_rows[(ROWS,)](torch.empty_like(x), x, 320, BLOCK=512)
"""


@pytest.mark.parametrize(
    ("rows", "effort", "sampled"), [pytest.param(64, 1.0, False, marks=pytest.mark.full), (1 << 17, 0.01, True)]
)
def test_masked_lanes_request_no_bytes(rows: int, effort: float, sampled: bool, tmp_path: Path) -> None:
    script = tmp_path / "code" / "rows.py"
    script.parent.mkdir()
    script.write_text(DOUBLE + COPY_ROWS.replace("ROWS", str(rows)))
    subject = project_program(Project((SourceFile(script, "python"),), script.parent))
    target = Target("gfx942", "-O3", "mi300x")
    found = SimBackend().profile(subject, target, tmp_path / "scratch", RunLimits(effort=effort))
    kernel = next(kernel for kernel in found.kernels if kernel.name == "copy_rows")
    assert kernel.sampled == sampled, found.message
    for name in ("EXACT_READ_BYTES", "EXACT_WRITE_BYTES"):
        assert kernel.counters[name] == pytest.approx(rows * 320 * 4, rel=0.1 if sampled else 1e-12)


WHERE_TENSORS_ARE = (
    "import numpy\n"
    "x = torch.ones(64, device=0)\n"
    "double[(1,)](x, BLOCK=64)\n"
    "assert x.is_cuda and torch.stack([x, x]).is_cuda and torch.empty(0, device='cuda').is_cuda\n"
    "assert torch.zeros(2, device=torch.device('meta')).device.type == 'meta'\n"
    "host = x.cpu()\n"
    "host[3] = 5.0\n"
    "assert host[3].item() == 5 and (host + 1).is_cpu and not host.add(1).is_cuda and x[3].item() == 2\n"
    "assert numpy.asarray(host, dtype=numpy.float64)[3] == 5 and host.numpy()[3] == 5\n"
    "assert x.numpy(force=True)[3] == 2\n"
    "try:\n    x.numpy()\n    raise AssertionError\nexcept TypeError: pass\n"
    "leaf = torch.ones(2, requires_grad=True)\n"
    "(leaf.cuda() * 2).cpu().sum().backward()\n"
    "assert leaf.grad.is_cpu and leaf.grad.eq(2).all()\n"
    "assert x.new_tensor([1.0]).is_cuda and not x.new_tensor([1.0], device='cpu').is_cuda\n"
    "with torch.inference_mode():\n"
    "    assert torch.tensor([3], device='cuda').is_cuda and host.cuda().is_cuda and not x.cpu().is_cuda\n"
    "    assert x.reshape(8, 8).is_cuda and (x + 1).is_cuda and host.reshape(8, 8).is_cpu\n"
    "torch.set_default_device('cuda')\n"
    "assert torch.ones(2).is_cuda and torch.full((2,), 1.0).is_cuda and torch.arange(3, device='cpu').is_cpu\n"
    "torch.set_default_device(None)\n"
    "with torch.device('cuda'):\n    assert torch.zeros(3).is_cuda\n"
    "assert torch.zeros(3).is_cpu\n"
)
WHAT_PROJECTS_ASK = (
    "x = torch.ones(64, device='cuda')\n"
    "double[(1,)](x, BLOCK=64)\n"
    "assert not torch.cuda.is_current_stream_capturing() and torch.cuda.memory_snapshot() == []\n"
    "with torch.cuda.device_of(x), torch.cuda.device(x.device), torch.cuda.device(0):\n"
    "    torch.cuda.nvtx.range_push('part')\n"
    "    torch.cuda.nvtx.range_pop()\n"
    "assert torch.accelerator.current_accelerator() == torch.device('cuda')\n"
    "assert torch.accelerator.is_available() and torch.accelerator.current_device_index() == 0\n"
    "torch.accelerator.synchronize()\n"
    "import threading\n"
    "side, streams, default = torch.cuda.Stream(), [], torch.cuda.current_stream()\n"
    "with torch.cuda.stream(side):\n"
    "    thread = threading.Thread(target=lambda: streams.append(torch.cuda.current_stream()))\n"
    "    thread.start(), thread.join()\n"
    "    assert torch.cuda.current_stream() is side and streams == [default]\n"
    "torch.save(x, 'x.pt')\n"
    "assert torch.load('x.pt').is_cuda and torch.load('x.pt').cpu().eq(2).all()\n"
    "assert torch.load('x.pt', map_location='cuda').is_cuda and torch.load('x.pt', map_location='cpu').is_cpu\n"
    "import ctypes\ncount, hip = ctypes.c_int(), ctypes.CDLL('libamdhip64.so')\n"
    "assert hip.hipGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 1, 'as other bindings of HIP do'\n"
)
GRADIENTS = (
    "class Double(torch.autograd.Function):\n"
    "    @staticmethod\n"
    "    def forward(ctx, x):\n"
    "        y = x.clone()\n"
    "        double[(1,)](y, BLOCK=64)\n"
    "        return y\n"
    "    @staticmethod\n"
    "    def backward(ctx, gradient):\n"
    "        assert gradient.is_cuda and torch.zeros(1, device=gradient.device).is_cuda\n"
    "        gradient = gradient.clone()\n"
    "        double[(1,)](gradient, BLOCK=64)\n"
    "        return gradient\n"
    "x = torch.ones(64, device='cuda', requires_grad=True)\n"
    "(Double.apply(x * 3).sum() * 5).backward()\n"
    "assert x.grad.is_cuda and x.grad.cpu().eq(30).all(), x.grad\n"
)


def test_a_script_uses_tensors_as_on_a_device(tmp_path: Path) -> None:
    """One script of three parts, since importing torch takes most of its time. It names the parts that have passed."""
    parts = {"places": WHERE_TENSORS_ARE, "questions": WHAT_PROJECTS_ASK, "gradients": GRADIENTS}
    text = "".join(f"{part}print({name!r}, flush=True)\n" for name, part in parts.items())
    result = profile_text(text, tmp_path)
    assert (result.status, result.exit_code) == ("ok", 0), f"after {result.stdout.split()}: {result.message}"
    assert result.stdout.split() == list(parts)
    assert [kernel.dispatches for kernel in result.kernels] == [1 + 1 + 2], "both ways through the gradients' kernel"


def test_a_script_may_call_pytest(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "test_double.py").write_text(
        DOUBLE + "def test_double():\n    x = torch.ones(64, device='cuda')\n"
        "    double[(1,)](x, BLOCK=64)\n    assert x.eq(2).all()\n"
    )
    (folder / "run.py").write_text("import pytest\nraise SystemExit(pytest.main(['test_double.py', '-q']))\n")
    result = profile(folder / "run.py", tmp_path / "scratch", exact=True)
    assert (result.status, result.exit_code) == ("ok", 0), result.message
    assert "1 passed" in result.stdout and [kernel.name for kernel in result.kernels] == ["double"]


def test_operators_of_pytorch_are_counted_apart(vector_add: TargetResult) -> None:
    assert vector_add.host_operators["add"] == 1
    assert vector_add.host_operators["empty_like"] == 2


@pytest.mark.full
def test_the_same_script_has_the_same_counters(vector_add: TargetResult, tmp_path: Path) -> None:
    again = profile(FOLDER / "vector_add.py", tmp_path)
    assert again.kernels == vector_add.kernels


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_a_matrix_product_passes_its_own_check(arch: str, tmp_path: Path) -> None:
    result = profile(EXAMPLES / "matmul.py", tmp_path, "256", arch=arch, exact=True)
    assert (result.status, result.stdout) == ("ok", "passed\n"), result.message
    (kernel,) = result.kernels
    assert kernel.meta["matrix_instr_nonkdim"] == 16
    assert kernel.counters["SQ_INSTS_VALU_MFMA_MOPS_F16"] * 512 == 2 * 256**3


def test_each_build_of_a_kernel_is_kept_apart_with_lines_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"{DOUBLE}x = torch.ones(1024, device='cuda')\n"
        "for block, groups in ((256, 4), (512, 1)): double[(groups,)](x, BLOCK=block)\n"
        "assert x.cpu()[:512].eq(4).all() and x[512:].eq(2).all() and x.is_cuda and not x.cpu().is_cuda\n"
        "double[(4,)](x.half(), BLOCK=256)\n"
    )
    result = profile(script, tmp_path / "scratch", exact=True, lines=True)
    assert result.status == "ok" and result.exit_code == 0, result.message
    builds = [(kernel.meta["argument types"], kernel.meta["BLOCK"], kernel.grid[0]) for kernel in result.kernels]
    assert builds == [("*fp32", 256, 4), ("*fp32", 512, 1), ("*fp16", 256, 4)]
    [store] = [number for number, line in enumerate(DOUBLE.splitlines(), 1) if "tl.store" in line]
    stored = [{line.line: line.amounts.bytes for line in kernel.lines}[store] for kernel in result.lines]
    assert [kernel.symbol for kernel in result.lines] == ["double", "double#2", "double#3"]
    assert stored == [2 * 4 * 1024, 2 * 4 * 512, 2 * 2 * 1024], "the line loads and stores each number once"


def test_a_kernel_that_does_not_compile(tmp_path: Path) -> None:
    result = profile_text(
        "@triton.jit\ndef bad(x_ptr):\n    tl.store(x_ptr, no_such_name)\n"
        "x = torch.ones(64, device='cuda')\ndouble[(1,)](x, BLOCK=64)\nbad[(1,)](x)\n",
        tmp_path,
    )
    assert (result.status, result.reason) == ("failed", Reason.COMPILE_FAILED)
    assert "no_such_name is not defined" in result.message and "script.py:10)" in result.message
    assert result.message.endswith("called at script.py:13")
    assert "Traceback" not in result.message
    assert [kernel.name for kernel in result.kernels] == ["double"]


def test_an_access_out_of_bounds_names_kernel_program_and_line(tmp_path: Path) -> None:
    result = profile_text(
        "x = torch.ones(64, device='cuda')\ndouble[(1,)](x, BLOCK=64)\ndouble[(2,)](x, BLOCK=4096)\n", tmp_path
    )
    assert (result.status, result.reason) == ("failed", Reason.ILLEGAL_ACCESS)
    for words in ("kernel double", "work-group (", "script.py:7"):
        assert words in result.message
    assert [kernel.dispatches for kernel in result.kernels] == [1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("print(torch.ones(3, device='cuda').sum().item())", Reason.NO_DISPATCH, marks=pytest.mark.full),
        pytest.param("torch.empty(1 << 50, device='cuda')", Reason.OUT_OF_MEMORY, marks=pytest.mark.full),
        (
            "import multiprocessing\nx = torch.ones(64, device='cuda')\n"
            "p = multiprocessing.get_context('fork').Process(target=lambda: double[(1,)](x, BLOCK=64))\n"
            "p.start(); p.join(); assert p.exitcode == 1; raise SystemExit('as it should')",
            Reason.NO_DISPATCH,
        ),
        ("import os\nos.fork() or os._exit(0)\nimport socket\nsocket.socket()", Reason.NO_DISPATCH),
    ],
)
def test_scripts_fail_with_a_reason(text: str, reason: Reason, tmp_path: Path) -> None:
    result = profile_text(text, tmp_path)
    assert (result.status, result.reason) == ("failed", reason), result.message


def test_an_endless_script_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DOUBLE + "double[(1,)](torch.ones(64, device='cuda'), BLOCK=64)\nwhile True: pass\n")
    project = Project((SourceFile(script, "python"),), tmp_path)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, tmp_path / "scratch", RunLimits(time_s=6.0))
    assert (result.status, result.reason) == ("failed", Reason.TIMEOUT), result.message
    assert [kernel.name for kernel in result.kernels] == ["double"]


def test_benchmarks_and_autotuning_use_simulated_time(tmp_path: Path) -> None:
    result = profile(FOLDER / "autotune.py", tmp_path, exact=True)
    assert result.status == "ok" and result.exit_code == 0, result.message
    assert result.stdout.startswith("slowest block 64 time of PyTorch nan\n")
    assert [kernel.meta["BLOCK"] for kernel in result.kernels] == [64, 1024, 2048]
    assert [tuning.key for tuning in result.autotunings] == [{"n": 1 << 20}, {"n": 1 << 12}]


@pytest.mark.full
def test_the_autotuner_chooses_what_the_simulator_finds_fastest(tmp_path: Path) -> None:
    result = profile(EXAMPLES / "tuned_matmul.py", tmp_path, "256")
    assert (result.status, result.stdout) == ("ok", "passed\n"), result.message
    [tuning] = result.autotunings
    assert (tuning.kernel, tuning.key) == ("matmul_kernel", {"M": 256, "N": 256, "K": 256})
    times = {row.meta["BLOCK_M"]: row.time_ns for row in tuning.configurations}
    assert list(times) == [32, 64, 128, 256] and times[256] is None
    # With 64 work-groups of 32 x 32 on 304 CUs, and at most 16 of larger blocks, the smallest win.
    assert tuning.chosen.meta["BLOCK_M"] == 32 and tuning.chosen.time_ns == min(filter(None, times.values()))
    assert [kernel.dispatches for kernel in result.kernels] == [2, 1, 1]  # timed once each, without warm-ups
    durations = {kernel.meta["BLOCK_M"]: kernel.duration_ns for kernel in result.kernels}
    assert sorted(durations, key=durations.__getitem__) == [32, 64, 128]
    assert durations[32] - times[32] == pytest.approx(durations[128] - times[128])  # the same outside the events
    text = list(tuning_lines(result))
    assert text[1].startswith("matmul_kernel autotuned for M=256, N=256, K=256  gfx942 (mi300x), times between events")
    assert "BLOCK_M=32" in text[3] and "chosen" in text[3] and "only 64 of 304 CUs" in text[3]
    assert "does not compile" in text[-1] and "BLOCK_M=256" in text[-1]


LISTENING = """
import os, sys, triton
triton.knobs.compilation.listener = lambda *, cache_hit, **_: print("found", cache_hit)
CACHE = os.environ["TRITON_CACHE_DIR"]
print(sorted(name for _, _, names in os.walk(CACHE) for name in names if name.startswith("left")))
"""


@pytest.mark.full
def test_compiled_kernels_are_found_by_the_same_script_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_kernels, "cache_dir", lambda: tmp_path / "cache")
    leave = """
os.makedirs(f"{CACHE}/AB", exist_ok=True)
for name in ("left.json", "left.so"):
    open(f"{CACHE}/AB/{name}", "w").close()
if not os.path.lexists(f"{CACHE}/AB/left_link"):
    os.symlink("/etc/passwd", f"{CACHE}/AB/left_link")
"""
    text = f"{DOUBLE}{LISTENING}double[(1,)](torch.ones(64, device='cuda'), BLOCK=64)\n{leave}"
    folders = [tmp_path / name for name in ("first", "other")]
    for folder, script in zip(folders, (text, text + "# not the same\n"), strict=True):
        folder.mkdir()
        (folder / "script.py").write_text(script)
    runs = [profile(folder / "script.py", tmp_path / "scratch") for folder in (folders[0], folders[0], folders[1])]
    assert [run.stdout for run in runs] == ["[]\nfound False\n", "['left.json']\nfound True\n", "[]\nfound False\n"]
    assert runs[0].kernels == runs[1].kernels == runs[2].kernels
    changed = folders[0] / "helper.py"
    changed.write_text("SIZE = 64\n")
    assert "found False" in profile(folders[0] / "script.py", tmp_path / "scratch").stdout, "a file that it may import"


def test_without_a_sandbox_compiled_kernels_are_kept_where_the_user_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    artefacts = prepare_script(FOLDER / "vector_add.py")
    result = api.run_attached(artefacts, devices.load_device("mi300x"), tmp_path, RunLimits(sampling_units=0))
    assert (result.status, result.exit_code) == ("ok", 0), result.message
    assert list(cache.glob("*/add_kernel.hsaco"))
