"""Other problem sizes of a generated program, so that one build gives labels at several sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from hipsynth.core.errors import UsageError
from hipsynth.core.program import Expected, Program, ProgramRun, text_id
from hipsynth.source.arguments import with_defaults
from hipsynth.synth.generate import emit
from hipsynth.synth.generate.build import build_module, replay_program
from hipsynth.synth.generate.choices import Choices, ReplayError, Stream
from hipsynth.synth.generate.headers import find_template, template_of
from hipsynth.synth.generate.ir import Module
from hipsynth.synth.generate.oracle import expected_lines, is_affordable
from hipsynth.synth.generate.policy import Policy, PolicyError, default_policy
from hipsynth.synth.generate.types import IRError

TRIES = 10  # draws per wanted size
STEP = 1024  # sizes that do not fit are tried once more as multiples of this, which need no bounds check


def with_runs(program: Program, count: int, policy: Policy | None = None) -> Program:
    """The program with up to `count` runs: its default sizes, then others, distinct, drawn from the policy.

    A run's text is exactly the program's, up to the defaults: bounds checks, literals and types are the same. Programs
    whose text depends on their sizes get fewer runs.
    """
    stream = Choices(Stream("sizes", program.id))
    runs = [ProgramRun()]
    texts = {program.text}
    for _ in range(TRIES * (count - 1)):
        if len(runs) == count:
            break
        run = _draw_run(program, stream, policy or default_policy())
        if run is not None and (text := with_defaults(program.text, run.arguments)) not in texts:
            texts.add(text)
            runs.append(run)
    return program.with_runs(runs)


def _draw_run(program: Program, stream: Choices, policy: Policy) -> ProgramRun | None:
    template = find_template(template_of(program.family))
    sizes = {parameter.name for parameter in template.parameters if parameter.size}
    fixed = {
        name: value for name, value in program.params.items() if name not in sizes and isinstance(value, int | str)
    }
    try:
        params = policy.draw(template, stream, fixed)
    except PolicyError:
        return None
    wanted = {name: int(params[name]) for name in sizes}
    rounded = {name: max(1, value // STEP) * STEP if value > STEP else value for name, value in wanted.items()}
    return run_at(program, wanted) or (run_at(program, rounded) if rounded != wanted else None)


def run_at(program: Program, sizes: Mapping[str, int]) -> ProgramRun | None:
    """The run at these parameters; None if the family does not allow them or the program's text would differ in more
    than its defaults."""
    try:
        context, module = build_module(program.family, Choices(replay=program.choices), sizes=sizes)
        text = emit.render_program(find_template(template_of(program.family)), module, dict(context.params))
        arguments = _size_arguments(module)
        same = text == with_defaults(program.text, arguments)
    except (IRError, PolicyError, ReplayError, ValueError):
        return None
    return ProgramRun(arguments, dict(sizes)) if same and arguments else None


def expected_output(program: Program, run: ProgramRun) -> Expected | None:
    """The output that a generated program must print in a run, computed from its recorded choices.

    None if it is not known: for programs of another origin or of another version of the grammar, for a run whose
    arguments are not those of its parameters, and where the run is too large to be repeated on the host. A renamed copy
    prints what its base program prints.
    """
    if program.origin != "synthetic" or not program.choices:
        return None
    try:
        if text_id(replay_program(program.family, program.choices).text) != (program.lineage or program.id):
            return None
        module = build_module(program.family, Choices(replay=program.choices), sizes=run.params)[1]
    except (IRError, PolicyError, ReplayError, UsageError):
        return None
    if run.arguments not in ((), _size_arguments(module)):
        return None
    return expected_lines(module) if is_affordable(module) else None


def _size_arguments(module: Module) -> tuple[str, ...]:
    return tuple(str(int(size)) for size in module.arguments)


def shrink_program(program: Program, count: int = 1) -> Program:
    """The same code with smaller defaults, for tools that need quick programs: the `count` smallest of its other runs.

    It has no choices, since they give the text with the drawn sizes.
    """
    names = [parameter.name for parameter in find_template(template_of(program.family)).parameters if parameter.size]
    runs = sorted(program.runs[1:], key=lambda run: math.prod(run.params[name] for name in names))[:count]
    if not runs:
        return program
    text = with_defaults(program.text, runs[0].arguments)
    return replace(program, text=text, choices=(), runs=(ProgramRun(), *runs[1:]))
