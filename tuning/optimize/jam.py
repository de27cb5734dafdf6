"""Several work-items in one lane with their statements alternating (unroll and jam), so that what they share is
computed once and their loads overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hipsynth.synth.frontend.parse import Token
from hipsynth.tuning.optimize.body import STEP, Body
from hipsynth.tuning.optimize.plan import AXES
from hipsynth.tuning.optimize.program import Kernel, Program
from hipsynth.tuning.optimize.statements import NotUnderstood, Statement, statements


@dataclass(frozen=True)
class Jammed:
    """The text of a jammed body. It begins with what must hold for every work-item: where it does not, the text runs
    `FALLBACK`, which runs them one after the other."""

    text: str
    guarded: bool


FALLBACK = "return false;"


def jammed(program: Program, kernel: Kernel, axis: int, copies: int, unroll: int = 0) -> Jammed:
    """The body for `copies` work-items along an axis, whose coordinates are thread_K and block_K (K from 0).

    `unroll`: factor of its innermost loops that have no pragma. Raises NotUnderstood for bodies that this cannot do
    safely.
    """
    return _Jam(program, kernel, axis, copies, unroll).body()


@dataclass
class _Jam:
    program: Program
    kernel: Kernel
    axis: int
    copies: int
    unroll: int = 0
    varying: set[int] = field(default_factory=set)  # offsets of the declarations that differ between work-items

    def body(self) -> Jammed:
        self.tokens: Sequence[Token] = self.program.tokens
        self.code = Body(self.program, self.kernel)
        tree = statements(self.tokens, self.kernel.first, self.kernel.last)
        self.code.check_plain()
        before = -1
        while before != len(self.varying):
            before = len(self.varying)
            for one in tree:
                self._spread(one, False)
        lines, guarded = [], False
        for number, one in enumerate(tree):
            plain = all(self._is_declaration(other) for other in tree[:number] if not self._is_exit(other))
            condition = plain and one.kind == "if" and len(one.parts) == 1 and self._varies(one.head)
            if condition and self._is_exit(one):
                lines.append(f"if ({self._any(one.head)}) {FALLBACK}")
                guarded = True
            elif condition and number == len(tree) - 1:
                lines.append(f"if (!({self._all(one.head)})) {FALLBACK}")
                lines.append(self._emit(one.parts[0]))
                guarded = True
            else:
                lines.append(self._emit(one))
        return Jammed("\n  ".join(lines), guarded)

    # --- what differs between the work-items -------------------------------------------------------------------------

    def _varies(self, span: tuple[int, int]) -> bool:
        for i in range(*span):
            token = self.tokens[i]
            if self.code.local(token) in self.varying or self._is_coordinate(i):
                return True
        return False

    def _is_coordinate(self, at: int) -> bool:
        """Whether a token is threadIdx or blockIdx of the axis; other uses of them than .x, .y, .z are refused."""
        token = self.tokens[at]
        if token.text not in ("threadIdx", "blockIdx"):
            return False
        member = self.tokens[at + 2].text
        if self.tokens[at + 1].text != "." or member not in AXES:
            raise NotUnderstood(f"{token.text} as a whole")
        return member == AXES[self.axis]

    def _spread(self, one: Statement, inside: bool) -> None:
        """Adds the variables that a statement changes from work-item to work-item to `varying`."""
        if one.kind in ("if", "for", "while"):
            if inside or self._varies(one.head):
                self.varying |= self.code.changed((one.start, one.end))
            for part in one.parts:
                self._spread(part, inside or self._varies(one.head))
        elif one.kind == "block":
            for part in one.parts:
                self._spread(part, inside)
        elif inside or self._varies((one.start, one.end)):
            self.varying |= self.code.changed((one.start, one.end))

    # --- the text ----------------------------------------------------------------------------------------------------

    def _emit(self, one: Statement) -> str:
        if one.kind == "block":
            return "{\n" + "\n".join(self._emit(part) for part in one.parts) + "\n}"
        if one.kind in ("if", "for", "while") and not self._varies(one.head):
            head = self._text((one.start, one.head[1] + 1), None)
            parts = [self._emit(part) for part in one.parts]
            return f"{self._pragma(one)}{head} {{\n{parts[0]}\n}}" + (f" else {{\n{parts[1]}\n}}" if parts[1:] else "")
        if one.kind == "jump":
            if self._varies((one.start, one.end)) or self.tokens[one.start].text == "return":
                raise NotUnderstood("a return among the statements")
            return self._text((one.start, one.end), None)
        span = (one.start, one.end)
        if not self._varies(span) and self._only_locals(one):
            return self._text(span, None)
        if any(inner.kind == "jump" and not self._stays(one, inner) for inner in one.inner()):
            raise NotUnderstood("a jump under a condition that differs between work-items")
        return "\n".join(self._text(span, k) for k in range(self.copies))

    def _stays(self, one: Statement, jump: Statement) -> bool:
        """Whether a break or continue stays within the statement: it is in a loop inside it, or of it."""
        if self.tokens[jump.start].text == "return":
            return False
        return any(loop.kind in ("for", "while") and loop.start <= jump.start < loop.end for loop in one.inner())

    def _only_locals(self, one: Statement) -> bool:
        """Whether a simple statement only declares or assigns local variables, so that once is enough."""
        words = [t.text for t in self.tokens[one.start : one.end]]
        calls = "(" in words and not self._is_declaration(one)
        return one.kind == "simple" and not calls and bool(self.code.changed((one.start, one.end)))

    def _is_declaration(self, one: Statement) -> bool:
        if one.kind != "simple":
            return False
        changed = self.code.changed((one.start, one.end))
        words = {t.text for t in self.tokens[one.start : one.end]}
        effects = words & STEP or any(word.lower().startswith(("atomic", "unsafeatomic")) for word in words)
        return bool(changed) and not effects and any(self.tokens[i].start in changed for i in range(one.start, one.end))

    def _is_exit(self, one: Statement) -> bool:
        """`if (...) return;`"""
        if one.kind != "if" or len(one.parts) != 1:
            return False
        inner = one.parts[0]
        inner = inner.parts[0] if inner.kind == "block" and len(inner.parts) == 1 else inner
        return inner.kind == "jump" and [t.text for t in self.tokens[inner.start : inner.end]] == ["return", ";"]

    def _any(self, span: tuple[int, int]) -> str:
        return " || ".join(f"({self._text(span, k)})" for k in range(self.copies))

    def _all(self, span: tuple[int, int]) -> str:
        return " && ".join(f"({self._text(span, k)})" for k in range(self.copies))

    def _pragma(self, one: Statement) -> str:
        before = self.program.unit.text[: self.tokens[one.start].start].rstrip().rsplit(b"\n", 1)[-1].strip()
        if before.startswith(b"#pragma unroll"):
            return before.decode() + "\n"
        innermost = one.kind == "for" and all(inner.kind != "for" for part in one.parts for inner in part.inner())
        return f"#pragma unroll {self.unroll}\n" if self.unroll and innermost else ""

    def _text(self, span: tuple[int, int], copy: int | None) -> str:
        """The source of tokens, with the names of one work-item's variables; None: of code that they share."""
        pieces, at = [], self.tokens[span[0]].start
        skip = -1
        for i in range(*span):
            token = self.tokens[i]
            if i <= skip:
                continue
            new = None
            if copy is not None and self._is_coordinate(i):
                new, skip = f"{token.text.removesuffix('Idx')}_{copy}", i + 2
            elif copy is not None and self.code.local(token) in self.varying:
                new = f"{token.text}_{copy}"
            if new is not None:
                pieces += [self._slice(at, token.start), new]
                at = self.tokens[max(i, skip)].end
        return "".join(pieces) + self._slice(at, self.tokens[span[1] - 1].end)

    def _slice(self, start: int, end: int) -> str:
        text = self.program.unit.text[start:end].decode(errors="surrogateescape")
        return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#pragma unroll"))
