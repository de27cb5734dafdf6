"""Turns labelled samples of a corpus into examples for the correction: compiles and previews each build once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hipsynth.profiling.preview.interpret import Preview, template_of
from hipsynth.profiling.preview.programs import device_code, previews
from hipsynth.synth.core.errors import BadInput, CompileFailed, HipsynthError
from hipsynth.synth.core.kernel_names import base_name
from hipsynth.synth.core.workers import map_unordered
from hipsynth.training.analytic.features import features, preview_quantities
from hipsynth.training.analytic.model import SWAY, Example
from hipsynth.training.analytic.quantities import NAMES, Quantities, quantities
from hipsynth.training.data.dataset import Sample

JOB_SECONDS = 600.0


@dataclass(frozen=True)
class Seen:
    """What the preview of a sample's launch says: features and quantities for the correction, the unit that limits it,
    and the time that this unit alone takes."""

    features: dict[str, float]
    quantities: dict[str, float]
    bottleneck: str
    bound_ns: float


@dataclass(frozen=True)
class Build:
    """Samples of one program, architecture and flags: the same device code."""

    samples: tuple[Sample, ...]


def builds(samples: Iterable[Sample]) -> list[Build]:
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.program_id, sample.arch, sample.flags), []).append(sample)
    return [Build(tuple(group)) for _, group in sorted(groups.items())]


def preview_build(build: Build) -> list[Seen | None]:
    """What the preview of each sample's kernel says; None where there is no preview of it."""
    first = build.samples[0]
    try:
        code = device_code(first.text, first.arch, first.flags)
    except (CompileFailed, BadInput):
        return [None] * len(build.samples)
    found: list[Seen | None] = []
    for sample in build.samples:
        previewed = previews(sample.text, code, sample.device).previews
        preview = matching(previewed, sample)
        found.append(None if preview is None else seen(previewed, preview, sample))
    return found


def seen(found: Sequence[Preview], preview: Preview, sample: Sample) -> Seen:
    """What the previews of a kernel's launches say; the features are those of `preview`."""
    bound = max(preview.bounds.values(), default=0.0)
    sway = max(one.sway for one in found if instance(one) == instance(preview))
    averaged = mean([preview_quantities(one, sample.arch) for one in launches_of(found, preview, sample)])
    return Seen(features(preview, sample.device) | {SWAY: sway}, averaged, preview.bottleneck, bound)


def launches_of(found: Sequence[Preview], preview: Preview, sample: Sample) -> list[Preview]:
    """The launches that a label is the mean of: all of its kernel if these are as many, else the one like it."""
    same = [one for one in found if instance(one) == instance(preview)]
    return same if len(same) == sample.extra.get("dispatches") else [preview]


def instance(preview: Preview) -> tuple[str, tuple[str, ...]]:
    return preview.launch.kernel, preview.launch.template


def mean(parts: Sequence[Quantities]) -> Quantities:
    return {name: statistics.fmean(part[name] for part in parts) for name in NAMES}


def matching(found: Sequence[Preview], sample: Sample) -> Preview | None:
    """The preview of the launch that a sample's label is of: by kernel, its instance and, if known, its shape."""
    name, template = base_name(sample.kernel), template_of(sample.kernel)
    named = [p for p in found if p.launch.kernel == name]
    named = [p for p in named if [a.replace(" ", "") for a in p.launch.template] == template] or named
    shape = tuple(sample.extra.get("grid") or ()), tuple(sample.extra.get("block") or ())
    exact = [p for p in named if (p.launch.grid, p.launch.block) == shape]
    return next(iter(exact or named), None)


def preview_samples(
    samples: Sequence[Sample], workers: int, note: Callable[[str], None] = lambda _: None
) -> list[Seen | None]:
    """The preview of each sample, in their order."""
    jobs = builds(samples)
    place = {id(sample): i for i, sample in enumerate(samples)}
    found: list[Seen | None] = [None] * len(samples)
    for done, outcome in enumerate(map_unordered(preview_build, jobs, workers, "local", JOB_SECONDS), 1):
        lost = isinstance(outcome.error, HipsynthError)  # its worker ended
        results = [None] * len(jobs[outcome.index].samples) if lost else outcome.get()
        for sample, result in zip(jobs[outcome.index].samples, results, strict=True):
            found[place[id(sample)]] = result
        if done % 100 == 0:
            note(f"previewed {done} of {len(jobs)} builds")
    return found


def examples(samples: Sequence[Sample], found: Sequence[Seen | None]) -> list[Example]:
    """The samples that have features, with their truths."""
    return [
        Example(
            shown.features,
            shown.quantities,
            quantities(sample.metrics, sample.duration_ns, sample.arch),
            sample.arch,
            sample.family,
        )
        for sample, shown in zip(samples, found, strict=True)
        if shown is not None
    ]
