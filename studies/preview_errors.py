"""How far previews are from the labels of a corpus, and how many labels have one.

    python -m studies.preview_errors CORPUS [--sources FOLDER] [--worst N] [--every K]

Every kernel of a run is compared, not only the heaviest. `--sources`: the folder of the surveyed collections; their
programs are then asked about as `synth predict` does it, each in its own folder, with the include folders and the
language standard of its build. Prints, for the labels that are furthest off, the ratio of previewed to labelled
duration, requests, misses and bytes, and, for each architecture, the median error, the share within 10 % and the
reasons why labels have no preview. Labels are simulated.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.core.program import Project, SourceFile
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.preview.programs import ProgramPreviews
from hipsynth.profiling.survey.build import unit_flags
from hipsynth.profiling.survey.build_plan import SurveyedProgram
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.source.names import base_name
from hipsynth.toolchain.flags import OPENMP
from hipsynth.training.analytic.examples import (
    BuildSamples,
    group_builds,
    job_limit_s,
    matching_preview,
    mean_quantities,
    previews_of,
)
from hipsynth.training.analytic.quantities import NAMES, metric_quantities
from hipsynth.training.data.dataset import LabelledSample, load_samples

NO_LAUNCH = "no launch of it was found"


@dataclass(frozen=True)
class ProgramPlace:
    """Where a surveyed program lies, and what its build adds to the flags of its labels."""

    project: Project
    flags: str


@dataclass(frozen=True)
class PreviewJob:
    """A build's samples, and its program's place if that is known."""

    build: BuildSamples
    place: ProgramPlace | None = None


@dataclass(frozen=True)
class PreviewRow:
    """One label beside its preview: previewed / labelled of each quantity, or why there is no preview."""

    name: str
    arch: str
    kernel: str
    ratios: dict[str, float]
    reason: str = ""
    by_data: bool = False
    limits: tuple[str, str] = ("", "")  # of the label, of the preview

    @property
    def duration_factor(self) -> float:
        """The factor by which the duration is wrong, at least 1."""
        return math.exp(abs(math.log(self.ratios["duration"]))) if self.ratios else math.inf


def make_row(
    sample: LabelledSample, ratios: dict[str, float], reason: str, by_data: bool = False, limit: str = ""
) -> PreviewRow:
    name = sample.facts.name or sample.program_id
    limits = sample.facts.bottleneck, limit
    return PreviewRow(name, sample.arch, sample.kernel, ratios, reason, by_data, limits)


def compare_kernel(sample: LabelledSample, program_previews: ProgramPreviews) -> PreviewRow:
    """A label beside the preview among those that were found of its run."""
    preview = matching_preview(program_previews.previews, sample)
    if preview is None:
        name = base_name(sample.kernel)
        reasons = dict.fromkeys(
            launch_preview.reason for launch_preview in program_previews.failures if launch_preview.kernel in ("", name)
        )
        return make_row(sample, {}, "; ".join(reasons) or NO_LAUNCH)
    previewed = mean_quantities(program_previews.previews, preview, sample)
    true = metric_quantities(sample.metrics, sample.duration_ns, sample.arch)
    ratios = {name: (previewed[name] + 1) / (true[name] + 1) for name in NAMES}
    return make_row(sample, ratios, "", preview.by_data, preview.bottleneck)


def find_places(sources: Path, samples: Sequence[LabelledSample]) -> dict[tuple[str, str], ProgramPlace]:
    """(collection, path in it) -> place, for the programs of the samples' collections that lie in `sources`."""
    places = {}
    for collection in sorted({sample.family for sample in samples}):
        root = sources / collection
        for program in find_programs(root, samples[0].arch) if root.is_dir() else ():
            if program.plans:
                places[collection, program.id] = find_place(program)
    return places


def find_place(program: SurveyedProgram) -> ProgramPlace:
    """The place of a program, by its most reliable plan; its macros are in the labels' text."""
    plan = program.plans[0]
    unit = replace(plan.units[0], options=(), defines=(), undefines=())
    needs_openmp = OPENMP in unit_flags(unit, plan).split()
    flags = f"{unit.flags()} {OPENMP}" if needs_openmp else unit.flags()
    return ProgramPlace(Project((SourceFile(program.main),), plan.folder), flags)


def compare_job(job: PreviewJob) -> list[PreviewRow]:
    samples, place = job.build.samples, job.place
    try:
        run_previews = previews_of(job.build, place.flags, place.project) if place else previews_of(job.build)
        return [compare_kernel(sample, previews) for sample, previews in zip(samples, run_previews, strict=True)]
    except BadInput as error:
        return [make_row(sample, {}, error.reason) for sample in samples]


def compare_samples(
    samples: Sequence[LabelledSample],
    workers: int,
    places: Mapping[tuple[str, str], ProgramPlace] | None = None,
) -> list[PreviewRow]:
    """The rows of all samples, the worst first. `places`: of surveyed programs, by collection and path."""
    known_places = places or {}
    builds = group_builds(samples)
    jobs = [PreviewJob(build, known_places.get((first.family, first.facts.name))) for build in builds
            for first in build.samples[:1]]  # fmt: skip
    rows: list[PreviewRow] = []
    for outcome in map_unordered(compare_job, jobs, workers, "local", job_limit_s(builds)):
        if isinstance(outcome.error, HipsynthError):  # its worker ended
            rows += [make_row(sample, {}, outcome.error.reason) for sample in jobs[outcome.index].build.samples]
        else:
            rows += outcome.get()
    return sorted(rows, key=lambda row: (-row.duration_factor, row.name, row.arch))


def format_lines(rows: Sequence[PreviewRow], worst: int) -> list[str]:
    heads = [name.replace("_requests", "").replace("fabric_", "") for name in NAMES]
    text = [f"{'program':<34}{'arch':<8}" + "".join(f"{head:>10}" for head in heads) + "  limits (label, preview)"]
    for row in rows[:worst]:
        numbers = "".join(f"{row.ratios[name]:>10.3g}" for name in NAMES) if row.ratios else f"  {row.reason}"
        data = ", by data" if row.by_data else ""
        text.append(f"{row.name:<34}{row.arch:<8}{numbers}  {' '.join(row.limits)}{data}")
    for arch in sorted({row.arch for row in rows}):
        text.append(summarize_errors(arch, [row for row in rows if row.arch == arch]))
    return text


def summarize_errors(arch: str, rows: Sequence[PreviewRow]) -> str:
    errors = [abs(row.ratios["duration"] - 1) if row.ratios else math.inf for row in rows]
    near = sum(error <= 0.1 for error in errors) / len(errors)
    reasons = Counter(row.reason for row in rows if not row.ratios)
    missing = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common())
    return (
        f"{arch}: {len(rows)} labels, {reasons.total()} without a preview{f' ({missing})' if missing else ''}; "
        f"duration: median error {100 * statistics.median(errors):.1f} %, {100 * near:.0f} % within 10 %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--sources", type=Path, help="folder of the surveyed collections")
    parser.add_argument("--only", default="", help="programs whose path holds this text")
    parser.add_argument("--worst", type=int, default=40, help="rows to print")
    parser.add_argument("--every", type=int, default=1, help="take every K-th build only")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    labels = load_samples(options.corpus, every_kernel=True)
    builds = group_builds(label for label in labels if options.only in label.facts.name)
    samples = [sample for build in builds[:: options.every] for sample in build.samples]
    places = find_places(options.sources, samples) if options.sources else {}
    rows = compare_samples(samples, options.workers, places)
    print("\n".join(format_lines(rows, options.worst)))


if __name__ == "__main__":
    main()
