"""Turns labelled samples of a corpus into examples for the correction: compiles and previews each build once."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency
from hipsynth.core.languages import TRITON
from hipsynth.core.program import Project
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.time_limit import PREDICTION_SECONDS, processor_time_limit
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.preview.interpret import Preview
from hipsynth.profiling.preview.programs import PreviewFailure, ProgramPreviews, device_code, preview_program
from hipsynth.profiling.preview.script_launches import preview_script_text
from hipsynth.simulator.devices import load_device
from hipsynth.source.names import short_name
from hipsynth.training.analytic.features import launch_features, preview_quantities
from hipsynth.training.analytic.model import SENSITIVITY, Example
from hipsynth.training.analytic.preview_journal import PreviewFeatures, PreviewJournal
from hipsynth.training.analytic.quantities import NAMES, Quantities, metric_quantities
from hipsynth.training.data.dataset import LabelledSample

BUSY = 10  # times that a job may take longer than the processor time that its runs have


@dataclass(frozen=True)
class BuildSamples:
    """Samples of one program, architecture and flags: the same device code."""

    samples: tuple[LabelledSample, ...]


def group_builds(samples: Iterable[LabelledSample]) -> list[BuildSamples]:
    """Samples by (program, architecture, flags), in that order: those of a group share one compilation."""
    groups: dict[tuple[str, str, str], list[LabelledSample]] = {}
    for sample in samples:
        groups.setdefault((sample.program_id, sample.arch, sample.flags), []).append(sample)
    return [BuildSamples(tuple(group)) for _, group in sorted(groups.items())]


def preview_build(build: BuildSamples) -> list[PreviewFeatures | None]:
    """The preview features of each sample's kernel; None where it has no preview. Raises BadInput for what may be gone
    the next time, such as a full disk."""
    try:
        return [
            _seen_of(sample, previews.previews)
            for sample, previews in zip(build.samples, previews_of(build), strict=True)
        ]
    except BadInput as error:
        if error.reason in TRANSIENT:
            raise
        return [None] * len(build.samples)


def previews_of(build: BuildSamples, flags: str = "", project: Project | None = None) -> list[ProgramPreviews]:
    """The previews of each sample's run, each within the processor time that `synth predict` has. `flags`: what the
    build needs besides the flags of the labels; `project`: the folder that the program runs in. Raises CompileFailed,
    and BadInput without a kernel."""
    first = build.samples[0]
    if first.language == TRITON:
        return [_preview_run(functools.partial(_preview_script, sample)) for sample in build.samples]
    code = device_code(first.program_text or first.text, first.arch, f"{first.flags} {flags}".strip(), project=project)
    runs = dict.fromkeys(map(_run_of, build.samples))  # a run has a sample for each kernel
    previews = {
        run: _preview_run(functools.partial(preview_program, run[0], code, run[1], run[2], project)) for run in runs
    }
    return [previews[_run_of(sample)] for sample in build.samples]


def _preview_run(preview: Callable[[], ProgramPreviews]) -> ProgramPreviews:
    """The previews of one run, or why there are none. Raises BadInput for what may be gone the next time."""
    try:
        with processor_time_limit(PREDICTION_SECONDS):
            return preview()
    except BadInput as error:
        if error.reason in TRANSIENT:
            raise
        return ProgramPreviews([], [PreviewFailure("", error.what, error.reason)])


def job_limit_s(builds: Sequence[BuildSamples]) -> float:
    """Seconds after which a job of previews must hang."""
    return BUSY * PREDICTION_SECONDS * max((len(set(map(_run_of, build.samples))) for build in builds), default=1)


def _preview_script(sample: LabelledSample) -> ProgramPreviews:
    arguments = shlex.split(sample.arguments)
    return preview_script_text(sample.program_text or sample.text, load_device(sample.device), arguments)


def _run_of(sample: LabelledSample) -> tuple[str, str, tuple[str, ...]]:
    """Text, device and arguments of the run that a sample's label is of. Sizes of one program share its text, so that
    its host code is compiled once."""
    if not sample.program_text:
        return sample.text, sample.device, ()
    return sample.program_text, sample.device, tuple(shlex.split(sample.arguments))


def _seen_of(sample: LabelledSample, previews: Sequence[Preview]) -> PreviewFeatures | None:
    preview = matching_preview(previews, sample)
    return None if preview is None else preview_features(previews, preview, sample)


def preview_features(previews: Sequence[Preview], preview: Preview, sample: LabelledSample) -> PreviewFeatures:
    """The mean quantities of a kernel's launches, with the features of `preview`."""
    bound = max(preview.bounds.values(), default=0.0)
    sensitivity = max(launch.sensitivity for launch in previews if launch.instance == preview.instance)
    features = launch_features(preview, sample.device) | {SENSITIVITY: sensitivity}
    return PreviewFeatures(features, mean_quantities(previews, preview, sample), preview.bottleneck, bound)


