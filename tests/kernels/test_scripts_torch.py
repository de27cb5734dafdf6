"""PyTorch's own machinery on device tensors: each script checks itself, against the CPU or what a GPU answers."""

from __future__ import annotations

from pathlib import Path

import needs
from triton_samples import DOUBLE

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import RunLimits

needs.package("triton")

HEAD = f"""{DOUBLE}
def raises(kind, words, run, *args, **kwargs):
    try:
        run(*args, **kwargs)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("no " + kind.__name__)

x = torch.ones(64, device="cuda")
double[(1,)](x, BLOCK=64)
"""


def check_script(text: str, folder: Path) -> TargetResult:
    script = folder / "code" / "script.py"
    script.parent.mkdir()
    script.write_text(HEAD + text)
    project = Project((SourceFile(script, "python"),), script.parent)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, folder / "scratch", RunLimits(sampling_units=0))
    assert (result.status, result.exit_code) == ("ok", 0), result.message
    return result


OPTIMIZERS = """
def train(optimizer, options, device):
    torch.manual_seed(0)
    model, x, y = torch.nn.Linear(8, 3).to(device), torch.randn(16, 8).to(device), torch.randn(16, 3).to(device)
    chosen = optimizer(model.parameters(), lr=0.01, **options)
    for _ in range(3):
        chosen.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        chosen.step()
    assert model.weight.is_cuda == (device == "cuda")
    return model.weight.detach().cpu()

for name in ("Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "NAdam", "Adadelta", "Adamax"):
    for options in ({}, {"foreach": True}, {"fused": True}):
        if "fused" not in options or name in ("Adam", "AdamW", "SGD", "Adagrad"):
            pair = [train(getattr(torch.optim, name), options, device) for device in ("cpu", "cuda")]
            torch.testing.assert_close(*pair, rtol=1e-6, atol=1e-7, msg=f"{name} {options}")
assert not torch.accelerator.current_stream().is_capturing()
"""


def test_optimizers_change_parameters_as_on_the_cpu(tmp_path: Path) -> None:
    check_script(OPTIMIZERS, tmp_path)
