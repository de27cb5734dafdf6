"""Generated programs in Triton: the same bytes for the same seed, one for each HIP program that can be one."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.program import iter_programs
from hipsynth.source.arguments import with_defaults
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.policy import Policy, default_policy
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.generate.triton_program import triton_program
from hipsynth.synth.generate.types import IRError
from hipsynth.synth.generate.writer import generate_into

BOTH = ("hip", "triton")


def test_each_program_in_both_languages(tmp_path: Path) -> None:
    generate_into(tmp_path, 6, seed=5, runs=3, languages=BOTH)
    programs = list(iter_programs(tmp_path, scripts=True))
    pairs = list(zip(programs[::2], programs[1::2], strict=True))
    assert [(hip.language, script.language) for hip, script in pairs] == [BOTH] * 6
    for hip, script in pairs:
        assert script.lineage == hip.id, "a pair is one lineage, so no split tears it apart"
        assert (script.family, script.params, script.runs) == (hip.family, hip.params, hip.runs)
        tree = ast.parse(script.text)
        assert any(isinstance(node, ast.FunctionDef) and node.name == hip.name for node in tree.body)
        for run in script.runs[1:]:
            with_defaults(script.text, run.arguments)


def test_the_same_seed_gives_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        generate_into(tmp_path / name, 20, seed=2, workers=workers, languages=("triton",))
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert sum(name.endswith(".py") for name in one) == 20


def test_an_interrupted_run_continues_at_a_whole_pair(tmp_path: Path) -> None:
    generate_into(tmp_path / "whole", 4, seed=9, languages=BOTH)
    generate_into(tmp_path / "cut", 2, seed=9, languages=BOTH)
    summary = generate_into(tmp_path / "cut", 4, seed=9, languages=BOTH)
    assert summary.reused == 2
    index = [(tmp_path / name / "programs.jsonl").read_bytes() for name in ("whole", "cut")]
    assert index[0] == index[1]


@pytest.mark.parametrize("family", ["scan", "wave_reduce", "mfma", "lds_tile"])
def test_what_work_items_share_is_not_expressible(family: str) -> None:
    programs = list(generate_programs(4, seed=1, family=family))
    assert len(programs) == 4
    for program in programs:
        with pytest.raises(IRError):
            triton_program(program)


def test_a_reduction_in_shared_memory_is_one_of_triton() -> None:
    [program] = generate_programs(1, seed=1, family="reduction")
    text = triton_program(program).text
    assert "tl.sum(acc, axis=0)" in text
    assert "for s " not in text, "the tree is gone"


def test_products_are_of_whole_blocks() -> None:
    programs = list(generate_programs(12, seed=4, family="gemm_fused", languages=("triton",)))
    epilogues = {(str(program.params["activation"]), program.params["residual"]) for program in programs}
    assert len(epilogues) > 3
    for program in programs:
        body = program.text.split("@triton.jit")[1]
        assert body.count("tl.dot(") == 1 and "mask=inside" in body and "range(0, k, BLOCK_K)" in body
        assert ("tl.erf(" in body) == (program.params["activation"] == "gelu")
        assert ("tl.maximum(" in body) == (program.params["activation"] == "relu")
        assert ("tl.sum(" in program.text) == (program.params["rows"] == "sum")
        assert "lane" not in body, "what only the loop over products read is gone"


def test_only_programs_in_triton_are_products_with_an_epilogue_by_default() -> None:
    policy = default_policy()
    without = replace(policy, families={k: w for k, w in policy.families.items() if k != "gemm_fused"}, triton={})

    def families(drawn_by: Policy, *languages: str) -> list[str]:
        return [drawn_by.family(Choices(Stream("family", 7, index, 0)), languages) for index in range(300)]

    assert families(policy, "hip") == families(without, "hip"), "programs in HIP stay as they were"
    assert "gemm_fused" in families(policy, "triton") and "gemm_fused" in families(policy, *BOTH)
