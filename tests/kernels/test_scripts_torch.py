"""PyTorch's own machinery on device tensors: each script checks itself, against the CPU or what a GPU answers."""

from __future__ import annotations

from pathlib import Path

import needs
from triton_samples import DOUBLE

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import RunLimits

needs.installed("triton")

HEAD = f"""{DOUBLE}
def raises(kind, words, run, *args, **kwargs):
    try:
        run(*args, **kwargs)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("no " + kind.__name__)

"""
# Before each part.
LAUNCH = """
x = torch.ones(64, device="cuda")
double[(1,)](x, BLOCK=64)
"""

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


MIXED = """
functional, indices = torch.nn.functional, torch.arange(8)
x, h, m, n = torch.ones(8, device="cuda"), torch.ones(8), torch.ones(8, 8, device="cuda"), torch.ones(8, 8)
words = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
for text in (
    "x + h", "h / x", "x.add_(h)", "h.add_(x)", "torch.tensor(1.0).add_(x[0])", "x == h", "torch.add(x, x, out=h)",
    "m @ n", "n @ m", "m @ h", "torch.dot(x, h)", "torch.addmm(h, m, m)", "torch.bmm(m[None], n[None])",
    "torch.cat([x, h])", "torch.stack([x, h])", "torch.where(h > 0, x, x)", "m.masked_fill(n > 0, 0)",
    "torch.nn.Linear(8, 8)(x)", "torch.nn.Linear(8, 8).cuda()(h)", "functional.conv1d(m[None], n[None])",
    "functional.embedding(indices, m)", "m.gather(1, indices[None])", "m.index_select(0, indices)",
    "m.scatter_add(1, indices[None], m)", "functional.mse_loss(x, h)", "torch.allclose(x, h)",
):
    raises(RuntimeError, words, eval, text)
with torch.inference_mode():
    raises(RuntimeError, words, torch.add, x, h)
for text in (
    "x + torch.tensor(2.0)", "x.add_(torch.tensor(1.0))", "x.copy_(h)", "m[indices]", "m[h > 0]", "h.to(x)",
    "torch.where(x > 0, x, torch.tensor(0.0))", "m.index_put((indices,), x[0])",
    "torch.tensor_split(x, indices[1:3])[0]",
    "torch.tensor(h, device='cuda')", "torch.vmap(lambda a: a * 2)(m) + m", "m.to_sparse() @ m + m",
    "torch.func.jacfwd(lambda a: a * x)(x) + m", "torch.func.jvp(lambda a: a * a, (x,), (x,))[1] + x",
):
    assert eval(text).is_cuda, text
h.copy_(x)
m[h > 0], m[0], m[indices] = 5.0, h, torch.tensor(1.0)
rows = torch.nn.utils.rnn.pack_padded_sequence(m[:, None], torch.tensor([8]))
assert torch.nn.LSTM(8, 4).cuda()(rows)[0].data.is_cuda and rows.batch_sizes.is_cpu


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2, a * 3

    @staticmethod
    def backward(ctx, first, second):
        assert first.is_cuda and second.is_cuda
        return 2 * first + 3 * second


leaf = torch.ones(8, device="cuda", requires_grad=True)
Pair.apply(leaf)[0].sum().backward()
assert leaf.grad.eq(2).all(), "nothing came to the other result"
"""


AUTOCAST = """
functional = torch.nn.functional
half, single = torch.float16, torch.float32
a, h, norm = torch.randn(8, 8, device="cuda"), torch.randn(8, 8), torch.nn.LayerNorm(8).cuda()
with torch.autocast("cuda", dtype=half):
    assert torch.is_autocast_enabled("cuda") and not torch.is_autocast_enabled("cpu")
    c = a @ a
    double[(1,)](c, BLOCK=64)
    for text in ("a @ a", "functional.linear(a, a)", "torch.einsum('ij,jk->ik', a, a)", "torch.mv(a, a[0])", "c + c",
                 "torch.nn.Conv2d(1, 1, 3).cuda()(a[None, None])", "c.mean()", "torch.dot(c[0], c[0])"):
        assert eval(text).dtype == half and eval(text).is_cuda, text
    for text in ("c.softmax(0)", "c.sum()", "c.exp()", "norm(c)", "c.norm()", "functional.mse_loss(c, c)", "c + a",
                 "torch.dot(c[0], a[0])", "torch.nn.LSTM(8, 8).cuda()(a)[0]"):
        assert eval(text).dtype == single and eval(text).is_cuda, text
    assert (h @ h).dtype == single and h.half().softmax(0).dtype == half, "those on the host are cast by no GPU"
    with torch.autocast("cuda", enabled=False):
        assert (a @ a).dtype == single
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
assert (a @ a).dtype == single and c.is_cuda
torch.testing.assert_close(c.float(), 2 * (a @ a), rtol=1e-2, atol=1e-2)
with torch.autocast("cpu"):
    assert (a @ a).dtype == single and (h @ h).dtype == torch.einsum("ij,jk->ik", h, h).dtype == torch.bfloat16
for region in (torch.autocast("cuda"), torch.amp.autocast("cuda"), torch.cuda.amp.autocast()):
    with region:
        assert (a @ a).dtype == half


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        assert (gradient.float() @ y.T).dtype == half
        return gradient @ y.T, x.T @ gradient


class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=single)
    def forward(ctx, x):
        assert x.dtype == (x @ x).dtype == single
        return x @ x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        assert (gradient @ gradient).dtype == single
        return gradient


leaf = a.clone().requires_grad_()
with torch.autocast("cuda"):
    loss = Square.apply(Product.apply(leaf, a)).sum()
loss.backward()
assert leaf.grad.dtype == single and leaf.grad.is_cuda


def train(device):
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    model, x, y = torch.nn.Sequential(*layers).to(device), torch.randn(8, 8).to(device), torch.arange(8).to(device) % 4
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=half):
            loss = functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


assert abs(train("cuda") - train("cpu")) < 1e-3
"""


