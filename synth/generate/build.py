"""Builds one program from its choice sequence."""

from __future__ import annotations

from collections.abc import Mapping

from hipsynth.core.program import Program
from hipsynth.synth.generate import emit
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.families import builder_of
from hipsynth.synth.generate.headers import FamilyTemplate, ParameterValues, find_template, template_of
from hipsynth.synth.generate.ir import Module
from hipsynth.synth.generate.policy import Policy, PolicyError, default_policy


def build_module(
    family: str, choices: Choices, overrides: ParameterValues | None = None, sizes: Mapping[str, int] | None = None,
    policy: Policy | None = None,
) -> tuple[Context, Module]:  # fmt: skip
    """The typed program of one choice sequence. `overrides` fix parameters instead of drawing them; `sizes` replace
    problem sizes after they were drawn.

    Raises UsageError for an unknown family, BadInput for an unknown parameter, PolicyError for sizes that the family
    does not allow, IRError for an invalid program, and ReplayError for a recorded sequence that does not fit.
    """
    family = template_of(family)
    template = find_template(family)
    policy = policy or default_policy()
    params = {**policy.draw(template, choices, overrides or {}), **(sizes or {})}
    if sizes and (broken := _size_refusal(template, sizes) or template.check(params)):
        raise PolicyError(f"{family}: these sizes violate {broken!r}")
    context = Context(params, choices, policy)
    module = builder_of(family)(context)
    choices.finish()
    return context, module


def _size_refusal(template: FamilyTemplate, sizes: Mapping[str, int]) -> str:
    """The first size that is not a value of a size parameter, "" if all are."""
    parameters = {parameter.name: parameter for parameter in template.parameters if parameter.size}
    bad = (
        f"{name} = {value}"
        for name, value in sizes.items()
        if name not in parameters or not parameters[name].accepts(value)
    )
    return next(bad, "")


def make_program(
    family: str, choices: Choices, overrides: ParameterValues | None = None, policy: Policy | None = None
) -> Program:
    """One program of a family; errors as in `build_module`. What it must print: `problem_sizes`."""
    family = template_of(family)
    context, module = build_module(family, choices, overrides, policy=policy)
    text = emit.render_program(find_template(family), module, dict(context.params))
    name, label = module.kernels[0].name, composed_family(family, context.composition)
    return Program(
        text=text, origin="synthetic", family=label, name=name, params=dict(context.params), choices=choices.recorded
    )


def composed_family(family: str, composition: str) -> str:
    """The family in a program's record: the template's name, and after a slash the composition, if it has one."""
    return f"{family}/{composition}" if composition else family


def replay_program(family: str, recorded: tuple[int, ...]) -> Program:
    """The program of a family for the choice sequence `Program.choices`; raises ReplayError if it does not fit."""
    return make_program(family, Choices(replay=recorded))
