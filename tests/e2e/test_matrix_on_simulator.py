"""Programs to corpus on the real simulator: the same bytes on every run, and every label with its provenance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
from generated_samples import small

from hipsynth import toolchain
from hipsynth.core.program import Program, ProgramRun, load_program
from hipsynth.core.store import Corpus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix import collect, targets
from hipsynth.simulator.limits import RunLimits
from hipsynth.synth.generate.problem_sizes import expected_output, run_at

HANDWRITTEN = Path(__file__).resolve().parents[2] / "corpus" / "handwritten"


@pytest.fixture(scope="module", autouse=True)
def simulator() -> None:
    needs.simulator()


def content(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in [*path.rglob("*.parquet"), path / "manifest.json"]}


@pytest.mark.full
def test_the_corpus_is_the_same_on_every_run(tmp_path: Path) -> None:
    programs = [load_program(path) for path in sorted((HANDWRITTEN / "grid_stride").glob("*.hip"))[:2]]
    cells, _ = targets.select_targets(["gfx90a", "gfx942"], ["-O3"])
    for name, workers, order in (("one", 1, 1), ("two", 2, -1)):
        summary = collect.collect_matrix(
            programs[::order],
            cells[::order],
            tmp_path / name,
            collect.MatrixOptions(workers=workers, limits=RunLimits(60)),
        )
        assert summary.measured == len(programs) * 2 and not summary.failed
    assert content(tmp_path / "one") == content(tmp_path / "two")
    for row in Corpus.open(tmp_path / "one").measurements().to_pylist():
        provenance = dict(row["provenance"])
        assert row["backend"] == "sim" and row["backend_version"] and row["compiler"] and row["headers"]
        assert provenance["compiler"] == row["compiler"] and provenance["headers"] == row["headers"]
        assert row["L1_Cache_Hit_Rate"] is not None and row["duration_ns"] > 0


def test_one_build_gives_labels_at_several_sizes_and_on_several_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each side is compiled once; a wrong result in any run would be a failure."""
    root = toolchain.find_toolchain().root
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / root.name).symlink_to(root)
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / "cache"))
    base, run = small("stencil1d")
    program = replace(base, oracle=expected_output).with_runs([run, halved(base, run)])
    cells = [Target("gfx942", "-O3", device) for device in ("mi300x", "mi300a")]
    summary = collect.collect_matrix([program], cells, tmp_path / "c", collect.MatrixOptions(limits=RunLimits(60)))
    assert (summary.planned, summary.measured, summary.failed) == (4, 4, {})
    assert len(list((tmp_path / "cache" / "builds").glob("*/*"))) == 2, "one for the device and one for the host"
    again = collect.collect_matrix([program], cells, tmp_path / "c", collect.MatrixOptions(limits=RunLimits(60)))
    assert (again.measured, again.already_done) == (0, 4)
    rows = Corpus.open(tmp_path / "c").measurements().to_pylist()
    assert len({row["arguments"] for row in rows}) == 2 and len({row["device"] for row in rows}) == 2
    grids = {row["arguments"]: tuple(row["grid"]) for row in rows}
    assert len(set(grids.values())) == 2, grids


def halved(program: Program, run: ProgramRun) -> ProgramRun:
    found = run_at(program, {name: value // 2 for name, value in run.params.items()})
    assert found is not None
    return found
