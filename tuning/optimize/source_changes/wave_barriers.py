"""Barriers that order what one wavefront does: the last steps of a tree in the LDS, `if (threadIdx.x < 32) ...`, take
work-items of the first wavefront of a group alone, for which the others need not wait.

Two such steps and a barrier between them: the barrier becomes one of the wavefront. In a loop that halves a distance,
`if (threadIdx.x < distance) ...; __syncthreads();`, it does so where the distance is at most a wavefront's, and one
barrier follows the loop. A barrier beside anything that other work-items do stays. Groups have one dimension, so that
the first wavefront has the work-items before 64.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.layout import read_indent
from hipsynth.source.tokens import Span, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_constants import find_constants, read_number
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.helper_text import find_head, select_helpers
from hipsynth.tuning.optimize.launch_shape import has_one_along
from hipsynth.tuning.optimize.source_changes.group_statements import spell_expression
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import WAVE

INDEX, BARRIER, OWN_BARRIER = "threadIdx.x", "__syncthreads", "sync_wavefront();"
HELPERS = """// Orders what the work-items of a wavefront do; others do not wait.
__device__ __forceinline__ void sync_wavefront() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

"""
_NAME = re.compile(r"\bsync_wavefront\b")
_HALVES = frozenset({">>=1", "/=2", "=@>>1", "=@/2"})  # what follows the variable; @: the variable


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with such barriers of its slow kernels replaced, if they have any."""
    edits: list[Edit] = []
    kernels = []
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if (
            run is None
            or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns
            or not _has_rows(program, kernel, run.block)
        ):
            continue
        try:
            kernel_edits = list(_Barriers(Body(program, kernel), find_constants(program)).edits())
        except NotUnderstood:
            continue
        edits += kernel_edits
        kernels += [kernel] if kernel_edits else []
    if kernels and not _NAME.search(program.text):
        head = min(find_head(program.unit.text, kernel.start) for kernel in kernels)
        edits.append(Edit(head, head, select_helpers(HELPERS, OWN_BARRIER, program.text)))
        text = edit_text(program.unit.text, edits)
        why = "all wavefronts of a group wait for steps of the first one"
        yield SourceChange(" + ".join(kernel.name for kernel in kernels), text, why)


CHANGER = SourceChanger("SQ_WAIT_INST_ANY", list_changes)


def _has_rows(program: ParsedProgram, kernel: KernelDefinition, block: tuple[int, int, int]) -> bool:
    """Whether all launches of a kernel have groups of one dimension, as the one that was timed."""
    return block[1:] == (1, 1) and all(
        has_one_along(program, launch.block, axis) for launch in kernel.launches for axis in (1, 2)
    )


@dataclass(frozen=True)
class _Threshold:
    """`value >= least`, of a value that is the same for the whole group."""

    value: str
    least: int


@dataclass(frozen=True)
class _BarrierStep:
    """A statement of a list, in the order of execution. `kind`: "barrier", "wave" for what the first wavefront alone
    does, "group" for all else; `conditions`: those under which it is executed."""

    kind: str
    statement: Statement
    conditions: tuple[_Threshold, ...] = ()


