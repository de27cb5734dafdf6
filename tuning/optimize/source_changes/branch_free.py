"""Choices in place of branches: where lanes of a wavefront take several branches, all of them wait for each, and a
branch takes longer than the few assignments in it.

`if (d < best) { second = best; best = d; } else if (d < second) { second = d; }`: the conditions are worked out first,
then each variable is chosen among its old and new values, in an order in which none is read after it was written. For
chains of branches that do nothing but assign names and numbers to variables of the kernel. A loop around them, whose
iterations no branch divides any more, is also unrolled, where that is faster.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.layout import find_depth, find_spaces, lay_out
from hipsynth.source.tokens import Span, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

NAMES = ("first_case", "second_case", "third_case", "fourth_case")
UNROLLED = 4
FEWEST_ASSIGNMENTS = 3  # of one branch alone: compilers choose among fewer by themselves
_NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?[fF]?|\.\d+(e[+-]?\d+)?[fF]?")
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!", "(", ")"})
_FLOATS = ("float", "double")
_QUALIFIERS = frozenset({"const", "volatile"})


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with one such chain of a slow kernel written as choices, for each that there is."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns:
            continue
        try:
            body = Body(program, kernel)
            body.check_plain(lambdas=True)
            changes = list(_list_edits(body, parse_statements(program.tokens, kernel.first, kernel.last), True, None))
        except NotUnderstood:
            continue
        for edits in changes:
            text = edit_text(program.unit.text, edits)
            yield SourceChange(kernel.name, text, "branches of a wavefront wait for each other")


CHANGER = SourceChanger("SQ_INSTS_BRANCH", list_changes, alternatives=True)


def _list_edits(
    body: Body, statements: Sequence[Statement], in_block: bool, loop: Statement | None
) -> Iterator[list[Edit]]:
    """The edits for each chain, alone and with its innermost loop unrolled. `in_block`: whether the statements are
    those of a block, where others may be put beside them."""
    for statement in statements:
        chain = _find_chain(body, statement)
        if chain is None:
            inner = {"for": statement, "while": None}.get(statement.kind, loop)
            yield from _list_edits(body, statement.parts, statement.kind == "block", inner)
            continue
        edit = _write_chain(body, statement, chain, in_block)
        yield [edit]
        if loop is not None:
            yield [edit, *_unroll_loop(body, loop)]


def _find_chain(body: Body, statement: Statement) -> _Chain | None:
    """The chain of branches that a statement is, if it is worth to be written in another way."""
    if statement.kind != "if":
        return None
    try:
        chain = _read_chain(body, statement)
    except NotUnderstood:
        return None
    return chain if chain.is_worth_it else None


def _unroll_loop(body: Body, loop: Statement) -> Iterator[Edit]:
    text, start = body.program.unit.text, body.tokens[loop.start].start
    above, _, indent = text[:start].decode(errors="surrogateescape").rpartition("\n")
    if not indent.strip() and not above.rpartition("\n")[2].strip().startswith("#"):
        yield Edit(start, start, f"#pragma unroll {UNROLLED}\n{indent}")


@dataclass(frozen=True)
class _Branch:
    """`condition`: None of an `else`; `values`: the words of what each variable gets, by its name, in their order."""

    condition: Span | None
    values: Mapping[str, str]


@dataclass(frozen=True)
class _Chain:
    branches: tuple[_Branch, ...]

    @property
    def is_worth_it(self) -> bool:
        conditions = sum(branch.condition is not None for branch in self.branches)
        return conditions > 1 or sum(len(branch.values) for branch in self.branches) >= FEWEST_ASSIGNMENTS

    def order(self) -> list[str]:
        """The variables, each before those whose old values it gets. Raises NotUnderstood where they exchange."""
        waiting = list(dict.fromkeys(name for branch in self.branches for name in branch.values))
        reads = {
            name: {branch.values[name].partition(".")[0] for branch in self.branches if name in branch.values} - {name}
            for name in waiting
        }
        ordered: list[str] = []
        while waiting:
            free = [name for name in waiting if not any(name in reads[other] for other in waiting)]
            if not free:
                raise NotUnderstood("variables that are exchanged")
            ordered.append(free[0])
            waiting.remove(free[0])
        return ordered


def _read_chain(body: Body, statement: Statement) -> _Chain:
    """`if ... else if ... else ...`. Raises NotUnderstood."""
    branches: list[_Branch] = []
    rest: Statement | None = statement
    while rest is not None:
        if rest.kind != "if":
            branches.append(_Branch(None, _read_values(body, rest)))
            break
        if body.tokens[rest.start + 1].text == "constexpr":
            raise NotUnderstood("a branch of the compiler's")
        _check_condition(body, rest.head, is_first=not branches)
        branches.append(_Branch(rest.head, _read_values(body, rest.parts[0])))
        rest = rest.parts[1] if len(rest.parts) > 1 else None
    if sum(branch.condition is not None for branch in branches) > len(NAMES):
        raise NotUnderstood("a long chain")
    return _Chain(tuple(branches))


def _check_condition(body: Body, span: Span, is_first: bool) -> None:
    """Later conditions are worked out although an earlier one holds: they are comparisons of names and numbers."""
    tokens = body.tokens
    for i in range(*span):
        text = tokens[i].text
        if text in ASSIGN or text in STEP:
            raise NotUnderstood("a condition that changes something")
        if is_first or text in _COMPARISONS or _NUMBER.fullmatch(text):
            continue
        if not tokens[i].identifier or tokens[i + 1].text in ("(", "[", ".", "->") or _find_type(body, i) is None:
            raise NotUnderstood("a condition that is worked out only after others")


def _read_values(body: Body, statement: Statement) -> dict[str, str]:
    """The values that a branch gives to variables. Raises NotUnderstood where it does anything else."""
    tokens = body.tokens
    values: dict[str, str] = {}
    for part in statement.parts if statement.kind == "block" else (statement,):
        at, value = part.start, (part.start + 2, part.end - 1)
        is_name = part.kind == "simple" and body.local(tokens[at]) >= 0 and tokens[at].start not in body.locals
        if not is_name or tokens[at + 1].text != "=" or value[1] != value[0] + 1 or tokens[at].text in values:
            raise NotUnderstood("a branch that does more than to assign variables")
        if tokens[value[0]].text in values or not _fits_variable(body, at, value[0]):
            raise NotUnderstood("a value that the branch itself changes, or of another type")
        values[tokens[at].text] = tokens[value[0]].text
    return values


def _fits_variable(body: Body, variable: int, value: int) -> bool:
    """Whether a choice between the old and the new value has the variable's values, whatever their common type."""
    kind, text = _find_type(body, variable), body.tokens[value].text
    if kind is None:
        return False
    if _NUMBER.fullmatch(text):
        return kind in _FLOATS or text.isdigit()
    value_kind = _find_type(body, value)
    return value_kind == kind or (kind, value_kind) == ("double", "float")


