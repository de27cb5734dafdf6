"""What ends a script with Triton kernels: a failure has a reason, names its cause, and costs no other kernel."""

from __future__ import annotations

import json
from pathlib import Path

import needs
from triton_samples import DOUBLE

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.reports.describe import result_document
from hipsynth.simulator.limits import RunLimits

needs.installed("triton")

LAUNCH = "x = torch.ones(4096, device='cuda')\ndouble[(4,)](x, BLOCK=1024)\n"


def profile_text(
    text: str, folder: Path, *arguments: str, head: str = DOUBLE + LAUNCH, time_s: float = 60.0
) -> TargetResult:
    script = folder / "code" / "script.py"
    script.parent.mkdir()
    script.write_text(head + text)
    project = Project((SourceFile(script, "python"),), script.parent, arguments)
    limits = RunLimits(time_s=time_s, output_bytes=1 << 20)
    return SimBackend().profile(project_program(project), Target("gfx942", "-O3", "mi300x"), folder / "scratch", limits)


# Statements of a script -> the reason why they end it, and words of the message.
FAILURES = {
    "double[(4,)](x)": ("bad_configuration", "double missing 1 required positional argument: 'BLOCK'"),
    "double[(4,)](x, 1, 2, 3, BLOCK=64)": ("bad_configuration", "double got multiple values"),
    "double[(4096 / 1024,)](x, BLOCK=1024)": ("bad_configuration", "'float' object"),
    "double[(1 << 33,)](x, BLOCK=1024)": ("bad_configuration", "greater than maximum"),
    "double[(4,)](x, BLOCK=1024, num_ctas=2)": ("bad_configuration", "num_ctas"),
    "double[(4,)](x, BLOCK=1024, num_warps=3)": ("bad_configuration", "double is launched with options"),
    "double[(4,)](x, BLOCK=1024, num_wraps=4)": ("bad_configuration", "num_wraps"),
    "double[(4,)](x, BLOCK=1024, maxnreg=128)": ("bad_configuration", "maxnreg"),
    "double[(4,)](x, BLOCK=1024, num_warps=32)": ("compile_failed", "out of resource: threads"),
    "double[(4,)](x, BLOCK=1000)": ("compile_failed", "power of 2"),
    "double[(4,)](torch.ones(4096), BLOCK=1024)": ("illegal_access", "argument x_ptr of kernel double"),
    "double[(4,)](Freed(), BLOCK=1024)": ("illegal_access", "in device memory that was freed"),
    "of_nvidia[(1,)](x)": ("compile_failed", "PTX and the functions of tl.extra.cuda are NVIDIA's"),
    "torch.empty(1 << 40, device='cuda')": ("out_of_memory", "192.00 GiB"),
    "torch.ones(4, device='cuda:1')": ("needs_devices", "invalid device ordinal"),
    "torch.ones(4).cuda(1)": ("needs_devices", "invalid device ordinal"),
    "torch.ones(4).to('cuda:3')": ("needs_devices", "invalid device ordinal"),
    "torch.cuda.set_device(1)": ("needs_devices", "invalid device ordinal"),
    "torch.cuda.CUDAGraph()": ("unsupported_service", "graph"),
    "import multiprocessing as m; m.get_context('spawn').Process(target=print).start()": (
        "unsupported_service",
        "a new Python process would have no virtual device",
    ),
    "torch.cuda.nccl.all_reduce([x])": ("unsupported_service", "NCCL"),
    "torch.distributed.init_process_group('nccl', rank=0, world_size=1)": ("unsupported_service", "torch.distributed"),
    "import cupy": ("needs_library", "No module named 'cupy'"),
    "from torch import no_such_name": ("needs_library", "'no_such_name' from 'torch'"),
    "exec('def f(:')": ("syntax_error", "invalid syntax"),
    "assert x.sum() == 0": ("", ""),
    "raise TypeError('own')": ("", ""),
}
HEAD = """
import json, sys

@triton.jit
def of_nvidia(p):
    v = tl.inline_asm_elementwise('mov.u32 $0, %smid;', '=r,r', [tl.load(p)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(p, v.to(tl.float32))

class Freed:
    dtype = torch.float32
    def __init__(self):
        self.address = torch.ones(4096, device='cuda').data_ptr()
    def data_ptr(self):
        return self.address

for statement in json.load(open('statements.json')):
    try:
        exec(statement)
        print('nothing')
    except BaseException as error:
        print(json.dumps(sys.modules['hipsynth_device.session'].failure_of(error)))
"""


