"""Larger tiles for a product whose kernel stages small ones: its LDS arrays are taken for what they are, copies of
elements in memory, and the kernel without them is tiled anew, with several results in the registers of each lane, or
with matrix instructions.

The kernel has one loop over tiles that stores elements of arrays to the LDS, each work-item its own ones, and between
barriers a loop that adds up products of what it reads there. An element `tile[i][j]` is what the work-item with these
coordinates stored: its expression, with them in place of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.core.errors import HipsynthError
from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.kernel_body import Body
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram, read_program
from hipsynth.tuning.optimize.source_changes.row_loops import Span
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger
from hipsynth.tuning.optimize.source_changes.tilings import list_tilings, write_tilings
from hipsynth.tuning.optimize.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import AXES

NOTABLE = 0.1  # share of the program's time from which a kernel is worth it
_BARRIER = "__syncthreads"


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with a kernel tiled anew, with each of the first tiles that the transformations offer."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < NOTABLE * timed.duration_ns or not kernel.launches:
            continue
        try:
            plain = read_program(write_untiled(program, kernel), target.arch)
        except (NotUnderstood, HipsynthError):
            continue
        tilings = list_tilings(plain, kernel.name, run.bottleneck, run.grid, run.block)
        yield from write_tilings(plain, kernel.name, run.block, tilings, "larger tiles than those of its own")


CHANGER = SourceChanger("SQ_INSTS_LDS", list_changes)


def write_untiled(program: ParsedProgram, kernel: KernelDefinition) -> str:
    """The program with a kernel that reads memory where it read its tiles. Raises NotUnderstood for other kernels."""
    body = Body(program, kernel)
    tree = parse_statements(program.tokens, kernel.first, kernel.last)
    loops = [number for number, statement in enumerate(tree) if statement.kind == "for"]
    if len(loops) != 1:
        raise NotUnderstood("a kernel with more than one loop")
    untiler = _Untiler(body, tree[: loops[0]], tree[loops[0]], tree[loops[0] + 1 :])
    start, end = program.tokens[kernel.first - 1].end, program.tokens[kernel.last].start
    edit = Edit(start, end, f"\n{untiler.write_body()}\n")
    return apply_edits(program.unit.text, [edit]).decode(errors="surrogateescape")


@dataclass(frozen=True)
class _Tile:
    """An LDS array: the span of what is stored, and the coordinates (as words) at which a work-item stores."""

    value: Span
    places: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass
class _Untiler:
    body: Body
    before: Sequence[Statement]
    loop: Statement
    after: Sequence[Statement]
    values: dict[int, Span] = field(default_factory=dict)  # of constants that an iteration over tiles declares
    tiles: dict[str, _Tile] = field(default_factory=dict)
    guards: list[str] = field(default_factory=list)  # conditions of loads

    def write_body(self) -> str:
        """The body without tiles."""
        self.tokens, self.program = self.body.tokens, self.body.program
        self.coordinates = dict(self._find_coordinates())
        inner = self._read_iteration()
        self._read_heads(inner)
        sums = self.body.changed((inner.start, inner.end)) - {self.tokens[self.at_inner].start}
        declared = [s for s in self.before if not self._has_word(s, "__shared__") and not self._names_coordinates(s)]
        of_sums = [s for s in declared if any(self.tokens[i].start in sums for i in range(s.start, s.end))]
        lines = [self._write_plain((s.start, s.end)) for s in declared if s not in of_sums]
        (part,) = inner.parts
        work = [self._write_plain((s.start, s.end)) for s in of_sums]
        bound = self.bound
        work += [f"for (int {self.step} = 0; {self.step} < {bound}; ++{self.step}) {{", self._write_inner(part), "}"]
        conditions, stores = self._read_after()
        work += [self._write_plain((s.start, s.end)) for s in stores]
        self._check_conditions(conditions)
        text = "\n  ".join(lines)
        if conditions:
            return f"  {text}\n  if ({' && '.join(conditions)}) {{\n    " + "\n    ".join(work) + "\n  }"
        return f"  {text}\n  " + "\n  ".join(work)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _has_word(self, statement: Statement, word: str) -> bool:
        return any(self.tokens[i].text == word for i in range(statement.start, statement.end))

    def _names_coordinates(self, statement: Statement) -> bool:
        """Whether a statement declares names of coordinates alone."""
        names = {self.tokens[i].start for i in range(statement.start, statement.end)} & self.body.locals
        return bool(names) and names <= self.coordinates.keys()

    def _find_coordinates(self) -> Iterator[tuple[int, str]]:
        """Constants such as `const int tx = threadIdx.x`, by their declarations."""
        for i in range(self.body.kernel.first, self.loop.start):
            words = "".join(t.text for t in self.tokens[i + 1 : i + 5])
            match = re.fullmatch(r"=threadIdx\.([xy])", words)
            if match and self.tokens[i].start in self.body.locals and self.tokens[i + 5].text in (";", ","):
                yield self.tokens[i].start, match[1]

    def _read_iteration(self) -> Statement:
        """The loop over what is in the tiles; the stores to them and the constants before are noted."""
        (block,) = self.loop.parts
        inner: Statement | None = None
        for statement in block.parts:
            words = [t.text for t in self.tokens[statement.start : statement.end]]
            if words == [_BARRIER, "(", ")", ";"]:
                continue
            if statement.kind == "for" and inner is None:
                inner = statement
            elif statement.kind != "simple" or inner is not None:
                raise NotUnderstood("another statement among the tiles")
            elif words[1] == "[":
                self._read_store(statement)
            else:
                self._read_constant(statement)
        if inner is None or len(self.tiles) < 2 or not self.program.has_barrier(self.loop.start, inner.start):
            raise NotUnderstood("no loop over tiles")
        return inner

    def _read_store(self, statement: Statement) -> None:
        name, at = self.tokens[statement.start].text, statement.start + 1
        places = []
        while self.tokens[at].text == "[":
            close = find_closing(self.tokens, at)
            places.append(tuple(self._name_coordinate((at + 1, close))))
            at = close + 1
        if len(places) != 2 or self.tokens[at].text != "=" or name in self.tiles:
            raise NotUnderstood("a tile of another form")
        self.tiles[name] = _Tile((at + 1, statement.end - 1), (places[0], places[1]))

    def _read_constant(self, statement: Statement) -> None:
        names = [i for i in range(statement.start, statement.end) if self.tokens[i].start in self.body.locals]
        if len(names) != 1 or self.tokens[names[0] + 1].text != "=":
            raise NotUnderstood("another statement among the tiles")
        self.values[self.tokens[names[0]].start] = (names[0] + 2, statement.end - 1)

    def _name_coordinate(self, span: Span) -> list[str]:
        """The words of an expression, with `threadIdx.x` for names of it."""
        words: list[str] = []
        for i in range(*span):
            axis = self.coordinates.get(self.body.local(self.tokens[i]))
            words += ["threadIdx", ".", axis] if axis else [self.tokens[i].text]
        return words

    def _read_heads(self, inner: Statement) -> None:
        """The names and numbers of both loops: `step` over `size` elements of a tile, `tile` over tiles."""
        outer, steps = self._read_head(self.loop), self._read_head(inner)
        self.step, self.size, self.at_inner = steps[0], steps[1], steps[3]
        self.tile = outer[0]
        if steps[2] != "1":
            raise NotUnderstood("a loop over tiles of another form")
        size = re.escape(self.size)
        counted = re.fullmatch(rf"\(?(\w+)\)?/{size}|\((\w+)\+{size}-1\)/{size}", outer[1])
        if outer[2] == "1" and counted:
            self.bound, self.scaled = counted[1] or counted[2], True
        elif outer[2] == self.size and re.fullmatch(r"\w+", outer[1]):
            self.bound, self.scaled = outer[1], False
        else:
            raise NotUnderstood("a loop over tiles of another form")

    def _read_head(self, loop: Statement) -> tuple[str, str, str, int]:
        """Variable, bound, step of `for (int v = 0; v < bound; ++v)`, and the token that declares it."""
        parts = split_at(self.tokens, *loop.head, ";")
        texts = ["".join(t.text for t in self.tokens[a:b]) for a, b in parts]
        match = re.fullmatch(r"(?:int|unsigned|unsignedint)(\w+)=0", texts[0])
        if len(parts) != 3 or match is None or not texts[1].startswith(f"{match[1]}<"):
            raise NotUnderstood("a loop of another form")
        name = match[1]
        step = "1" if texts[2] in (f"++{name}", f"{name}++") else texts[2].removeprefix(f"{name}+=")
        at = next(i for i in range(*parts[0]) if self.tokens[i].start in self.body.locals)
        return name, texts[1].removeprefix(f"{name}<"), step, at

    def _read_after(self) -> tuple[list[str], Sequence[Statement]]:
        """The conditions of what is done after the loop, and these statements."""
        if len(self.after) == 1 and self.after[0].kind == "if" and len(self.after[0].parts) == 1:
            (part,) = self.after[0].parts
            spans = split_at(self.tokens, *self.after[0].head, "&&")
            return [self._write_plain(span) for span in spans], part.parts if part.kind == "block" else (part,)
        return [], self.after

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write_plain(self, span: Span) -> str:
        """Code outside the loop, with the built-in coordinates."""
        edits = []
        base = self.tokens[span[0]].start
        for i in range(*span):
            token, axis = self.tokens[i], self.coordinates.get(self.body.local(self.tokens[i]))
            product = [t.text for t in self.tokens[i - 4 : i - 1]]
            if axis and token.start != self.body.local(token):
                edits.append(Edit(token.start - base, token.end - base, f"threadIdx.{axis}"))
            elif token.text == self.size and product[:2] == ["blockIdx", "."] and self.tokens[i - 1].text == "*":
                edits.append(Edit(token.start - base, token.end - base, f"blockDim.{product[2]}"))
        text = self.program.unit.text[base : self.tokens[span[1] - 1].end]
        return apply_edits(text, edits).decode(errors="surrogateescape")

    def _write_inner(self, part: Statement) -> str:
        """The statements of the inner loop, with elements of memory for those of tiles."""
        base, edits, at = self.tokens[part.start].start, [], part.start
        while at < part.end:
            if self.tokens[at].text not in self.tiles:
                at += 1
                continue
            first = find_closing(self.tokens, at + 1)
            second = find_closing(self.tokens, first + 1)
            if self.tokens[at + 1].text != "[" or self.tokens[first + 1].text != "[":
                raise NotUnderstood("a tile that is used otherwise")
            places = [self._name_coordinate((at + 2, first)), self._name_coordinate((first + 2, second))]
            value = self._write_element(self.tiles[self.tokens[at].text], places)
            edits.append(Edit(self.tokens[at].start - base, self.tokens[second].end - base, value))
            at = second + 1
        text = self.program.unit.text[base : self.tokens[part.end - 1].end]
        return apply_edits(text, edits).decode(errors="surrogateescape")

    def _write_element(self, tile: _Tile, places: Sequence[list[str]]) -> str:
        """What the work-item at other coordinates stored: one of them is the step, the other one its own."""
        changed = [number for number in (0, 1) if places[number] == [self.step]]
        if len(changed) != 1 or places[1 - changed[0]] != list(tile.places[1 - changed[0]]):
            raise NotUnderstood("a tile that is read otherwise")
        place = tile.places[changed[0]]
        if place[:2] != ("threadIdx", ".") or place[2] not in AXES[:2] or len(place) != 3:
            raise NotUnderstood("a tile that is stored otherwise")
        value, axis = tile.value, place[2]
        choice = split_at(self.tokens, *value, "?")
        if len(choice) == 2:
            branches = split_at(self.tokens, *choice[1], ":")
            if len(branches) != 2 or self.tokens[branches[1][0]].text.rstrip("fF") not in ("0", "0.0", "0."):
                raise NotUnderstood("another value outside the array")
            start, end = choice[0]
            if self.tokens[start].text == "(" and find_closing(self.tokens, start) == end - 1:
                start, end = start + 1, end - 1
            for span in split_at(self.tokens, start, end, "&&"):
                self.guards.append(self._rewrite(span, axis))
            value = branches[0]
        return self._rewrite(value, axis)

    def _check_conditions(self, conditions: Sequence[str]) -> None:
        """The conditions of loads must follow from the loop's bound, or be those of the stores."""
        implied = {f"{self.step} < {self.bound}", *conditions}
        if not {re.sub(r"[()]", "", guard) for guard in self.guards} <= {re.sub(r"[()]", "", text) for text in implied}:
            raise NotUnderstood("a condition of a load alone")

    def _rewrite(self, span: Span, axis: str) -> str:
        """An expression of the loop with the step in place of a place within the tile and the tile's own place."""
        pieces: list[str] = []
        at, end = span[0], span[0]
        while at < span[1]:
            length = self._match_place(at, axis)
            place = self.body.local(self.tokens[at])
            new = self.step if length else ""
            if not length and place in self.values:
                new = self._rewrite(self.values[place], axis)
                new, length = new if re.fullmatch(r"\w+", new) else f"({new})", 1
            if length:
                pieces.append(self._gap(end, at, span) + new)
                at = end = at + length
                continue
            self._check_own(at, axis)
            at += 1
        text = ("".join(pieces) + self._gap(end, span[1], span)).strip()
        return re.sub(rf"(?<!\w)\({self.step}\)", self.step, text)

    def _gap(self, start: int, end: int, span: Span) -> str:
        """The source from where the last token ended to where one begins."""
        first = self.tokens[start - 1].end if start > span[0] else self.tokens[start].start
        last = self.tokens[end].start if end < span[1] else self.tokens[span[1] - 1].end
        return self.program.unit.text[first:last].decode(errors="surrogateescape") if last > first else ""

    def _match_place(self, at: int, axis: str) -> int:
        """How many tokens the number of an element along the loop takes that begins at a token; 0 for none."""
        places = [["threadIdx", ".", axis]]
        names = {place for place, other in self.coordinates.items() if other == axis}
        places += [[t.text] for t in self.tokens[at : at + 8] if self.body.local(t) in names]
        tiles = [[self.tile]]
        if self.scaled:
            tiles = [[self.tile, "*", self.size], [self.size, "*", self.tile]]
        for place, tile in itertools.product(places, tiles):
            for words in ([*tile, "+", *place], [*place, "+", *tile]):
                inside = [t.text for t in self.tokens[at : at + len(words)]] == words
                around = self.tokens[at - 1].text, self.tokens[at + len(words)].text
                if inside and around[0] not in ("*", "/", "%", "-") and around[1] not in ("*", "/", "%"):
                    return len(words)
        return 0

    def _check_own(self, at: int, axis: str) -> None:
        """Raises NotUnderstood for what another work-item has another value of."""
        token, visited = self.tokens[at], set[int]()
        todo = [at]
        while todo:
            i = todo.pop()
            place = self.body.local(self.tokens[i])
            threads = self.tokens[i].text == "threadIdx" and self.tokens[i + 2].text == axis
            if threads or self.coordinates.get(place) == axis or self.tokens[i].text == self.tile:
                raise NotUnderstood(f"{token.text} depends on the place within the tile")
            if place < 0 or place in visited:
                continue
            visited.add(place)
            first = self.body.find_declaration(place)
            if self.tokens[first + 1].text == "=":
                stop = next(j for j in range(first, self.body.kernel.last) if self.tokens[j].text in (",", ";"))
                todo += range(first + 2, stop)
