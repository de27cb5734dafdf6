"""One pass over a row in place of two: a later loop over the elements of an earlier one is left out, where what it adds
up follows from sums of the earlier loop.

- Softmax: a loop finds the largest element, a later one adds `exp(element - largest)`. The first then also keeps the
  sum relative to the largest element so far, and scales it anew where that grows, as FlashAttention does.
- Variance: a loop adds the elements, a later one `(element - mean)^2`. The first then also adds distances from the
  row's first element, and their squares. As that is one of the elements, what cancels is no more than the result times
  the number of elements: the error has the bound of the sum's own.

Between the two loops anything may happen that leaves the elements alone: lanes that join their parts through shuffles
or the LDS. What a lane adds is right for any largest element and any mean, not only for its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, Body
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.device_functions import find_forwarded
from hipsynth.tuning.optimize.source_changes.lds_order import needs_barrier
from hipsynth.tuning.optimize.source_changes.row_loops import RowLoop, RowReader, read_source
from hipsynth.tuning.optimize.source_changes.row_updates import (
    AddedTerms,
    read_added,
    read_largest,
    read_square,
    same_words,
)
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger

_EXPONENTIALS = frozenset({"expf", "__expf", "exp", "exp2f", "exp2"})
_SUFFIX = {"float": "f", "double": ""}
_NAN_NOTE = "// This is not a number where all elements are -INFINITY."
BATCH = 4  # elements that a lane compares before it scales its sum


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with the first such pair of loops of a kernel, or of a function of one, changed."""
    for function in (*program.kernels, *program.functions):
        try:
            body = Body(program, function)
            tree = parse_statements(program.tokens, function.first, function.last)
        except NotUnderstood:
            continue
        for edits, why in _list_pairs(RowReader(body), tree):
            text = edit_text(program.unit.text, join_insertions(edits))
            yield SourceChange(function.name.removesuffix("_item"), text, why)
            break


CHANGER = SourceChanger("TCP_TOTAL_CACHE_ACCESSES", list_changes)


def _list_pairs(reader: RowReader, tree: Sequence[Statement]) -> Iterator[tuple[list[Edit], str]]:
    for loops in reader.list_rows(tree):
        for first, second in itertools.combinations(loops, 2):
            later = loops[loops.index(second) + 1 :]
            for find in (_find_exponentials, _find_deviations):
                try:
                    pair = find(reader, first, second, later)
                except NotUnderstood:
                    continue
                if pair is not None:
                    yield pair


# --- softmax ---------------------------------------------------------------------------------------------------------


def _find_exponentials(
    reader: RowReader, first: RowLoop, second: RowLoop, later: Sequence[RowLoop]
) -> tuple[list[Edit], str] | None:
    largest = read_largest(reader, first)
    terms = read_added(reader, second)
    if largest is None or terms is None:
        return None
    place, element = largest
    exponential = _read_exponential(reader, second, terms.value)
    if exponential is None:
        return None
    call, inside = exponential
    shift = _subtrahend(reader, first, second, element, inside)
    if shift is None:
        return None
    kind = _read_kind(reader, place, terms.place)
    start = _check_pair(reader, first, second, element, place, shift, terms)
    writer = _OnePassWriter(reader, first, second, kind, _name_of(reader, place))
    why = "the sum of exponentials follows from the pass that finds the largest element"
    edits = [*writer.write_online(element, call, start, terms.place, shift)]
    if terms.store is not None:
        third = _find_division(reader, second, later, terms.store)
        names = [*reader.list_names(first, element), *reader.list_names(second, shift)]
        stores = (terms.store, third.target)
        reader.check_unchanged((second.statement.end, third.loop.statement.end), names, stores)
        edits.append(third.write_store(reader, second, terms))
    return edits, why


def _read_exponential(reader: RowReader, loop: RowLoop, value: Span) -> tuple[str, Span] | None:
    """The function in `expf(...)`, or in a call of one that returns that, and what is inside."""
    tokens, start = reader.body.tokens, value[0]
    at = start + 2 if [t.text for t in tokens[start : start + 2]] == ["std", "::"] else start
    opening = reader.find_arguments(at)
    called = find_forwarded(reader.body.program, tokens[at].text) or {tokens[at].text}
    if opening < 0 or not called <= _EXPONENTIALS or find_closing(tokens, opening) != value[1] - 1:
        return None
    return read_source(reader.body, (start, opening)), reader.resolve(loop, (opening + 1, value[1] - 1))


def _subtrahend(reader: RowReader, first: RowLoop, second: RowLoop, element: Span, span: Span) -> Span | None:
    """What is subtracted in `element - something`."""
    tokens = reader.body.tokens
    minus = [a - 1 for a, _ in split_at(tokens, *span, "-")[1:]]
    if not minus or minus[-1] == span[0]:
        return None
    if reader.read_words(first, element) != reader.read_words(second, (span[0], minus[-1])):
        return None
    return minus[-1] + 1, span[1]


