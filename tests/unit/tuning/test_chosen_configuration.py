"""Autotuned kernels in searches: one configuration stands alone, and what was found joins the author's list."""

from __future__ import annotations

import pytest

from hipsynth.simulator.autotunings import Autotuning, TriedConfiguration
from hipsynth.source.triton_source import read_triton_source
from hipsynth.tuning.optimize.documents import StepOutcome
from hipsynth.tuning.optimize.scripts.chosen_configuration import list_choices, offer_configurations, pin_choices
from hipsynth.tuning.optimize.scripts.meta_parameters import list_parameters, write_values

SCRIPT = """import triton, triton.language as tl
@triton.autotune({configs}, key=["n"])
@triton.jit
def k(p, n, BLOCK: tl.constexpr): ...
k[lambda meta: (n // meta["BLOCK"],)](p, n)
"""
SEVERAL_LINES = """configs=[
    triton.Config({"BLOCK": 64}),  # small
    triton.Config({"BLOCK": 256}),  # é
]"""


def tuning_of(*times: float | None, key: int = 4096, plain: bool = True) -> Autotuning:
    chosen = min(time for time in times if time is not None)
    rows = [
        TriedConfiguration(
            {"BLOCK": 64 << number, "num_warps": 4, "num_ctas": 1, "num_stages": 2}, time, time == chosen
        )
        for number, time in enumerate(times)
    ]
    return Autotuning("k", {"n": key}, tuple(rows), plain)


def script(configs: str) -> str:
    return SCRIPT.replace("{configs}", configs)


PINNED = 'triton.Config({"BLOCK": 128}, num_warps=4, num_stages=2)'


@pytest.mark.parametrize(
    ("configs", "offered"),
    [
        (
            SEVERAL_LINES,
            SEVERAL_LINES.replace("[\n", '[\n    triton.Config({"BLOCK": 512}, num_warps=4, num_stages=2),\n'),
        ),
        ("configs=[c, d]", 'configs=[triton.Config({"BLOCK": 512}, num_warps=4, num_stages=2), c, d]'),
        ("(c,)", '(triton.Config({"BLOCK": 512}, num_warps=4, num_stages=2), c,)'),
        ("configs=all()", 'configs=[triton.Config({"BLOCK": 512}, num_warps=4, num_stages=2), *(all())]'),
    ],
)
def test_the_choice_stands_alone_and_what_is_found_joins_the_list(configs: str, offered: str) -> None:
    source = read_triton_source(script(configs))
    choice = pin_choices(source, [tuning_of(30.0, 10.0, 20.0)])
    keyword = "configs=" if configs.startswith("configs") else ""
    assert choice.text == script(f"{keyword}[{PINNED}]") and not choice.refusals
    alone = read_triton_source(choice.text)
    parameters, refusal = list_parameters(alone, alone.functions_named("k")[0])
    assert refusal is None
    [block] = [parameter for parameter in parameters if parameter.name == "BLOCK"]
    found = offer_configurations(source, choice, write_values(alone, {block: 512}))
    assert found == script(offered)
    compile(found, "found", "exec")
    assert offer_configurations(source, choice, choice.text) == source.text


def test_a_choice_that_depends_on_the_arguments_or_has_a_hook_is_refused() -> None:
    source = read_triton_source(script("configs=all()"))
    for tunings in ([tuning_of(1.0, 2.0), tuning_of(2.0, 1.0, key=8)], [tuning_of(1.0, 2.0, plain=False)]):
        choice = pin_choices(source, tunings)
        assert choice.text == source.text and not choice.pinned and choice.refusals["k"].code == "autotuned"
    imported = source.text.replace("@triton.autotune", "@autotune")
    assert pin_choices(read_triton_source(imported), [tuning_of(1.0, 2.0)]).refusals
    named = f"from triton import Config, autotune\n{imported}"
    assert "[Config({" in pin_choices(read_triton_source(named), [tuning_of(1.0, 2.0)]).text


def test_what_was_tried_are_steps() -> None:
    steps = list(list_choices([tuning_of(30.0, 10.0, None)], ()))
    assert [(step.number, step.plan["BLOCK"], step.after_ns) for step in steps] == [
        (0, 64, 30.0),
        (1, 128, 10.0),
        (2, 256, None),
    ]
    assert [step.outcome for step in steps] == [StepOutcome.NOT_FASTER, StepOutcome.KEPT, StepOutcome.FAILED]
    assert all(step.before_ns == 10.0 for step in steps)
