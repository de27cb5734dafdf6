"""Serial sections: `if (threadIdx.x == 0) { ... }` whose loops sum up what the group left in the LDS or in memory.

All work-items of the group share the loops, and join what they found; the first one stores it, as before. The section
is a statement of the kernel itself, before which none returns, so that all work-items come to it. The size of groups
is a number, and whole wavefronts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit
from hipsynth.source.tokens import Span, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.group_statements import list_group_changes, spell_expression
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger
from hipsynth.tuning.optimize.transformations.split_loops.first_places import FIRST_OF_LANES
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import LANE, LANES, SharedLoop, edit_loop
from hipsynth.tuning.optimize.transformations.split_loops.shared_loops import check_effects, read_joined_loop

_INDEX = "threadIdx.x"


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with the serial sections of a kernel shared, for each kernel that has some."""
    why = "one work-item of a group works, and the others wait for it"
    yield from list_group_changes(program, _edit_section, why, LANES + FIRST_OF_LANES)


CHANGER = SourceChanger("SQ_WAIT_INST_ANY", list_changes)


def _edit_section(body: Body, statement: Statement, lanes: int) -> Iterator[Edit]:
    if _is_serial(body, statement):
        yield from _Section(body, statement, lanes).edits()


def _is_serial(body: Body, statement: Statement) -> bool:
    """Whether the first work-item of a group alone executes a block."""
    if statement.kind != "if" or len(statement.parts) != 1 or statement.parts[0].kind != "block":
        return False
    sides = split_at(body.tokens, *statement.head, "==")
    texts = [spell_expression(body, side) for side in sides]
    return len(sides) == 2 and "0" in texts and _INDEX in texts


@dataclass
class _Section:
    body: Body
    statement: Statement
    lanes: int
    stored: set[str] = field(default_factory=set)  # names of what the first work-item stores

    def edits(self) -> Iterator[Edit]:
        """The edits of the section; none if it has no loop. Raises NotUnderstood."""
        tokens, block = self.body.tokens, self.statement.parts[0]
        edits: list[Edit] = []
        loops = 0
        for part in block.parts:
            loop = read_joined_loop(self.body, part) if part.kind == "for" else None
            if loop is not None and self._is_inside(loop):
                self._check_reads(part)
                edits += edit_loop(self.body, loop, self.lanes)
                loops += 1
            elif part.kind == "simple" and self._declares(part):
                self._check_reads(part)
            elif part.kind == "simple":
                edits.append(self._edit_store(part))
            else:
                raise NotUnderstood("a section with other statements")
        if loops:
            start, end = tokens[self.statement.start].start, tokens[block.start].end
            yield Edit(start, end, f"{{\n    const unsigned {LANE} = {_INDEX};")
            yield from edits

    def _is_inside(self, loop: SharedLoop) -> bool:
        """Whether a loop joins variables of the section alone."""
        return all(self._belongs(place) for place in loop.joined)

    def _belongs(self, place: int) -> bool:
        tokens = self.body.tokens
        return tokens[self.statement.start].start <= place < tokens[self.statement.end - 1].start

    def _declares(self, part: Statement) -> bool:
        """Whether a statement declares variables, and calls nothing that may have an effect."""
        tokens = self.body.tokens[part.start : part.end]
        declared = any(token.start in self.body.locals and self._belongs(token.start) for token in tokens)
        return declared and not any("tomic" in token.text for token in tokens)

    def _check_reads(self, part: Statement) -> None:
        """What all work-items execute may read nothing that the first one has stored in the section."""
        if self.stored & {self.body.tokens[i].text for i in range(*part.span)}:
            raise NotUnderstood("a value that the first work-item stored")
        check_effects(self.body, part)
        if not self._is_uniform(part.span, set()):
            raise NotUnderstood("a value of which each work-item has its own")

    def _is_uniform(self, span: Span, checked: set[int]) -> bool:
        """Whether all work-items find the same values in a piece of code: it names neither their index nor variables
        that do, or that change."""
        tokens = self.body.tokens
        for i in range(*span):
            place = self.body.local(tokens[i])
            if tokens[i].text == "threadIdx":
                return False
            if place < 0 or place in checked or self._belongs(place) or self.body.is_in_lds(place):
                continue
            checked.add(place)
            value = self.body.constants.get(place)
            if value is None or not self._is_uniform(value, checked):
                return False
        return True

    def _edit_store(self, part: Statement) -> Edit:
        """A statement that the first work-item executes alone: it may change memory and the LDS."""
        tokens, start = self.body.tokens, self.body.tokens[part.start].start
        for i in range(*part.span):
            if tokens[i].identifier and self.body.assigns(i, part.end):
                place = self.body.local(tokens[i])
                if place >= 0 and (self._belongs(place) or not self.body.is_in_lds(place)):
                    raise NotUnderstood("a variable of the work-item that is assigned")
                self.stored.add(tokens[i].text)
        if any("tomic" in tokens[i].text for i in range(*part.span)):
            self.stored |= {tokens[i].text for i in range(*part.span) if tokens[i].identifier}
        return Edit(start, start, f"if ({LANE} == 0) ")