def _find_type(body: Body, at: int) -> str | None:
    """The words of the type of a variable or parameter that is a number; None for others."""
    place = body.local(body.tokens[at])
    if place >= 0:
        if body.is_pointer(place) or body.is_in_lds(place):
            return None
        first, name = body.find_declared_type(place)
        words = [token.text for token in body.tokens[first:name]]
        words = words[words.index("(") + 1 :] if "(" in words else words  # of a loop's variable
        words = _before_value(words)
        return " ".join(word for word in words if word not in _QUALIFIERS) or None
    named = [parameter for parameter in body.kernel.parameters if parameter.name == body.tokens[at].text]
    return " ".join(named[0].type.replace("const", "").split()) if named and not named[0].base else None


def _before_value(words: Sequence[str]) -> list[str]:
    """The type of `double a = 1, b`, of which b is declared."""
    return list(itertools.takewhile(lambda word: word not in ("=", ","), words))[: _type_length(words)]


def _type_length(words: Sequence[str]) -> int:
    """How many words the type of a declaration has, whose first name is followed by a value or a comma."""
    ends = [i for i, word in enumerate(words) if word in ("=", ",")]
    return ends[0] - 1 if ends else len(words)


def _write_chain(body: Body, statement: Statement, chain: _Chain, in_block: bool) -> Edit:
    program, tokens = body.program, body.tokens
    conditions = [branch.condition for branch in chain.branches if branch.condition is not None]
    names = [choose_free_name(name, program.text) for name in NAMES[: len(conditions)]]
    texts = [text_between(program.unit, tokens, *condition) for condition in conditions]
    declared = ", ".join(f"{name} = {text}" for name, text in zip(names, texts, strict=True))
    lines = [f"const bool {declared};"]
    lines += [f"{variable} = {_write_choice(chain, names, variable)};" for variable in chain.order()]
    if not in_block:
        lines = ["{", *lines, "}"]
    written = program.unit.text[tokens[body.kernel.first].start : tokens[body.kernel.last].start]
    start, end = tokens[statement.start].start, tokens[statement.end - 1].end
    spaces = find_spaces(written.decode(errors="surrogateescape"))
    laid = lay_out("\n".join(lines), find_depth(program.unit.text, start, spaces), spaces)
    return Edit(start, end, laid.strip())


def _write_choice(chain: _Chain, names: Sequence[str], variable: str) -> str:
    """`first_case || second_case ? a : third_case ? b : variable`."""
    values = [branch.values.get(variable, variable) for branch in chain.branches]
    last = values.pop() if chain.branches[-1].condition is None else variable
    cases: list[tuple[list[str], str]] = []
    for name, value in zip(names, values, strict=True):
        if cases and cases[-1][1] == value:
            cases[-1][0].append(name)
        else:
            cases.append(([name], value))
    while cases and cases[-1][1] == last:
        cases.pop()
    chosen = [f"{' || '.join(case)} ? {value}" for case, value in cases]
    return " : ".join([*chosen, last])
