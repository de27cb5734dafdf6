"""Meta-parameters of Triton kernels: where a script writes them, what changes, and which kernels have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from profiling_samples import kernel

from hipsynth.core.reasons import Reason
from hipsynth.simulator.observation import Output
from hipsynth.source.triton_source import read_triton_source
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.scripts.meta_parameters import (
    MetaParameter,
    list_parameters,
    shared_options,
    write_values,
)
from hipsynth.tuning.optimize.scripts.optimize_script import ScriptRequest, choose_sizes, choose_uneven_sizes
from hipsynth.tuning.optimize.scripts.verify_script import compare_scripts
from hipsynth.tuning.trial import Trial, target_of
from hipsynth.tuning.trial.refusal import KernelRefusal

HEAD = """import triton, triton.language as tl
{decorator}@triton.jit
def k(p, N, BLOCK: tl.constexpr, BLOCK_M: tl.constexpr = 1, GROUP_M: tl.constexpr = 1, HEAD: tl.constexpr = 64): ...
"""


def parameters_of(body: str, decorator: str = "") -> tuple[dict[str, MetaParameter], KernelRefusal | None, str]:
    text = HEAD.format(decorator=decorator) + body
    source = read_triton_source(text)
    parameters, refusal = list_parameters(source, source.functions_named("k")[0])
    return {parameter.name: parameter for parameter in parameters}, refusal, text


def changed_text(body: str, decorator: str = "", **values: int) -> str:
    parameters, _, text = parameters_of(body, decorator)
    changed = write_values(read_triton_source(text), {parameters[name]: value for name, value in values.items()})
    return changed.removeprefix(HEAD.format(decorator="")) if not decorator else changed


@pytest.mark.parametrize(
    ("body", "values", "after"),
    [
        ("k[(8,)](p, n, BLOCK=64)\n", {"BLOCK": 128}, "k[(8,)](p, n, BLOCK=128)\n"),
        ("k[g](p, BLOCK=64,  # é\n  num_warps=4)\n", {"num_warps": 8}, "k[g](p, BLOCK=64,  # é\n  num_warps=8)\n"),
        ("é = 1; k[g](p, n, BLOCK=64)\n", {"num_warps": 8}, "é = 1; k[g](p, n, BLOCK=64, num_warps=8)\n"),
        (
            "k[g](p, n, BLOCK=64,)\n",
            {"num_warps": 8, "waves_per_eu": 2},
            "k[g](p, n, BLOCK=64, num_warps=8, waves_per_eu=2,)\n",
        ),
        ("B = 64\nk[(n // B,)](p, n, BLOCK=B)\n", {"BLOCK": 32}, "B = 32\nk[(n // B,)](p, n, BLOCK=B)\n"),
        ("k[(8,)](p, n, 64, 16)\n", {"BLOCK": 128, "BLOCK_M": 32}, "k[(8,)](p, n, 128, 32)\n"),
        ("B, c = 64, n\nk[g](p, n, B)\n", {"BLOCK": 32}, "B, c = 32, n\nk[g](p, n, B)\n"),
        ("B: int = 64\nk[g](p, n, BLOCK=B)\n", {"BLOCK": 32}, "B: int = 32\nk[g](p, n, BLOCK=B)\n"),
        ("def f(x, b=64): k[g](p, x, BLOCK=b)\n", {"BLOCK": 32}, "def f(x, b=32): k[g](p, x, BLOCK=b)\n"),
        ("k[(cdiv(n, 64),)](p, n, BLOCK=64)\n", {"BLOCK": 32}, "k[(cdiv(n, 32),)](p, n, BLOCK=32)\n"),
        (
            "k[(cdiv(N, 64) * cdiv(M, 64),)](p, n, BLOCK=1, BLOCK_M=64, GROUP_M=64)\n",
            {"BLOCK_M": 32},
            "k[(cdiv(N, 64) * cdiv(M, 32),)](p, n, BLOCK=1, BLOCK_M=32, GROUP_M=64)\n",
        ),
        ("k[(n // 4,)](p, n, num_warps=4)\n", {"num_warps": 8}, "k[(n // 4,)](p, n, num_warps=8)\n"),
        ("k[g](p, BLOCK=64)\nk[h](q, BLOCK=64)\n", {"BLOCK": 32}, "k[g](p, BLOCK=32)\nk[h](q, BLOCK=32)\n"),
    ],
)  # fmt: skip
def test_numbers_change_where_they_are_written(body: str, values: dict[str, int], after: str) -> None:
    assert changed_text(body, **values) == after


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_places_hold_for_every_end_of_line(line_end: str) -> None:
    source = read_triton_source(HEAD.format(decorator="").replace("\n", line_end))
    (kernel,) = source.functions
    assert source.text_of(kernel.node).startswith("def k(p, N,") and source.text_of(kernel.node).endswith(": ...")


def test_the_only_configuration_of_an_autotuner_changes() -> None:
    decorator = "@triton.autotune(configs=[triton.Config({'BLOCK': 64}, num_warps=2)], key=['N'])\n"
    text = changed_text("k[g](p, n)\n", decorator, BLOCK=128, num_warps=4, num_stages=1)
    assert "triton.Config({'BLOCK': 128}, num_warps=4, num_stages=1)" in text and text.endswith("k[g](p, n)\n")


@pytest.mark.parametrize(
    ("config", "after"),
    [
        ("triton.Config({'BLOCK': 64,})", "triton.Config({'BLOCK': 64, \"waves_per_eu\": 2,}, num_stages=1)"),
        ("triton.Config({}, num_warps=2)", 'triton.Config({"waves_per_eu": 2}, num_warps=2, num_stages=1)'),
        ("triton.Config({'waves_per_eu': 1})", "triton.Config({'waves_per_eu': 2}, num_stages=1)"),
    ],
)
def test_compiler_options_of_a_configuration_stand_in_its_dictionary(config: str, after: str) -> None:
    decorator = f"@triton.autotune(configs=[{config}], key=['N'])\n"
    text = changed_text("k[g](p, n)\n", decorator, waves_per_eu=2, num_stages=1)
    assert after in text, text


@pytest.mark.parametrize(
    "body",
    [
        "B = 64\nB = 32\nk[g](p, n, BLOCK=B)\n",  # which one counts is not known
        "for B in (32, 64): k[g](p, n, BLOCK=B)\n",
        "def f(B): k[g](p, n, BLOCK=B)\n",
        "k[g](p, n, BLOCK=100)\n",  # a size of the problem rather than one of the kernel's choice
        "k[g](p, n, BLOCK=triton.next_power_of_2(n))\n",
        "k[g](p, BLOCK=64)\nk[h](q, BLOCK=32)\n",
        "k[g](p, n, **options)\n",
        "k[g](p, n, HEAD=64)\n",
    ],
)
def test_what_is_no_choice_of_the_author_stays(body: str) -> None:
    assert not {"BLOCK", "HEAD"} & parameters_of(body)[0].keys()


def test_an_option_that_is_computed_changes_where_a_run_showed_its_value() -> None:
    text = (
        HEAD.format(decorator="")
        + "w = min(max(n // 256, 1), 8)\nk[g](p, n, BLOCK=n, num_warps=w)\nk[g](p, num_warps=f(n))\n"
    )
    source = read_triton_source(text)
    one = replace(kernel("gfx942"), name="k", meta={"num_warps": 4, "num_stages": 2, "BLOCK": 64})
    records = [one, replace(one, meta={**one.meta, "num_stages": 3}), replace(one, name="other", meta={})]
    options = shared_options(records, "k")
    assert options == {"num_warps": 4}, "launches differ in num_stages"
    [warps] = [row for row in list_parameters(source, source.functions[0], options)[0] if row.name == "num_warps"]
    assert warps.value == 4
    changed = write_values(source, {warps: 8})
    assert "w = min(max(n // 256, 1), 8)" in changed, "what else depends on the variable stays"
    assert changed.endswith("k[g](p, n, BLOCK=n, num_warps=8)\nk[g](p, num_warps=8)\n")
    assert not [row for row in list_parameters(source, source.functions[0])[0] if row.name == "num_warps"]


def test_a_kernel_that_is_compiled_beforehand_changes_there() -> None:
    body = "W = 8\nc = k.warmup(p, n, BLOCK=n, num_warps=W, grid=(1,))\nc[(8,)](p, n)\n"
    assert changed_text(body, num_warps=4, waves_per_eu=2) == body.replace("W = 8", "W = 4").replace(
        "grid=(1,)", "grid=(1,), waves_per_eu=2"
    )


def test_a_parameter_named_as_an_option_is_no_option() -> None:
    text = HEAD.format(decorator="").replace("BLOCK_M:", "num_stages:") + "k[g](p, n, num_stages=4)\n"
    source = read_triton_source(text)
    assert "num_stages" not in {row.name for row in list_parameters(source, source.functions[0])[0]}


def test_variables_that_are_passed_twice_are_one_parameter() -> None:
    parameters = parameters_of("B = 64\nk[g](p, n, BLOCK=B, BLOCK_M=B)\n")[0]
    assert {"BLOCK", "BLOCK_M"} & parameters.keys() == {"BLOCK"}


@pytest.mark.parametrize(
    ("body", "decorator", "code"),
    [
        ("k[g](p, n, BLOCK=64)\n", "@triton.autotune(configs=CONFIGS, key=['N'])\n", Reason.AUTOTUNED),
        ("other[g](p)\n", "", Reason.NOT_IN_SCRIPT),
        ("k[g](p, **options)\n", "", Reason.NO_LITERALS),
    ],
)
def test_kernels_without_parameters_say_why(body: str, decorator: str, code: Reason) -> None:
    parameters, refusal, _ = parameters_of(body, decorator)
    assert not parameters and refusal is not None and refusal.code == code


@pytest.mark.parametrize(
    ("name", "now", "values"),
    [
        ("BLOCK_M", 64, [128, 32]), ("BLOCK", 16, [32]), ("GROUP_M", 1, [2]), ("num_warps", 16, [8]),
        ("num_stages", 2, [1, 3]), ("matrix_instr_nonkdim", 16, [32]), ("waves_per_eu", 2, [1]),
    ],
)  # fmt: skip
def test_neighbouring_values_are_tried(name: str, now: int, values: list[int]) -> None:
    assert MetaParameter("k", name, now, ()).other_values(now, has_products=True) == values


def trial_of(dtype: str, data: bytes, **members: object) -> Trial:
    output = Output(f"tensor of {dtype}", 0, len(data), len(data), data.hex())
    return Trial("ok", exit_code=0, outputs=(output,), recorded={0: data}, **members)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "error", "equal"),
    [("float32", 1e-6, True), ("float32", 1e-3, False), ("bfloat16", 2**-8, True), ("bfloat16", 0.1, False)],
)
def test_tensors_are_compared_within_the_tolerance_of_their_type(dtype: str, error: float, equal: bool) -> None:
    numbers = np.linspace(1, 2, 64, dtype=np.float32)
    trials = []
    for values in (numbers, (numbers * (1 + error)).astype(np.float32)):
        data = values.tobytes() if dtype == "float32" else (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        trials.append(trial_of(dtype, data))
    assert compare_scripts(*trials).equal == equal


def test_integers_texts_and_missing_tensors_must_be_the_same() -> None:
    before = trial_of("int32", b"\1\0\0\0")
    assert compare_scripts(before, before).exact
    assert "differs" in compare_scripts(before, trial_of("int32", b"\2\0\0\0")).reason
    assert "prints" in compare_scripts(before, trial_of("int32", b"\1\0\0\0", stdout="x")).reason
    printed = trial_of("int32", b"\1\0\0\0", stdout="error 1.5e-08 PASS 3")
    assert compare_scripts(printed, printed).exact
    assert "prints" in compare_scripts(printed, replace(printed, stdout="error 0.0 PASS 3")).reason
    assert "other tensors" in compare_scripts(before, trial_of("int64", b"\1\0\0\0")).reason
    assert "other tensors" in compare_scripts(Trial("ok", exit_code=0), Trial("ok", exit_code=0)).reason


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("sum 10.00001 error 0.0e-08 of 3 PASS", True),  # each number as its inputs' last bits explain it
        ("sum  9.99999 error 1.5e-08 of 3 PASS", True),  # blanks align numbers
        ("sum 10.00000 error 1.5e-08 of 4 PASS", False),
        ("sum 10.00000 error 1.5e-08 of 3 FAIL", False),
        ("sum 10.01000 error 1.5e-08 of 3 PASS", False),
        ("sum 10.00000 error 2.5e-05 of 3 PASS", False),
        ("sum 10.00000 error 1.5e-08 of 3 PASS 1", False),
    ],
)
def test_printed_numbers_differ_as_far_as_the_tensors_explain_it(text: str, passes: bool) -> None:
    numbers = np.linspace(1.0, 2.0, 64, dtype=np.float32)
    before = trial_of("float32", numbers.tobytes(), stdout="sum 10.00000 error 1.5e-08 of 3 PASS")
    after = trial_of("float32", (numbers * np.float32(1 + 1e-7)).tobytes(), stdout=text)
    nudged = [replace(before, stdout="sum 10.00001 error 3.0e-08 of 3 PASS")]
    assert not compare_scripts(before, before, lambda: nudged).reason
    assert compare_scripts(before, after, lambda: nudged).equal is passes
    assert not compare_scripts(before, after).equal, "nothing is known of what the last bits change"


def _sizes(arguments: tuple[str, ...], defaults: tuple[str, ...], block: int) -> list[tuple[str, ...]]:
    timed = CandidateMeasurement("ok", Reason.NONE, "", 0, (), 1.0, exact_s=0.1)
    return choose_sizes(ScriptRequest(target_of("gfx942"), arguments), defaults, timed, block)


def test_outputs_are_compared_at_sizes_that_no_block_divides() -> None:
    timed = CandidateMeasurement("ok", Reason.NONE, "", 0, (), 1.0, exact_s=0.1)

    def uneven(*arguments: str, sizes: Sequence[tuple[str, ...]] = ()) -> list[tuple[str, ...]]:
        return choose_uneven_sizes(ScriptRequest(target_of("gfx942"), arguments, sizes), (), timed)

    assert uneven("4096") == [("3841",)] and uneven("3") == uneven() == uneven("4096", sizes=[("64",)]) == []
    assert uneven("512", "4", "1024") == [("481", "4", "961"), ("481", "4", "1024"), ("512", "4", "961")]


def test_outputs_are_compared_at_sizes_that_a_larger_block_does_not_divide() -> None:
    assert _sizes((), ("1024", "3"), 64) == [(), ("512", "3"), ("960", "3")]
    assert _sizes(("4096",), (), 128) == [("4096",), ("2048",), ("3968",)]
    assert _sizes((), (), 64) == [()], "a script without sizes has one"
    assert _sizes(("960",), (), 64) == [("960",), ("480",)], "an odd multiple already"
    assert _sizes(("100",), (), 64) == [("100",)]
