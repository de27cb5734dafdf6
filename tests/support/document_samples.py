"""Documents of predictions and profiles with few kernels, built as the product builds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.metrics.bottleneck import Bottleneck, OccupancyFigures
from hipsynth.profiling.reports.documents import ProfiledKernel, ProfileDocument, ProfileResult, ProgramIdentity
from hipsynth.training.models.documents import KernelPrediction, PredictDocument, PredictionResult
from hipsynth.tuning.optimize.documents import CheckedProgram, OptimizeDocument, SearchEnd

DEVICE = "mi250"
PROGRAM = ProgramIdentity("0123", "kernel.hip")
KERNEL = KernelPrediction(
    name="k",
    instance="k",
    metrics={"HBM_GFLOPS": 4.0},
    duration_ns=2.0,
    intervals={},
    grid=(1, 1, 1),
    block=(64, 1, 1),
    bottleneck="hbm",
    occupancy=0.5,
)


def prediction(*kernels: KernelPrediction, model: str = "m") -> PredictionResult:
    """One target's prediction."""
    return PredictionResult(
        arch="gfx90a",
        flags="-O3",
        device=DEVICE,
        model=model,
        metrics={},
        roofline=roofline.locate_kernel({}, DEVICE),
        seconds=0.1,
        notes=(),
        kernels=kernels,
        plot=roofline.plot_kernels(DEVICE, []),
    )


def predict_document(name: str = "k", duration: float = 2.0) -> PredictDocument:
    """A program of one kernel."""
    kernel = replace(KERNEL, name=name, duration_ns=duration)
    return PredictDocument(program=PROGRAM, model="m", results=(prediction(kernel),))


def bottleneck(occupancy: OccupancyFigures | None = None) -> Bottleneck:
    """A kernel that the HBM limits."""
    return Bottleneck("hbm", "HBM bandwidth", 0.9, (), "bound by HBM bandwidth", {}, (), occupancy)


def profiled_kernel(name: str, duration_ns: float, metrics: Mapping[str, float | None]) -> ProfiledKernel:
    """A simulated kernel that the HBM limits."""
    return ProfiledKernel(
        name=name,
        dispatches=1,
        grid=(1, 1, 1),
        block=(64, 1, 1),
        same_shape=True,
        counters={},
        metrics=metrics,
        duration_ns=duration_ns,
        backend="sim",
        backend_version="1",
        extra_metrics={},
        expected_error=None,
        no_evidence=None,
        bottleneck=bottleneck(),
        sampled=False,
        groups_simulated=None,
        reused=None,
        error_estimate={},
        metric_error_estimate={},
    )


def profile(*kernels: ProfiledKernel) -> ProfileResult:
    """One target's profile."""
    return ProfileResult(
        arch="gfx90a",
        flags="-O3",
        status="ok",
        reason="",
        exit_code=0,
        stdout="",
        kernels=kernels,
        device=DEVICE,
        message="",
        plot=roofline.plot_kernels(DEVICE, []),
    )


def profile_document() -> ProfileDocument:
    """A program of one kernel."""
    return ProfileDocument(PROGRAM, (profile(profiled_kernel("k", 2.0, {})),))


def optimize_document(ended: SearchEnd = SearchEnd.NOTHING_LEFT, **changes: Any) -> OptimizeDocument:
    """A search that found nothing, with `changes`."""
    open_checks: dict[str, Any] = {field.name: None for field in fields(CheckedProgram)}
    report = OptimizeDocument(
        path="k", arch="gfx90a", flags="-O3", status="unchanged", reason="r", speedup=1.0, uncertainty=0.0,
        before_ns=1.0, after_ns=1.0, verified=CheckedProgram(**{**open_checks, "checks": ()}), step=-1, steps=(),
        refused={}, budget_spent_s=1.0, ended=ended, holds=True, shapes=(), dispatch={}, patched=None,
    )  # fmt: skip
    return replace(report, **changes)