OPERATORS = """
from torch.library import Library, custom_op, triton_op, wrap_triton


@custom_op("mine::doubled", mutates_args=(), device_types="cuda")
def doubled(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda and x.device.type == "cuda" and torch.zeros(1, device=x.device).is_cuda and torch.ones(1).is_cpu
    y = torch.empty_like(x).copy_(x)
    double[(1,)](y, BLOCK=64)
    return y


@doubled.register_kernel("cpu")
def doubled_on_cpu(x):
    assert not x.is_cuda
    return x * 2 + 0.5


def keep(ctx, inputs, output):
    assert inputs[0].is_cuda and output.is_cuda
    ctx.save_for_backward(inputs[0])


def go_back(ctx, gradient):
    [x] = ctx.saved_tensors
    assert gradient.is_cuda and x.is_cuda
    return doubled(gradient.contiguous())


doubled.register_autograd(go_back, setup_context=keep)
assert doubled(x).is_cuda and doubled(x).eq(4).all() and torch.ops.mine.doubled(x).eq(4).all()
assert doubled(x.cpu()).eq(4.5).all() and doubled(x.cpu()).is_cpu
leaf = torch.ones(64, device="cuda", requires_grad=True)
(doubled(leaf * 3) * 5).sum().backward()
assert leaf.grad.is_cuda and leaf.grad.eq(30).all()
with torch.inference_mode():
    assert doubled(x).is_cuda and doubled(x).eq(4).all()


@triton_op("mine::twice", mutates_args={"x"})
def twice(x: torch.Tensor) -> None:
    assert x.is_cuda
    wrap_triton(double)[(1,)](x, BLOCK=64)


y = torch.ones(64, device="cuda")
twice(y)
assert y.eq(2).all()

library = Library("yours", "FRAGMENT")
library.define("half(Tensor x) -> Tensor")
library.define("third(Tensor x) -> Tensor")
library.impl("half", lambda x: torch.full_like(x, 0.5) * x if x.is_cuda else None, "CUDA")
library.impl("third", lambda x: x.new_zeros(3) + x.is_cuda, "CompositeImplicitAutograd")
assert torch.ops.yours.half(x).eq(1).all() and torch.ops.yours.half.default(x).is_cuda
assert torch.ops.yours.third(x).eq(1).all() and torch.ops.yours.third(x).is_cuda
raises(NotImplementedError, "'CPU' backend", torch.ops.yours.half, x.cpu())
library.define("of_cpu(Tensor x) -> Tensor")
library.impl("of_cpu", lambda x: x + 1, "CPU")
raises(NotImplementedError, "'CUDA' backend", torch.ops.yours.of_cpu, x)
assert torch.ops.yours.of_cpu(x.cpu()).is_cpu


@custom_op("mine::filled", mutates_args=(), device_types="cuda")
def filled(size: int, device: torch.device) -> torch.Tensor:
    return torch.ones(size, device=device)


assert filled(3, torch.device("cuda")).is_cuda
"""


TYPES = """
host, module = torch.ones(3), torch.nn.Linear(2, 2)
assert x.type() == "torch.cuda.FloatTensor" and x.half().type() == "torch.cuda.HalfTensor"
assert host.type() == "torch.FloatTensor"
for wanted in ("torch.cuda.HalfTensor", torch.cuda.HalfTensor, torch.float16):
    assert x.type(wanted).is_cuda and x.type(wanted).dtype == torch.float16
assert host.type("torch.cuda.LongTensor").type() == "torch.cuda.LongTensor" and x.type(torch.IntTensor).is_cpu
assert x.type(x.type()) is x and host.type(torch.float16).is_cpu and host.type_as(x).is_cuda and x.type_as(host).is_cpu
assert module.cuda().type(torch.float16).weight.type() == "torch.cuda.HalfTensor"
assert torch.cuda.FloatTensor([1, 2]).is_cuda and torch.cuda.LongTensor(2, 3).shape == (2, 3)
assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(host, torch.cuda.FloatTensor)
raises(ValueError, "invalid type: 'torch.cuda.NoTensor'", x.type, "torch.cuda.NoTensor")
"""


PARTS = {
    "optimizers change parameters as on the CPU": OPTIMIZERS,
    "operators that mix devices fail where they do on a GPU": MIXED,
    "autocast acts on device tensors alone": AUTOCAST,
    "operators of a script see the device": OPERATORS,
    "names of types say where a tensor is": TYPES,
}


def test_a_script_finds_what_a_gpu_answers(tmp_path: Path) -> None:
    """One script of all parts, since importing torch takes most of its time. It names the parts that have passed."""
    parts = (f"{LAUNCH}{text}\nprint({name!r}, flush=True)\n" for name, text in PARTS.items())
    script = tmp_path / "code" / "script.py"
    script.parent.mkdir()
    script.write_text(HEAD + "".join(parts))
    project = Project((SourceFile(script, "python"),), script.parent)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, tmp_path / "scratch", RunLimits(sampling_units=0))
    assert (result.status, result.exit_code) == ("ok", 0), f"after {result.stdout.splitlines()}: {result.message}"
    assert result.stdout.splitlines() == list(PARTS)
    launches = {kernel.meta["argument types"]: kernel.dispatches for kernel in result.kernels}
    assert launches == {"*fp32": len(PARTS) + 8, "*fp16": 1}, "eight of them by operators of the script"
    written = {kernel.meta["argument types"]: kernel.counters["EXACT_WRITE_BYTES"] for kernel in result.kernels}
    assert written == {"*fp16": 2 * 64, "*fp32": 4 * 64}
