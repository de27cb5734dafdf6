"""Many variants at once are predicted as one by one."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput, CompileFailed, UsageError
from hipsynth.profiling.preview.interpret import Interpreter
from hipsynth.profiling.preview.launch import packed_number, with_argument
from hipsynth.profiling.preview.programs import device_code, find_launches
from hipsynth.profiling.preview.sweep import TOLERANCE, Line
from hipsynth.simulator.devices import load_device
from hipsynth.training.analytic.batch import Variant, predict_variants
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.analytic.prediction_text import variant_lines
from hipsynth.training.analytic.variants import MOST_VARIANTS, from_file, parse_axis, sweep_variants

SOURCE = """#include <hip/hip_runtime.h>
__global__ void scale(const float* in, float* out, int n, int turns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = i < n ? in[i] : 0;
  for (int t = 0; t < turns; ++t) x = x * 1.5f + 2.0f;
  if (i < n) out[i] = x;
}
int main(int argc, char** argv) {
  const int n = atoi(argv[1]);
  float *in, *out;
  hipMalloc(&in, n * sizeof(float));
  hipMalloc(&out, n * sizeof(float));
  scale<<<(n + 255) / 256, 256>>>(in, out, n, 40);
}
"""
BUILD = ("gfx942", "-O3", "mi300x")
UNRECORDED = ("gfx950", "-O3", "mi350x")


def test_a_sweep_is_near_the_single_answers() -> None:
    predictor = AnalyticPredictor.load()
    variants = sweep_variants(["arg1=2000:900000:1.02", "block=128,256"], [BUILD], LaunchAssumptions())
    found = predict_variants(predictor, SOURCE, variants)
    assert len(found) == len(variants) > 500
    assert sum(answer.interpolated for answer in found) > 0.7 * len(found)  # small grids are interpreted as a whole
    for answer in [*found[3::97], found[0], found[-1]]:
        (kernel,) = answer.prediction.kernels
        (alone,) = predictor.predict(SOURCE, *BUILD, answer.variant.question).kernels
        assert (kernel.grid, kernel.block) == (alone.grid, alone.block)
        assert kernel.duration_ns == pytest.approx(alone.duration_ns, rel=2 * TOLERANCE)
        assert kernel.metrics == pytest.approx(alone.metrics, rel=4 * TOLERANCE, abs=3)


def test_rows_that_compare_unequal_work_say_so_and_have_their_grid() -> None:
    variants = sweep_variants(["block=256,8x8"], [BUILD], LaunchAssumptions(arguments=("65536",)))
    answers = [answer.document() for answer in predict_variants(AnalyticPredictor.load(), SOURCE, variants)]
    assert [answer.kernels[0].grid for answer in answers] == [(256, 1, 1)] * 2
    note = "scale: 16,384 work-items in place of 65,536, since the grid stays 256x1x1: choose both for equal work"
    assert [note in answer.notes for answer in answers] == [False, True]
    head, *rows = variant_lines(answers)
    assert head.split()[:3] == ["block", "kernel", "grid"] and rows[0].split()[:3] == ["256", "scale", "256"]
    assert rows[-1] == f"note on row 2: {note}"
    both = LaunchAssumptions((1024, 1, 1), (64, 1, 1), arguments=("65536",))
    assert not any(
        "work-items in place" in note for note in AnalyticPredictor.load().predict(SOURCE, *BUILD, both).notes
    )


@pytest.mark.parametrize("build", [BUILD, UNRECORDED])
def test_interpreted_variants_have_the_single_answers_exactly(build: tuple[str, str, str]) -> None:
    predictor = AnalyticPredictor.load()
    asked = [LaunchAssumptions(values={"turns": turns}, arguments=("65536",)) for turns in (1, 30, 7)]
    found = predict_variants(predictor, SOURCE, [Variant(*build, question) for question in asked])
    for question, answer in zip(asked, found, strict=True):
        alone = predictor.predict(SOURCE, *build, question)
        assert (answer.prediction.kernels, answer.prediction.notes) == (alone.kernels, alone.notes)
        assert answer.interpolated == 0


def test_rows_say_what_lies_outside_of_the_arrays() -> None:
    source = SOURCE.replace("out[i] = x", "out[i + 24] = x")
    variants = sweep_variants(["turns=1,2"], [BUILD], LaunchAssumptions(arguments=("65536",)))
    predictor = AnalyticPredictor.load()
    alone = predictor.predict(source, *BUILD, variants[0].question)
    assert any(note.startswith("scale: 24 accesses lie outside") for note in alone.notes)
    assert [answer.prediction.notes for answer in predict_variants(predictor, source, variants)] == [alone.notes] * 2


def test_what_no_rule_describes_is_interpreted() -> None:
    interpreter = Interpreter(device_code(SOURCE, "gfx942", "-O3"), load_device("mi300x"))
    (made,) = find_launches(SOURCE, interpreter, ["16384"]).launches
    turns = [1 + 370 * n % 2300 for n in range(24)]  # no function of n that a rule follows
    launches = [with_argument(made, 20, struct.pack("<i", turn)) for turn in turns]
    found = Line(interpreter, range(1, 25), launches).previews()
    assert all(one.interpreted for one in found)
    for launch, one in zip(launches[::9], found[::9], strict=True):
        assert one.preview == interpreter.preview(launch)


def test_sweeps_are_read() -> None:
    assert parse_axis("n=1:100:4") == ("n", ["1", "4", "16", "64"])
    assert parse_axis("n=5:7:+1") == ("n", ["5", "6", "7"])
    assert parse_axis("block=64,16x16")[1] == ["64", "16x16"]
    assert parse_axis("n=1:4:1.1") == ("n", ["1", "2", "3", "4"])
    variants = sweep_variants(["arg2=1,2", "grid=8", "alpha=0.5"], [BUILD], LaunchAssumptions(arguments=("9",)))
    assert [v.question.arguments for v in variants] == [("9", "1"), ("9", "2")]
    assert variants[0].question.grid == (8, 1, 1) and variants[0].question.values == {"alpha": 0.5}


@pytest.mark.parametrize(
    "spec", ["n", "n=", "=1", "n=1:9:1", "n=0:9:2", "n=1:9:+0", "block=1y2", "n=9:1:2", "n=a", "arg3=1", "grid=0"]
)
def test_wrong_sweeps_are_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        sweep_variants([spec], [BUILD], LaunchAssumptions(arguments=("9",)))


def test_too_many_variants_are_refused_before_they_are_made() -> None:
    with pytest.raises(UsageError, match=f"{MOST_VARIANTS:,}"):
        sweep_variants([f"n{i}=1:1000:+1" for i in range(9)], [BUILD], LaunchAssumptions())


def test_variants_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "variants.jsonl"
    rows = [{"flags": "-O2", "block": [16, 16], "values": {"n": 4}}, {"device": "mi210", "arguments": [7]}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    first, second = from_file(path, [BUILD], LaunchAssumptions(arguments=("1",)))
    assert (first.flags, first.question.block, first.question.arguments) == ("-O2", (16, 16, 1), ("1",))
    assert (second.arch, second.device, second.question.arguments) == ("gfx90a", "mi210", ("7",))
    first, second = from_file(path, [BUILD], LaunchAssumptions(), lambda flags: f"{flags} -DN=64")
    assert first.flags == "-O2 -DN=64" and second.flags == BUILD[1]
    for wrong in (
        "[]",
        '{"grids": 1}',
        '{"values": {"n": "x"}}',
        '{"values": {"n": Infinity}}',
        '{"device": "none"}',
        "{",
        '{"block": "a"}',
    ):
        path.write_text('{"block": 64}\n' + wrong)
        with pytest.raises(BadInput, match="line 2"):
            from_file(path, [BUILD], LaunchAssumptions())


def test_numbers_that_an_argument_cannot_have_are_refused() -> None:
    assert packed_number(3.0, 4, "float") == struct.pack("<f", 3.0) and packed_number(-1, 2, "short") == b"\xff\xff"
    for value in (1e300, float("inf"), float("nan")):
        with pytest.raises(UsageError):
            packed_number(value, 4, "float")
    with pytest.raises(UsageError):
        packed_number(float("inf"), 4, "int")


def test_a_fragment_is_compiled_with_hips_header_and_keeps_its_line_numbers() -> None:
    index = "blockIdx.x * blockDim.x + threadIdx.x"
    text = f"__global__ void twice(float* a, int n) {{\n  int i = {index};\n  if (i < n) a[i] *= 2;\n}}\n"
    found = AnalyticPredictor.load().predict(text, "gfx942", "-O3", None, LaunchAssumptions((64, 1, 1), (256, 1, 1)))
    assert [k.name for k in found.kernels] == ["twice"] and found.kernels[0].duration_ns
    with pytest.raises(CompileFailed) as error:
        device_code(text.replace("2;", "nothing;"), "gfx942", "-O3")
    assert ":3:" in error.value.diagnostics and "nothing" in error.value.diagnostics