@dataclass(frozen=True)
class _Division:
    """A loop whose one statement divides (or multiplies) the stored terms."""

    loop: RowLoop
    target: Span
    rest: Span  # the sign and the divisor

    def write_store(self, reader: RowReader, second: RowLoop, terms: AddedTerms) -> Edit:
        tokens = reader.body.tokens
        (update,) = self.loop.updates
        sign, divisor = tokens[self.rest[0]].text[0], read_source(reader.body, (self.rest[0] + 1, self.rest[1]))
        value = reader.write_text(second, terms.value)
        plain = self.rest[1] - self.rest[0] == 2 or find_closing(tokens, self.rest[0] + 1) == self.rest[1] - 1
        by = divisor if plain else f"({divisor})"
        text = f"{read_source(reader.body, self.target)} = {value} {sign} {by};"
        return Edit(tokens[update.start].start, tokens[update.end - 1].end, text)


def _find_division(reader: RowReader, second: RowLoop, later: Sequence[RowLoop], store: Span) -> _Division:
    """The later loop that divides what the second one stored; nothing else may use the array. Raises NotUnderstood."""
    tokens, body = reader.body.tokens, reader.body
    array = tokens[store[0]].text
    for loop in later:
        if len(loop.updates) != 1 or loop.values or reader.read_head(loop) != reader.read_head(second):
            continue
        (update,) = loop.updates
        close = find_closing(tokens, update.start + 1) if tokens[update.start + 1].text == "[" else update.start
        target = (update.start, close + 1)
        if [t.text for t in tokens[slice(*target)]] != [t.text for t in tokens[slice(*store)]]:
            continue
        rest = (close + 1, update.end - 1)
        if tokens[rest[0]].text == "=" and same_words(reader, (rest[0] + 1, rest[0] + 1 + store[1] - store[0]), store):
            rest = (rest[0] + 1 + store[1] - store[0], rest[1])
        uses = [i for i in range(body.kernel.first, body.kernel.last) if tokens[i].text == array]
        counted = sum(a <= i < b for i in uses for a, b in (_whole(second), _whole(loop)))
        declared = sum(tokens[i].start in body.locals for i in uses)
        if tokens[rest[0]].text in ("/=", "*=", "/", "*") and counted + declared == len(uses):
            return _Division(loop, target, rest)
    raise NotUnderstood(f"{array} is used otherwise")


def _whole(loop: RowLoop) -> Span:
    return loop.statement.start, loop.statement.end


# --- variance --------------------------------------------------------------------------------------------------------


def _find_deviations(
    reader: RowReader, first: RowLoop, second: RowLoop, later: Sequence[RowLoop]
) -> tuple[list[Edit], str] | None:
    added, squares = read_added(reader, first), read_added(reader, second)
    if added is None or squares is None or added.store or squares.store:
        return None
    deviation = read_square(reader, second, squares.value)
    if deviation is None:
        return None
    mean = _subtrahend(reader, first, second, added.value, deviation)
    if mean is None:
        return None
    kind = _read_kind(reader, squares.place, added.place)
    if _check_pair(reader, first, second, added.value, added.place, mean, squares):
        raise NotUnderstood("a sum that begins with an element")
    writer = _OnePassWriter(reader, first, second, kind, _name_of(reader, squares.place))
    why = "the sum of squared deviations follows from the pass that adds the elements"
    return [*writer.write_shifted(added.value, added.place, squares.place, mean)], why


# --- both ------------------------------------------------------------------------------------------------------------


def _read_kind(reader: RowReader, place: int, other: int) -> str:
    """The type of two sums: float, double, or another name of these. Raises NotUnderstood for others."""
    kind = reader.read_type(place)
    if reader.body.resolve_type(kind) not in _SUFFIX or reader.read_type(other) != kind:
        raise NotUnderstood("sums of another type")
    return kind


def _name_of(reader: RowReader, place: int) -> str:
    return next(token.text for token in reader.body.tokens if token.start == place)


def _check_pair(
    reader: RowReader, first: RowLoop, second: RowLoop, element: Span, place: int, shift: Span, terms: AddedTerms
) -> bool:
    """Whether the first loop has to begin where the second one does, at the element that its variable has already.

    Raises NotUnderstood if the loops do not run over the same elements, or these may change."""
    body, tokens = reader.body, reader.body.tokens
    begins_later = reader.read_head(first) != reader.read_head(second)
    if begins_later and not _has_first_element(reader, first, second, element, place):
        raise NotUnderstood("loops over other elements")
    inside = body.changed(_whole(second))
    if any(body.local(tokens[i]) in inside for i in range(*shift)):
        raise NotUnderstood("what is subtracted changes from element to element")
    names = [*reader.list_names(first, element)]
    names += [i for i in range(*second.statement.head) if tokens[i].identifier]
    allowed = {first.variable, second.variable}
    outside = [i for i in names if body.local(tokens[i]) not in allowed]
    stores = (terms.store,) if terms.store else ()
    reader.check_unchanged((first.statement.start, second.statement.end), outside, stores)
    if any(body.local(tokens[i]) in (place, terms.place) for i in names):
        raise NotUnderstood("elements that depend on the result")
    return begins_later


