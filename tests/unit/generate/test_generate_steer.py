"""Does steering raise the weights of what a corpus lacks, and only weights?"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus_samples import METRICS, fill, item

from hipsynth.cli.generate import generated_labels
from hipsynth.cli.main import cli
from hipsynth.core.errors import UsageError
from hipsynth.core.store import CorpusWriter
from hipsynth.profiling.reports.coverage import heaviest_kernels, label_bins, measure_coverage
from hipsynth.synth.generate.build import replay_program
from hipsynth.synth.generate.policy import default_policy
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.generate.steer import Label, describe_changes, find_alternative, steer_policy


def label(family: str, worth: float, **params: Any) -> Label:
    return Label(family, params, worth)


LABELS = [
    *(label("gemm", 3.0, dtype="f64", tiles_m=900) for _ in range(20)),
    *(label("paper", 0.4, dtype="f32", size=1 << 27) for _ in range(20)),
]


def test_weights_follow_the_worth_of_labels() -> None:
    before, after = default_policy(), steer_policy(default_policy(), LABELS)
    assert after.families["gemm"] > 2 * before.families["gemm"]
    assert after.families["paper"] < before.families["paper"] / 2
    assert after.families["chase"] == before.families["chase"]
    old, new = (p.parameters["gemm", "tiles_m"] for p in (before, after))
    assert new.bins == old.bins and new.weights[-1] > old.weights[-1] and new.weights[0] == old.weights[0]


def test_a_weight_changes_at_most_fourfold_and_never_to_zero() -> None:
    before, after = default_policy(), steer_policy(default_policy(), [label("gemm", 99.0), *LABELS * 50])
    for key, old in before.parameters.items():
        for was, becomes in zip(old.weights, after.parameters[key].weights, strict=True):
            assert was / 4 - 1e-9 <= becomes <= was * 4 + 1e-9


def test_a_composition_counts_for_its_family() -> None:
    after = steer_policy(default_policy(), [label("compose/line-gather", 3.0, access="gather"), *LABELS])
    assert after.families["compose"] > default_policy().families["compose"]


def test_steering_is_deterministic_and_its_programs_replay() -> None:
    policies = [steer_policy(default_policy(), LABELS) for _ in range(2)]
    assert policies[0].digest == policies[1].digest != default_policy().digest
    one, two = ([p.text for p in generate_programs(8, seed=4, policy=policy)] for policy in policies)
    assert one == two != [p.text for p in generate_programs(8, seed=4)]
    for program in generate_programs(8, seed=4, policy=policies[0]):
        assert replay_program(program.family, program.choices).text == program.text


def test_the_plan_names_the_largest_changes() -> None:
    lines = list(describe_changes(default_policy(), steer_policy(default_policy(), LABELS), 400))
    assert any("gemm " in line and "family" in line for line in lines)
    assert any("gemm.dtype" in line and "f64" in line for line in lines)


def test_alternatives_are_found_by_value_and_by_bin() -> None:
    size, dtype = (default_policy().parameters["paper", name] for name in ("size", "dtype"))
    assert find_alternative(dtype, "f64") == dtype.values.index("f64") and find_alternative(dtype, "f8") is None
    assert find_alternative(size, size.bins[1][1] - 1) == 1 and find_alternative(size, 1) is None


def row(number: int, unit: str = "hbm", rate: float = 50.0, flops: float = 100.0, **more: Any) -> dict[str, Any]:
    fields = {"measurement_id": str(number), "arch": "gfx90a", "duration_ns": 10.0, "dispatches": 1}
    return {**fields, "limits": {"bottleneck": unit}, "L1_Cache_Hit_Rate": rate, "HBM_GFLOPS": flops, **more}


def test_bins_of_a_label() -> None:
    assert label_bins(row(1, "lds", 99.9, 250.0)) == {"bottleneck": "lds", "L1_Cache_Hit_Rate": "9", "HBM_GFLOPS": "4"}
    assert label_bins(row(1, flops=0.0))["HBM_GFLOPS"] == "0." and "L2_Cache_Hit_Rate" not in label_bins(row(1))
    assert label_bins({**row(1), "limits": None, "L1_Cache_Hit_Rate": None}) == {"HBM_GFLOPS": "4"}


def test_the_label_is_the_heaviest_kernel() -> None:
    rows = [row(1, "hbm"), row(1, "lds", dispatches=3), row(2, "valu")]
    assert [r["limits"]["bottleneck"] for r in heaviest_kernels(rows)] == ["lds", "valu"]


def test_thin_bins_are_worth_more_and_coverage_counts_effective_bins() -> None:
    rows = [*(row(n, "hbm") for n in range(9)), row(9, "lds")]
    found = measure_coverage(rows)
    assert found.score_rarity(rows[9]) > 1 > found.score_rarity(rows[0])
    assert found.effective_bins("gfx90a", "L1_Cache_Hit_Rate") == pytest.approx(1.0)
    assert found.effective_bins("gfx90a", "bottleneck") == pytest.approx(
        math.exp(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Eight generated programs with a label each."""
    with CorpusWriter(tmp_path / "corpus", METRICS) as writer:
        for number, program in enumerate(generate_programs(8, seed=3)):
            writer.add_program(program.record(), program.text)
            writer.add(replace(item(number), program_id=program.id, lineage=program.id, family=program.family))
    return tmp_path / "corpus"


def test_labels_of_a_corpus_have_their_parameters(corpus: Path) -> None:
    labels = generated_labels(corpus)
    drawn = {p.family: p.params for p in generate_programs(8, seed=3)}
    assert len(labels) == 8 and all(label.worth > 0 for label in labels)
    assert all(dict(label.params) == dict(drawn[label.family]) for label in labels)


def test_the_verb_prints_its_plan_and_resumes_only_the_same_run(corpus: Path, tmp_path: Path) -> None:
    command = ["generate", "--count", "3", "--sizes", "1", "--out", str(tmp_path / "out"), "--toward", str(corpus)]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0 and "8 labels of generated programs" in done.output
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert "another run" in str(CliRunner().invoke(cli, command[:-2]).exception), "not steered"


def test_a_corpus_without_generated_programs_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "corpus", [item(1)], 1)
    with pytest.raises(UsageError, match="no label of a generated program"):
        generated_labels(tmp_path / "corpus")
