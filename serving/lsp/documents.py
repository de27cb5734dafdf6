"""The language server's own notifications and answers to commands, beyond LSP's messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.profiling.reports.documents import ProfiledKernel
from hipsynth.training.models.documents import KernelPrediction


@dataclass(frozen=True, kw_only=True)
class PanelFigure:
    """One quantity of a kernel: numbers for exports, and the texts to show. `low` and `high` are the ends of its 80 %
    interval; `predicted` stands beside an executed value, `saved` is the prediction of the saved text."""

    id: str
    title: str
    unit: str
    how: str
    value: float | None
    low: float | None
    high: float | None
    predicted: float | None
    saved: float | None
    text: str
    interval: str
    predictedText: str
    savedText: str
    change: str


@dataclass(frozen=True, kw_only=True)
class PanelKernel:
    """One kernel of a text, with the line of its name, from 0. `how`: "predicted", "executed", or "" while unknown."""

    name: str
    line: int
    how: str
    summary: str
    why: tuple[str, ...]
    note: str
    figures: tuple[PanelFigure, ...]


@dataclass(frozen=True)
class PanelTarget:
    """What is predicted for; `device` "": the default one."""

    arch: str
    device: str
    flags: str


@dataclass(frozen=True, kw_only=True)
class EditorPanel:
    """What a client's own panel shows. `roofline` is null while no kernel is known or the device does not exist;
    `edited`: the text differs from the saved one, whose predicted figures are the `saved` ones."""

    target: PanelTarget
    model: str
    state: str
    edited: bool
    kernels: tuple[PanelKernel, ...]
    roofline: RooflinePlot | None


@dataclass(frozen=True)
class PredictedDevice:
    """A device that can be predicted for."""

    name: str
    title: str
    arch: str


@dataclass(frozen=True)
class NamedFlags:
    """A flag set of the matrix."""

    flags: str
    doc: str


@dataclass(frozen=True)
class EditorTargets:
    """The answer to the command hipsynth.targets: what can be predicted for."""

    devices: tuple[PredictedDevice, ...]
    flags: tuple[NamedFlags, ...]


@dataclass(frozen=True)
class NotifiedKernel:
    """One kernel of a text, as its prediction or its profile describes it; null while nothing is known of it."""

    name: str
    line: int
    how: str
    document: KernelPrediction | ProfiledKernel | None


@dataclass(frozen=True, kw_only=True)
class PredictionNotice:
    """The notification hipsynth/prediction: what is known of a text's kernels."""

    uri: str
    version: int
    state: str
    kernels: tuple[NotifiedKernel, ...]
    panel: EditorPanel


@dataclass(frozen=True)
class ComparedKernel:
    """One kernel before and after an edit: durations, and the metrics that both have."""

    name: str
    duration_ns: tuple[float | None, float | None]
    text: str
    metrics: Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True)
class EditComparison:
    """The answer to the command hipsynth.compare."""

    kernels: tuple[ComparedKernel, ...]


@dataclass(frozen=True)
class CommandFailure:
    """The answer to a command that failed."""

    error: str
    message: str