def _has_first_element(reader: RowReader, first: RowLoop, second: RowLoop, element: Span, place: int) -> bool:
    """Whether the loops differ only in that the first one begins at 1, and its variable at the element at 0."""
    tokens, body = reader.body.tokens, reader.body
    words = reader.read_head(first), reader.read_head(second)
    at = words[0].index("=") + 1
    if [head[:at] + head[at + 1 :] for head in words] != [words[0][:at] + words[0][at + 1 :]] * 2:
        return False
    declared = body.find_declaration(place)
    assigned = [i for i in range(declared + 1, first.statement.start) if body.local(tokens[i]) == place]
    if (words[0][at], words[1][at]) != ("1", "0") or tokens[declared + 1].text != "=" or assigned:
        return False
    end = next(i for i in range(declared, first.statement.start) if tokens[i].text in (";", ","))
    begin = " ".join(t.text for t in tokens[declared + 2 : end])
    wanted = " ".join("0" if word == "@" else word for word in reader.read_words(first, element))
    return begin in (wanted, wanted.replace(" + 0 ", " "))


@dataclass(frozen=True)
class _OnePassWriter:
    """Writes the first loop with more sums, and what stands for the second. `name`: the variable that these are of."""

    reader: RowReader
    first: RowLoop
    second: RowLoop
    kind: str  # float, double or another name of these
    name: str

    def write_online(self, element: Span, call: str, begins_later: bool, place: int, shift: Span) -> Iterator[Edit]:
        """The first loop over BATCH elements at a time: one more exponential for all of them."""
        name, kind, reader = self.name, self.kind, self.reader
        sum_name, own_name = self._take_name("sum"), self._take_name("own")
        note = f"// The sum of {call}(x - {name}) for the elements so far: scaled anew where {name} grows."
        moved = self._changes_between(name) or read_source(reader.body, shift) != name
        in_block = self.first.sibling is not self.first.statement
        declared = f"{kind} {sum_name} = 0" + (f", {own_name}" if moved and in_block else "")
        lines = self._write_batches(element, call, "0" if begins_later else "")
        if moved:
            lines.append(f"{own_name} = {name};" if in_block else f"const {kind} {own_name} = {name};")
        if in_block:
            yield from self._open_first([note, f"{declared};"])
        else:
            lines = [note, f"{declared};", *lines]
        yield self._replace_loop(self.first, lines)
        factor = f"{call}({own_name if moved else name} - {self._factor(shift)})"
        added = f"{_name_of(reader, place)} += {sum_name} * {factor};"
        yield self._replace_second([_NAN_NOTE, *self._write_if_any(added)])

    def _write_if_any(self, statement: str) -> list[str]:
        """A statement that is executed if the second loop has an element."""
        variable = _name_of(self.reader, self.second.variable)
        head = self.reader.read_steps(self.second, variable)
        if head.init.isdecimal():
            return [f"if ({head.init} < {head.bound}) {statement}"]
        declared = f"  const {head.type} {variable} = {head.init};"
        return ["{", declared, f"  if ({variable} < {head.bound}) {statement}", "}"]

    def _write_batches(self, element: Span, call: str, begin: str) -> list[str]:
        name, kind, suffix, reader = self.name, self.kind, _SUFFIX.get(self.kind, ""), self.reader
        sum_name = f"{name}_sum"
        before, next_name, base, inside, number = (
            self._take_name(end) for end in ("before", "next", "base", "inside", "i")
        )
        variable = _name_of(reader, self.first.variable)
        batch = f"{variable}_first"
        head = reader.read_steps(self.first, batch)
        reader.check_new(batch)
        ahead = f"{batch} + {number} * {head.step}" if head.step != "1" else f"{batch} + {number}"
        step = f"{BATCH} * {head.step}" if head.step != "1" else str(BATCH)
        constants = [read_source(reader.body, span) for span in reader.list_constants(self.first)]
        unrolled = f"for (int {number} = 0; {number} < {BATCH}; ++{number})"
        return [
            f"for ({head.type} {batch} = {begin or head.init}; {batch} < {head.bound}; {batch} += {step}) {{",
            f"  const {kind} {before} = {name};",
            f"  {kind} {next_name}[{BATCH}];",
            "#pragma unroll",
            f"  {unrolled} {{",
            f"    const bool {inside} = {ahead} < {head.bound};",
            f"    const {head.type} {variable} = {inside} ? {ahead} : {batch};",
            *(f"    {constant}" for constant in constants),
            f"    {next_name}[{number}] = {read_source(reader.body, element)};",
            f"    if (!{inside}) {next_name}[{number}] = -INFINITY;",
            f"    {name} = fmax{suffix}({name}, {next_name}[{number}]);",
            "  }",
            f"  const {kind} {base} = {name} == -INFINITY ? 0 : {name};",
            f"  {sum_name} *= {call}({before} - {base});",
            "#pragma unroll",
            f"  {unrolled} {sum_name} += {call}({next_name}[{number}] - {base});",
            "}",
        ]  # fmt: skip

    def write_shifted(self, element: Span, total: int, place: int, mean: Span) -> Iterator[Edit]:
        """The first loop with sums of distances from its first element; `total`: the variable that it adds up."""
        name, kind, reader = self.name, self.kind, self.reader
        count, first, offset, offsets, squares, off, rest = (
            self._take_name(end) for end in ("count", "first", "offset", "offsets", "squares", "mean", "rest")
        )
        value, lines = read_source(reader.body, element), list[str]()
        if element[1] - element[0] > 1:
            lines.append(f"const {kind} {self._take_name('next')} = {value};")
            value = f"{name}_next"
        lines += [
            f"{_name_of(reader, total)} += {value};",
            f"if ({count} == 0) {first} = {value};",
            f"const {kind} {offset} = {value} - {first};",
            f"{offsets} += {offset};",
            f"{squares} += {offset} * {offset};",
            f"{count} += 1;",
        ]
        note = f"// Distances from the first element and their squares: what {name} needs of this pass."
        yield from self._open_first([note, f"{kind} {count} = 0, {first} = 0, {offsets} = 0, {squares} = 0;"])
        (update,) = self.first.updates
        yield from self._replace_update(update, lines)
        yield self._replace_second([
            f"const {kind} {off} = {self._factor(mean)} - {first};",
            f"const {kind} {rest} = {squares} - {off} * (2 * {offsets} - {count} * {off});",
            f"{_name_of(reader, place)} += {rest} < 0 ? 0 : {rest};",
        ])  # fmt: skip

    def _take_name(self, end: str) -> str:
        name = f"{self.name}_{end}"
        self.reader.check_new(name)
        return name

    def _factor(self, span: Span) -> str:
        text = self.reader.write_text(self.second, span)
        return text if span[1] - span[0] == 1 or text.replace(".", "").isidentifier() else f"({text})"

    def _changes_between(self, name: str) -> bool:
        tokens, body = self.reader.body.tokens, self.reader.body
        between = range(self.first.statement.end, self.second.statement.start)
        return any(tokens[i].text == name and body.after_lvalue(i, between.stop) in ASSIGN for i in between) or any(
            tokens[i].text == name and tokens[i - 1].text in ("(", ",", "&") for i in between
        )

    def _replace_second(self, lines: Sequence[str]) -> Edit:
        """What stands for the second loop, behind a barrier where the LDS may still be read."""
        note = "// the LDS may be written anew when all have read it"
        barrier = [f"__syncthreads();  {note}"] if needs_barrier(self.reader, self.first, self.second) else []
        return self._replace_loop(self.second, [*barrier, *lines])

    # --- edits -------------------------------------------------------------------------------------------------------

    def _open_first(self, lines: Sequence[str]) -> Iterator[Edit]:
        """Lines before the statement that the first loop is in, and before its pragma."""
        start = self.reader.find_begin(self.first.sibling)
        indent = self.reader.read_indent(self.first.sibling)
        yield Edit(start, start, "".join(f"{line}\n{indent}" for line in lines))

    def _replace_update(self, update: Statement, lines: Sequence[str]) -> Iterator[Edit]:
        tokens = self.reader.body.tokens
        start, end = tokens[update.start].start, tokens[update.end - 1].end
        (inside,) = self.first.statement.parts
        indent = self.reader.read_indent(self.first.statement)
        if inside.kind == "block":
            indent = self.reader.read_indent(update)
            yield Edit(start, end, f"\n{indent}".join(lines))
        else:
            yield Edit(start, end, "{" + "".join(f"\n{indent}  {line}" for line in lines) + f"\n{indent}}}")

    def _replace_loop(self, loop: RowLoop, lines: Sequence[str]) -> Edit:
        """Other lines in place of a loop, and of its pragma."""
        statement = loop.statement
        end = self.reader.body.tokens[statement.end - 1].end
        indent = self.reader.read_indent(statement)
        text = "\n".join(line if line.startswith("#") else indent + line for line in lines)
        return Edit(self.reader.find_begin(statement), end, text.removeprefix(indent))
