"""Splits the loops of a work-item across lanes: round robin; shuffles reduce sums and extremes.

All lanes execute the code outside these loops, and the first of them stores what it stores. The preconditions are
checked on the statements: iterations of a loop may only store to places of their own, and what a kernel stores it
may read again only in the iteration that stored it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.effects import has_effect
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import ATOMIC_ADDS
from hipsynth.tuning.optimize.analysis.statements import JUMPS, NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformations.split_loops.first_places import (
    FirstPlace,
    find_first_places,
    read_extreme,
)
from hipsynth.tuning.optimize.transformations.split_loops.loop_nests import read_loop_nest
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import (
    FIRST,
    LANE,
    RunningSum,
    SharedLoop,
    edit_loop,
)

_EXTREMES = {"fmaxf": "largest", "fmax": "largest", "max": "largest", "fminf": "least", "fmin": "least", "min": "least"}


@dataclass(frozen=True)
class _Store:
    statement: Statement
    at: int  # token of the pointer's name
    subscript: str
    loop: SharedLoop | None  # the shared loop that it is in


def split_edits(body: Body, lanes: int) -> list[Edit]:
    """Edits of a kernel's body, whose lane of a work-item is LANE. Raises NotUnderstood if no loop can be shared."""
    return _Split(body, lanes).edits()


def check_effects(body: Body, statement: Statement) -> None:
    """Raises NotUnderstood if a statement follows pointers or calls what may have an effect."""
    split = _Split(body, 0)
    split.tokens = body.tokens
    split._check_words(statement.span)


def read_joined_loop(body: Body, statement: Statement) -> SharedLoop | None:
    """A loop that lanes can share, and that does nothing but sum up or look for extremes; None for others. Raises
    NotUnderstood for pointers from elsewhere."""
    split = _Split(body, 0)
    split.tokens = body.tokens
    split.aliases = split._find_aliases()
    loop = split._share_loop(statement)
    return loop if loop is not None and loop.joined and not split.stores else None