@dataclass
class _Barriers:
    body: Body
    constants: dict[str, int]

    def edits(self) -> Iterator[Edit]:
        """The edits of a kernel. Raises NotUnderstood."""
        self.body.check_plain(lambdas=True)
        kernel, places = self.body.kernel, set()
        statements = parse_statements(self.body.tokens, kernel.first, kernel.last)
        for statements_of_block in [statements, *_list_blocks(statements)]:
            for edit in itertools.chain(self._edit_list(statements_of_block), self._edit_loops(statements_of_block)):
                if edit.start not in places:  # a list that is part of another one is looked at in both
                    places.add(edit.start)
                    yield edit

    # --- lists of statements ------------------------------------------------------------------------------------------

    def _edit_list(self, statements: Sequence[Statement]) -> Iterator[Edit]:
        steps = [step for statement in statements for step in self._list_steps(statement, ())]
        thresholds = sorted({each for step in steps for each in step.conditions}, key=lambda each: each.least)
        if len({each.value for each in thresholds}) > 1:
            return
        for step in steps:
            if step.kind == "barrier" and self._orders_one_wave(step, steps, thresholds):
                tokens = self.body.tokens
                yield Edit(tokens[step.statement.start].start, tokens[step.statement.end - 1].end, OWN_BARRIER)

    def _list_steps(self, statement: Statement, conditions: tuple[_Threshold, ...]) -> Iterator[_BarrierStep]:
        if self._is_barrier(statement):
            yield _BarrierStep("barrier", statement, conditions)
        elif self._is_of_first_wave(statement):
            yield _BarrierStep("wave", statement, conditions)
        elif statement.kind == "if" and len(statement.parts) == 1 and (threshold := self._read_threshold(statement)):
            inside = statement.parts[0]
            for part in inside.parts if inside.kind == "block" else (inside,):
                yield from self._list_steps(part, (*conditions, threshold))
        else:
            yield _BarrierStep("group", statement, conditions)

    def _orders_one_wave(
        self, barrier: _BarrierStep, steps: Sequence[_BarrierStep], thresholds: Sequence[_Threshold]
    ) -> bool:
        """Whether a barrier stands between steps of the first wavefront alone, up to the next barrier on each side,
        whichever thresholds the value reaches."""
        for reached in range(len(thresholds) + 1):
            holds = set(thresholds[:reached])
            executed = [step for step in steps if holds.issuperset(step.conditions)]
            if barrier not in executed:
                continue
            at = executed.index(barrier)
            for side in (executed[at + 1 :], executed[:at][::-1]):
                between = list(itertools.takewhile(lambda step: step.kind != "barrier", side))
                if len(between) in (0, len(side)) or any(step.kind != "wave" for step in between):
                    return False
        return True

    def _is_barrier(self, statement: Statement) -> bool:
        words = [token.text for token in self.body.tokens[slice(*statement.span)]]
        return words == [BARRIER, "(", ")", ";"]

    def _is_of_first_wave(self, statement: Statement) -> bool:
        """Whether only work-items before 64 do anything: `if (threadIdx.x < 32) ...`, or `== 0`."""
        tokens, body = self.body.tokens, self.body
        if statement.kind != "if" or len(statement.parts) != 1 or self._leaves(statement.parts[0]):
            return False
        for sign, most in (("<", WAVE), ("<=", WAVE - 1), ("==", WAVE - 1)):
            sides = split_at(tokens, *statement.head, sign)
            if len(sides) == 2 and spell_expression(body, sides[0]) == INDEX:
                number = self._read_constant(sides[1])
                return number is not None and number <= most
        return False

    def _leaves(self, statement: Statement) -> bool:
        """Whether a statement jumps, or has a barrier."""
        jumps = any(part.kind == "jump" for part in statement.inner())
        return jumps or self.body.program.has_barrier(*statement.span)

    def _read_threshold(self, statement: Statement) -> _Threshold | None:
        """`if (value >= number)` or `if (value > number)` where the whole group finds the same value."""
        tokens = self.body.tokens
        for sign, more in ((">=", 0), (">", 1)):
            sides = split_at(tokens, *statement.head, sign)
            number = self._read_constant(sides[1]) if len(sides) == 2 else None
            if number is not None and self._is_uniform(sides[0]):
                return _Threshold(spell_expression(self.body, sides[0]), number + more)
        return None

    def _is_uniform(self, span: Span) -> bool:
        """Whether an expression is a parameter of the kernel or of its template, a constant, or a group's size."""
        tokens, kernel = self.body.tokens, self.body.kernel
        words = "".join(token.text for token in tokens[slice(*span)])
        names = {parameter.name for parameter in kernel.parameters if not parameter.base} | set(kernel.template_names)
        places = (i for i in range(kernel.first, kernel.last) if tokens[i].text == words)
        stays = not any(self.body.assigns(i, kernel.last) for i in places)
        return words == "blockDim.x" or (words in names and stays)

    def _read_constant(self, span: Span) -> int | None:
        words = "".join(token.text for token in self.body.tokens[slice(*span)])
        return self.constants.get(words, read_number(words))

    # --- loops --------------------------------------------------------------------------------------------------------

    def _edit_loops(self, statements: Sequence[Statement]) -> Iterator[Edit]:
        """`for (int s = n; s > 0; s /= 2) { if (threadIdx.x < s) ...; __syncthreads(); }`."""
        tokens = self.body.tokens
        for loop in statements:
            name = self._read_halved(loop)
            if not name:
                continue
            barrier, behind = loop.parts[0].parts[1], tokens[loop.end - 1].end
            start, end = tokens[barrier.start].start, tokens[barrier.end - 1].end
            yield Edit(start, end, f"if ({name} > {WAVE}) __syncthreads(); else {OWN_BARRIER}")
            indent = read_indent(self.body.program.unit.text, tokens[loop.start].start)
            yield Edit(behind, behind, f"\n{indent}{BARRIER}();")

    def _read_halved(self, loop: Statement) -> str:
        """The name of the distance that a loop halves down to 1, for steps of the work-items before it; else ""."""
        tokens, body = self.body.tokens, self.body
        if loop.kind != "for" or loop.parts[0].kind != "block" or len(loop.parts[0].parts) != 2:
            return ""
        step, barrier = loop.parts[0].parts
        parts = split_at(tokens, *loop.head, ";")
        declared = [tokens[i].text for i in range(*parts[0]) if tokens[i].start in body.locals]
        if len(parts) != 3 or len(declared) != 1 or not self._is_barrier(barrier):
            return ""
        (name,) = declared
        condition, change = ("".join(token.text for token in tokens[slice(*part)]) for part in parts[1:])
        halves = change.startswith(name) and change.removeprefix(name).replace(name, "@") in _HALVES
        counts = condition in (f"{name}>0", f"{name}>=1", f"{name}!=0", f"0<{name}")
        guarded = step.kind == "if" and len(step.parts) == 1 and not self._leaves(step.parts[0])
        if not (halves and counts and guarded):
            return ""
        sides = split_at(tokens, *step.head, "<")
        texts = [spell_expression(body, side) for side in sides]
        changed = any(body.assigns(i, step.end) for i in range(*step.span) if tokens[i].text == name)
        return name if texts == [INDEX, name] and not changed else ""


def _list_blocks(statements: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    for statement in statements:
        for part in statement.inner():
            if part.kind == "block":
                yield part.parts