def launches_of(previews: Sequence[Preview], preview: Preview, sample: LabelledSample) -> list[tuple[Preview, int]]:
    """The launches that a label is the mean of, each with how many it stands for. Runs for labels end where launches
    repeat, so these are the first ones of its shape, or of its kernel if the label is of more. The last one stands for
    those that got the counters of an earlier one, too. If the label is of more than are known, all of its shape; if it
    does not say of how many, `preview`."""
    dispatches = sample.facts.dispatches or 0
    if not dispatches:
        return [(preview, 1)]
    same = [other for other in previews if other.instance == preview.instance]
    alike = [other for other in same if other.launch.shape == preview.launch.shape]
    for launches in (alike, same):
        if dispatches <= sum(other.launch.represented for other in launches):
            reused = min(sample.facts.reused, dispatches - 1)
            *earlier, (last, times) = _take_first(launches, dispatches - reused)
            return [*earlier, (last, times + reused)]
    return [(other, other.launch.represented) for other in alike]


def _take_first(launches: Sequence[Preview], count: int) -> Iterator[tuple[Preview, int]]:
    """The first `count` launches of a run, which makes those that follow themselves one after the other, and those that
    come again later once in each round."""
    taken = [0] * len(launches)
    while count > 0:
        for number, launch in enumerate(preview.launch for preview in launches):
            step = launch.represented if launch.follows_itself else max(1, launch.represented // launch.times)
            step = min(step, count, launch.represented - taken[number])
            taken[number] += step
            count -= step
    for preview, times in zip(launches, taken, strict=True):
        if preview.by_time and 0 < times < preview.launch.times:
            first, later = preview.by_time
            yield first, 1
            if times > 1:
                yield later, times - 1
        elif times:
            yield preview, times


def mean_quantities(previews: Sequence[Preview], preview: Preview, sample: LabelledSample) -> Quantities:
    """Mean of each quantity over the launches that a label is the mean of; `preview`: one of them."""
    launches = launches_of(previews, preview, sample)
    total = sum(times for _, times in launches)
    parts = [(preview_quantities(launch, sample.arch), times / total) for launch, times in launches]
    return {name: math.fsum(part[name] * share for part, share in parts) for name in NAMES}


def matching_preview(previews: Sequence[Preview], sample: LabelledSample) -> Preview | None:
    """The preview of the launch that a sample's label is of: by kernel, its instance and, if known, its shape."""
    name = short_name(sample.kernel)
    named = [p for p in previews if name in (p.instance, p.launch.kernel)]
    shape = sample.facts.grid, sample.facts.block
    if all(shape):
        named = [p for p in named if (p.launch.grid, p.launch.block) == shape]
    return next(iter(named), None)


def preview_samples(
    samples: Sequence[LabelledSample],
    workers: int,
    note: Callable[[str], None] = lambda _: None,
    journal: PreviewJournal | None = None,
) -> list[PreviewFeatures | None]:
    """The preview of each sample, in their order. Those that the journal has are not made again, and it keeps the new
    ones. Raises MissingDependency where none can be made, BadInput for a full disk."""
    jobs = group_builds(sample for sample in samples if journal is None or sample not in journal)
    previews = {id(sample): journal.find_preview(sample) for sample in samples if journal and sample in journal}
    if previews:
        note(f"{len(previews):,} of {len(samples):,} samples were previewed before")
    for finished, outcome in enumerate(map_unordered(preview_build, jobs, workers, "local", job_limit_s(jobs)), 1):
        if isinstance(outcome.error, MissingDependency) or _is_disk_full(outcome.error):
            raise outcome.error  # no other sample has a preview either
        if not isinstance(outcome.error, HipsynthError):  # else its worker ended
            results = list(zip(jobs[outcome.index].samples, outcome.get(), strict=True))
            previews |= {id(sample): preview for sample, preview in results}
            if journal is not None:
                journal.keep_previews(results)
        if finished % 100 == 0:
            note(f"previewed {finished} of {len(jobs)} builds")
    return [previews.get(id(sample)) for sample in samples]


def _is_disk_full(error: BaseException | None) -> TypeGuard[HipsynthError]:
    return isinstance(error, HipsynthError) and error.reason == Reason.DISK_FULL


def build_examples(samples: Sequence[LabelledSample], previews: Sequence[PreviewFeatures | None]) -> list[Example]:
    """The samples that have features, with their truths."""
    return [
        Example(
            preview.features,
            preview.quantities,
            metric_quantities(sample.metrics, sample.duration_ns, sample.arch),
            sample.arch,
            sample.family,
        )
        for sample, preview in zip(samples, previews, strict=True)
        if preview is not None
    ]