@dataclass
class _Split:
    body: Body
    lanes: int
    loops: list[SharedLoop] = field(default_factory=list)
    stores: list[_Store] = field(default_factory=list)
    kept: dict[_Store, list[int]] = field(default_factory=dict)  # values that are read again after their store

    def edits(self) -> list[Edit]:
        kernel = self.body.kernel
        self.tokens = self.body.tokens
        self.body.check_plain()
        self._check_words((kernel.first, kernel.last))
        self.aliases = self._find_aliases()
        self.tree = parse_statements(self.tokens, kernel.first, kernel.last)
        self._walk_statements(self.tree)
        if not self.loops:
            raise NotUnderstood("no loop whose iterations are independent")
        self._check_stores()
        loop_edits = [edit for loop in self.loops for edit in edit_loop(self.body, loop, self.lanes)]
        value_edits = {store.statement: self._keep_edits(store) for store in self.kept}
        for statement in {store.statement for store in self.stores if store.loop is None}:
            start, end = self.tokens[statement.start].start, self.tokens[statement.end - 1].end
            before, *others = value_edits.get(statement, [Edit(start, start, "")])
            loop_edits += [Edit(start, start, f"{before.text}if ({LANE} == 0) {{ "), Edit(end, end, " }"), *others]
        return loop_edits

    # --- what the kernel does ----------------------------------------------------------------------------------------

    def _check_words(self, span: tuple[int, int]) -> None:
        for i in range(*span):
            text, before = self.tokens[i].text, self.tokens[i - 1]
            value = before.text[:1].isalnum() or before.text[:1] == "_" or before.text in (")", "]")
            if text == "->" or (text in ("*", "&") and not value and before.text != "*"):
                raise NotUnderstood("pointers that are followed or taken")
            if text == "&" and self.tokens[i + 1].start in self.body.locals:
                raise NotUnderstood("a reference")
            if self.tokens[i].identifier and self.tokens[i + 1].text == "(":
                self._check_call(i)

    def _check_call(self, at: int) -> None:
        """A function that it calls may have no effect, but for atomic additions that are statements of their own."""
        name = self.tokens[at].text
        if name in ATOMIC_ADDS and self.tokens[at - 1].text in (";", "{", "}", ")", "else"):
            return
        if has_effect(name):
            raise NotUnderstood(f"a call of {name}")
        user = any(e.user and e.category == "function" for e in self.body.program.entities(self.tokens[at]))
        for i, token in enumerate(self.tokens) if user else ():
            close = find_closing(self.tokens, i + 1) if token.text == name and self.tokens[i + 1].text == "(" else -1
            pointers = any(t.text in ("*", "&") for t in self.tokens[i + 1 : max(close, i + 1)])
            if pointers and self.tokens[close + 1].text == "{":
                raise NotUnderstood(f"a call of {name}, which takes pointers")

    def _find_aliases(self) -> dict[int, str]:
        """Local pointers by their declarations, and the parameter that each points into."""
        aliases: dict[int, str] = {}
        pointers = {parameter.name for parameter in self.body.kernel.parameters if parameter.base}
        for i in range(self.body.kernel.first, self.body.kernel.last):
            token = self.tokens[i]
            declared = token.start in self.body.locals
            if (
                declared
                and self.tokens[i - 1].text in ("*", "const", "__restrict__")
                and "*" in self._declare_before(i)
            ):
                roots = self._find_roots(token.start, aliases)
                if len(roots) != 1 or not roots <= pointers:
                    raise NotUnderstood("a pointer from elsewhere")
                aliases[token.start] = roots.pop()
        return aliases

    def _find_roots(self, place: int, aliases: dict[int, str]) -> set[str]:
        """The pointer parameters in what a local pointer is declared with, and assigned later; elements are none."""
        roots: set[str] = set()
        for i in range(self.body.kernel.first, self.body.kernel.last):
            if self.body.local(self.tokens[i]) != place or self.tokens[i + 1].text != "=":
                continue
            stop = next(j for j in range(i, self.body.kernel.last) if self.tokens[j].text in (";", ","))
            roots |= {self._root_pointer(j, aliases) for j in range(i, stop) if self.tokens[j + 1].text != "["}
        return roots - {""}

    def _declare_before(self, at: int) -> list[str]:
        return [t.text for t in self.tokens[max(0, at - 3) : at]]

    def _root_pointer(self, at: int, aliases: dict[int, str]) -> str:
        """The pointer parameter that a token names, itself or through a local pointer; "" if it names none."""
        place = self.body.local(self.tokens[at])
        if place >= 0:
            return aliases.get(place, "")
        named = (parameter.name for parameter in self.body.kernel.parameters if parameter.base)
        return next((name for name in named if name == self.tokens[at].text), "")

    def _list_writes(self, span: tuple[int, int]) -> Iterator[tuple[int, str]]:
        """Tokens of the names that are assigned, with the operator."""
        for i in range(*span):
            if not self.tokens[i].identifier or self.tokens[i - 1].text in (".", "::"):
                continue
            after = self.body.after_lvalue(i, span[1])
            if after in ASSIGN or after in STEP or self.tokens[i - 1].text in STEP:
                yield i, after if after in ASSIGN else "++"

    def _walk_statements(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            loop = (self._share_loop(statement) or self._scan_loop(statement)) if statement.kind == "for" else None
            if loop is not None:
                self.loops.append(loop)
                continue
            if statement.kind in ("simple", "jump"):
                self._handle_outside(statement)
            elif any(self.body.local(self.tokens[i]) < 0 for i, _ in self._list_writes(statement.head)):
                raise NotUnderstood("a condition that stores")
            self._walk_statements(statement.parts)

    def _handle_outside(self, statement: Statement) -> None:
        """A statement that all lanes do, or the first one if it stores."""
        span = (statement.start, statement.end)
        atomic = self.tokens[statement.start].text in ATOMIC_ADDS
        stored = [i for i, _ in self._list_writes(span) if self.body.local(self.tokens[i]) < 0 or self._is_pointee(i)]
        if not stored and not atomic:
            return
        if atomic:
            targets = (i for i in range(*span) if self._root_pointer(i, self.aliases))
            stored.append(next(targets, statement.start))  # one that is no parameter has no root
        if (
            statement.kind != "simple"
            or len(list(self._list_writes(span))) > 1
            or any(not self._root_pointer(i, self.aliases) for i in stored)
        ):
            raise NotUnderstood("a store of another kind")
        self.stores.append(_Store(statement, stored[0], self._read_subscript(stored[0]), None))

    def _is_pointee(self, at: int) -> bool:
        return self.body.local(self.tokens[at]) in self.aliases and self.tokens[at + 1].text == "["

    def _read_subscript(self, at: int) -> str:
        close = find_closing(self.tokens, at + 1) if self.tokens[at + 1].text == "[" else at
        return text_between(self.body.program.unit, self.tokens, at, close + 1)

    # --- loops -------------------------------------------------------------------------------------------------------

    def _share_loop(self, statement: Statement) -> SharedLoop | None:
        """The loop, if its iterations can be dealt out; its stores are added."""
        head = self._read_head(statement)
        if head is None:
            return None
        variable, init, condition, step = head
        span, inside = self._find_changed(statement)
        firsts = tuple(find_first_places(self.body, statement, variable))
        stores = [
            _Store(self._simple_at(statement, i), i, self._read_subscript(i), None)
            for i, _ in self._list_writes(span)
            if self._is_store(i)
        ]
        joined = self._find_joined(statement, variable, inside, firsts)
        if joined is None:
            return None
        changing = {*inside, *joined} - {variable}
        names = any(self.body.local(self.tokens[i]) in changing for i in range(*statement.head))
        if names or not self._only_joined(span, joined) or not self._stays_inside(statement):
            return None
        loop = SharedLoop(
            statement,
            variable,
            init,
            condition,
            step,
            joined,
            text_between(self.body.program.unit, self.tokens, *statement.head),
            firsts,
            nest=() if stores or firsts else read_loop_nest(self.body, statement, {*inside, *joined, variable}),
        )
        if any(not self._is_place_of_iteration(store, loop, inside) for store in stores):
            return None
        self._add_stores(stores, loop)
        return loop

    def _find_changed(self, statement: Statement) -> tuple[tuple[int, int], set[int]]:
        """(The tokens of a loop's body, the variables declared in the body that change there)."""
        span = (statement.head[1] + 1, statement.end)
        begin, end = self.tokens[span[0]].start, self.tokens[statement.end - 1].start
        return span, {place for place in self.body.changed(span) if begin <= place <= end}

    def _scan_loop(self, statement: Statement) -> SharedLoop | None:
        """The loop, if it stores what it has summed so far: its only changes are such sums and stores to places of its
        iterations; its stores are added."""
        head, block = self._read_head(statement), statement.parts[0]
        plain = block.kind == "block" and all(part.kind == "simple" for part in block.parts)
        if head is None or not plain:
            return None
        variable, init, condition, step = head
        span, inside = self._find_changed(statement)
        stores: list[_Store] = []
        sums: list[RunningSum | None] = []
        for i, operator in self._list_writes(span):
            place, within = self.body.local(self.tokens[i]), self._simple_at(statement, i)
            if self._is_store(i):
                stores.append(_Store(within, i, self._read_subscript(i), None))
            elif place not in inside:
                sums.append(self._read_running(within, place, operator, span))
        changing = inside - {variable}
        running = tuple(each for each in sums if each is not None and self._can_come_first(each, stores, changing))
        loop = SharedLoop(
            statement, variable, init, condition, step, {each.place: "sum" for each in running},
            text_between(self.body.program.unit, self.tokens, *statement.head),
            running=running, stores=tuple(dict.fromkeys(store.statement for store in stores)),
        )  # fmt: skip
        changing |= loop.joined.keys()
        if (
            not running
            or len(running) != len(sums)
            or len(loop.joined) != len(running)
            or any(self.body.local(self.tokens[i]) in changing for i in range(*statement.head))
            or any(not self._is_place_of_iteration(store, loop, inside) for store in stores)
        ):
            return None
        self._add_stores(stores, loop)
        return loop

    def _add_stores(self, stores: list[_Store], loop: SharedLoop) -> None:
        """Adds the stores of a loop that is shared."""
        self.stores += [_Store(store.statement, store.at, store.subscript, loop) for store in stores]

    def _read_running(
        self, statement: Statement, place: int, operator: str, span: tuple[int, int]
    ) -> RunningSum | None:
        """A sum of which the rest of the iteration reads what has been summed so far; None for other statements."""
        uses = [i for i in range(*span) if self.body.local(self.tokens[i]) == place]
        reads = tuple(i for i in uses if i != statement.start)
        reads_itself = any(statement.start <= i < statement.end for i in reads)
        if operator != "+=" or statement.start not in uses or reads_itself or not reads or statement.kind != "simple":
            return None
        return RunningSum(place, statement, reads)

    def _can_come_first(self, running: RunningSum, stores: list[_Store], changing: set[int]) -> bool:
        """Whether a sum that is read before it is added to can be added to where the iteration begins."""
        stored = {self._root_pointer(store.at, self.aliases) for store in stores}
        value = range(running.statement.start + 2, running.statement.end)
        depends = any(
            self.body.local(self.tokens[i]) in changing or self._root_pointer(i, self.aliases) in stored - {""}
            for i in value
        )
        return not running.reads_before or not depends

    def _is_place_of_iteration(self, store: _Store, loop: SharedLoop, inside: set[int]) -> bool:
        """Whether an iteration stores to a place that is its own, in a statement that does nothing else."""
        is_shared = self._root_pointer(store.at, self.aliases) and self.tokens[store.at + 1].text == "["
        return bool(is_shared) and self._own_place(store.at, loop, inside) and store.statement.kind == "simple"

    def _is_store(self, at: int) -> bool:
        """Whether a name that is assigned stands for memory."""
        return self.body.local(self.tokens[at]) < 0 or self._is_pointee(at)

    def _find_joined(
        self, loop: Statement, variable: int, inside: set[int], firsts: tuple[FirstPlace, ...]
    ) -> dict[int, str] | None:
        """The variables from outside of a loop that it changes, and how lanes join them; None if they cannot."""
        joined = {first.value: "first" for first in firsts} | {first.place: "place" for first in firsts}
        if len(joined) != 2 * len(firsts) or set(joined) & inside:
            return None
        for i, operator in self._list_writes((loop.head[1] + 1, loop.end)):
            place = self.body.local(self.tokens[i])
            if self._is_store(i) or (place in inside and place not in self.aliases):
                continue
            how = joined[place] if joined.get(place) in FIRST else self._join_operation(loop, i, operator)
            if place == variable or not how or joined.get(place, how) != how:
                return None
            joined[place] = how
        return joined

    def _simple_at(self, loop: Statement, at: int) -> Statement:
        return next((s for s in loop.inner() if s.kind == "simple" and s.start <= at < s.end), loop)

    def _read_head(self, statement: Statement) -> tuple[int, tuple[int, int], tuple[int, int], str] | None:
        parts = split_at(self.tokens, statement.head[0], statement.head[1], ";")
        if len(parts) != 3:
            return None
        (a, b), condition, (c, d) = parts
        equals = next((i for i in range(a, b) if self.tokens[i].text == "="), -1)
        if equals < a + 2 or len(split_at(self.tokens, a, b, ",")) != 1:
            return None
        variable = self.tokens[equals - 1].start
        if variable not in self.body.locals or condition[1] - condition[0] < 3:
            return None
        first, then = self.tokens[condition[0]], self.tokens[condition[0] + 1].text
        again = [i for i in range(condition[0] + 1, condition[1]) if self.body.local(self.tokens[i]) == variable]
        if self.body.local(first) != variable or then not in ("<", "<=") or again:
            return None
        if any(self.tokens[i].text in ("&&", "||", ",") for i in range(*condition)):
            return None
        words = [t.text for t in self.tokens[c:d]]
        name = first.text
        if words in ([name, "++"], ["++", name]):
            return variable, (equals + 1, b), condition, "1"
        if len(words) > 2 and words[:2] == [name, "+="] and name not in words[2:] and "," not in words:
            return variable, (equals + 1, b), condition, text_between(self.body.program.unit, self.tokens, c + 2, d)
        return None

    def _join_operation(self, loop: Statement, at: int, operator: str) -> str:
        """How `name += ...`, `name = fmaxf(name, ...)` or `if (x > name) name = x` joins; "" for anything else."""
        name, after = self.tokens[at], self.tokens[at + 1 : at + 6]
        if self.tokens[at - 1].text not in (";", "{", "}", ")", "else"):
            return ""
        if after[0].text == "+=" == operator:
            return "sum"
        words = [t.text for t in after]
        if words[:3:2] == ["=", "("] and words[1] in _EXTREMES and words[3:] == [name.text, ","]:
            close = find_closing(self.tokens, at + 3)
            if self.tokens[close + 1].text == ";":
                return _EXTREMES[words[1]]
        return read_extreme(self.body, loop, at)

    def _only_joined(self, span: tuple[int, int], joined: dict[int, str]) -> bool:
        """Whether the joined variables occur in the statements that join them only."""
        for place, how in joined.items():
            uses = [i for i in range(*span) if self.body.local(self.tokens[i]) == place]
            written = [i for i, _ in self._list_writes(span) if self.body.local(self.tokens[i]) == place]
            once = how in FIRST and len(written) != 1
            if once or len(uses) != len(written) * (1 if how in ("sum", "place") else 2):
                return False
        return True

    def _stays_inside(self, statement: Statement) -> bool:
        """No jump leaves the loop before its end."""
        for jump in statement.inner():
            if jump.kind != "jump":
                continue
            text = self.tokens[jump.start].text
            inner = any(
                s.kind in ("for", "while") and s.start <= jump.start < s.end
                for s in statement.inner()
                if s is not statement
            )
            if text in JUMPS - {"continue", "break"} or (text == "break" and not inner):
                return False
        return True

    def _own_place(self, at: int, loop: SharedLoop, inside: set[int]) -> bool:
        """Whether different iterations store to different places: the subscript is a sum in which the variable occurs
        once, alone or times something that does not change, and nothing else changes."""
        span = (at + 2, find_closing(self.tokens, at + 1))
        place = self.body.local(self.tokens[span[0]])
        if span[1] - span[0] == 1 and place in inside:  # a name for the place, declared in the loop
            span = self._value_of(place, loop)
        terms: list[tuple[int, int]] = []
        for part in split_at(self.tokens, *span, "+"):
            terms += split_at(self.tokens, *part, "-")
        changing = {*inside, loop.variable}
        changing_terms = [
            (term, [i for i in range(*term) if self.body.local(self.tokens[i]) in changing]) for term in terms
        ]
        with_it = [(term, names) for term, names in changing_terms if names]
        if len(with_it) != 1 or len(with_it[0][1]) != 1:
            return False
        (a, b), (name,) = with_it[0]
        plain = all(t.identifier or t.text == "*" or t.text.isdigit() for t in self.tokens[a:b])
        return self.body.local(self.tokens[name]) == loop.variable and plain

    def _value_of(self, place: int, loop: SharedLoop) -> tuple[int, int]:
        """The tokens of a constant's initial value; none for a variable."""
        statement = loop.statement
        at = next(i for i in range(statement.start, statement.end) if self.tokens[i].start == place)
        stop = next(i for i in range(at, statement.end) if self.tokens[i].text in (";", ","))
        constant = any(self.tokens[i].text == "const" for i in range(max(statement.start, at - 3), at))
        return (at + 2, stop) if constant and self.tokens[at + 1].text == "=" else (at, at)

    def _check_stores(self) -> None:
        """What is stored is read again by the lane that stored it, or in the iteration that did."""
        outside = [store.statement for store in self.stores if store.loop is None]  # the first lane's
        for store in self.stores:
            root = self._root_pointer(store.at, self.aliases)
            for i in range(self.body.kernel.first, self.body.kernel.last):
                declares = self.tokens[i].start in self.aliases or self._in_alias(i)
                if self._root_pointer(i, self.aliases) != root or declares:
                    continue
                same = store.loop is None and any(other.start <= i < other.end for other in outside)
                loop = next((s for s in self.loops if s.statement.start <= i < s.statement.end), None)
                dealt = store.loop is not None and loop is not None and loop.head == store.loop.head
                if same or (dealt and self._read_subscript(i) == store.subscript):
                    continue
                if self._can_keep(store, i):
                    self.kept.setdefault(store, []).append(i)
                else:
                    raise NotUnderstood(f"{root} is read where other lanes may have stored")

    def _can_keep(self, store: _Store, at: int) -> bool:
        """Whether a read finds what a statement stored: it comes later under the same conditions, and place and value
        stay."""
        statement, root = store.statement, self._root_pointer(store.at, self.aliases)
        close = find_closing(self.tokens, store.at + 1) if self.tokens[store.at + 1].text == "[" else -1
        if store.loop is not None or statement.start != store.at or self.tokens[close + 1].text != "=":
            return False
        kernel = self.body.kernel
        changed = {self.body.local(self.tokens[i]) for i, _ in self._list_writes((kernel.first, kernel.last))
                   if self.tokens[i].start not in self.body.locals}  # fmt: skip
        named = {self.body.local(self.tokens[i]) for i in range(store.at, close)} - {-1}
        once = [self._root_pointer(other.at, self.aliases) for other in self.stores].count(root) == 1
        within = next(
            (
                block
                for outer in self.tree
                for block in outer.inner()
                if statement in block.parts and block.kind == "block"
            ),
            None,
        )
        end = within.end if within is not None else (kernel.last if statement in self.tree else 0)
        read = self.tokens[at - 1].text != "&" and not self.body.assigns(at, kernel.last)
        same = self._read_subscript(at) == store.subscript and statement.end <= at < end
        return read and same and once and not named & changed

    def _keep_edits(self, store: _Store) -> list[Edit]:
        """A local constant with the stored value, which later reads name; the first edit comes before the store."""
        tokens, statement = self.tokens, store.statement
        root = self._root_pointer(store.at, self.aliases)
        kind = next(parameter.base for parameter in self.body.kernel.parameters if parameter.name == root)
        name = f"{tokens[store.at].text}_value"
        if name in {token.text for token in tokens}:
            raise NotUnderstood("a name that the new code uses")
        first = find_closing(tokens, store.at + 1) + 2
        value = text_between(self.body.program.unit, tokens, first, statement.end - 1)
        start = tokens[statement.start].start
        edits = [Edit(start, start, f"const {kind} {name} = {value};\n  ")]
        edits.append(Edit(tokens[first].start, tokens[statement.end - 2].end, name))
        for i in self.kept[store]:
            edits.append(Edit(tokens[i].start, tokens[find_closing(tokens, i + 1)].end, name))
        return edits

    def _in_alias(self, at: int) -> bool:
        """Whether a token is in the initial value of a local pointer."""
        start = at
        while self.tokens[start - 1].text not in (";", "{", "}"):
            start -= 1
        return any(self.tokens[i].start in self.aliases for i in range(start, at))