def test_errors_have_reasons_and_name_their_cause(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "statements.json").write_text(json.dumps(list(FAILURES)))
    script = tmp_path / "code" / "script.py"
    script.write_text(DOUBLE + LAUNCH + HEAD)
    project = Project((SourceFile(script, "python"),), script.parent)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, tmp_path / "scratch", RunLimits())
    assert (result.status, result.exit_code) == ("ok", 0), result.message
    answers = result.stdout.splitlines()
    assert len(answers) == len(FAILURES)
    for (statement, (reason, words)), answer in zip(FAILURES.items(), answers, strict=True):
        assert answer != "nothing", statement
        code, message = json.loads(answer)
        assert code == reason and words in message, f"{statement}: {answer}"
        assert not reason or Reason.of(reason).remedy, reason
    assert [(kernel.name, kernel.dispatches) for kernel in result.kernels] == [("double", 1)]


ASSERTED = """
@triton.jit(debug=True)
def check_index(x_ptr, n, BLOCK: tl.constexpr):
    index = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.device_assert(index < n, "index too large")

x = torch.arange(256, device="cuda", dtype=torch.int32)
check_index[(2,)](x, 256, BLOCK=128)
check_index[(2,)](x, 200, BLOCK=128)
"""


def test_a_failed_assertion_has_its_message_and_line(tmp_path: Path) -> None:
    result = profile_text(ASSERTED, tmp_path)
    assert (result.status, result.reason) == ("failed", Reason.ASSERTION), result.message
    line = (DOUBLE + LAUNCH + ASSERTED).splitlines().index('    tl.device_assert(index < n, "index too large")') + 1
    assert result.message.startswith("device assertion failed: 'index too large', in "), result.message
    assert f"script.py:{line} In kernel check_index, " in result.message and "work-group (1, 0, 0)" in result.message
    assert {kernel.name: kernel.dispatches for kernel in result.kernels} == {"double": 1, "check_index": 1}


def test_kernels_before_an_error_of_the_script_are_kept(tmp_path: Path) -> None:
    result = profile_text("double[(2,)](x, BLOCK=2048)\nraise ValueError('my own')\n", tmp_path)
    assert (result.status, result.exit_code, result.message) == ("ok", 1, "ValueError: my own")
    assert [kernel.meta["BLOCK"] for kernel in result.kernels] == [1024, 2048]


def test_a_script_that_cannot_be_parsed_has_a_reason_and_a_remedy(tmp_path: Path) -> None:
    result = profile_text("def f(:\n", tmp_path)
    assert (result.status, result.reason) == ("failed", Reason.SYNTAX_ERROR)
    assert 'File "script.py", line 10' in result.message and "Traceback" not in result.message
    assert result_document(result).remedy == Reason.SYNTAX_ERROR.remedy != ""


def test_a_folder_may_have_modules_named_as_those_of_python(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in ("subprocess", "argparse", "trial", "numbers"):
        (tmp_path / "code" / f"{name}.py").write_text("raise ImportError('not this one')\n")
    script = tmp_path / "code" / "script.py"
    script.write_text(DOUBLE + LAUNCH)
    project = Project((SourceFile(script, "python"),), script.parent)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, tmp_path / "scratch", RunLimits())
    assert (result.status, result.exit_code) == ("ok", 0), result.message
