"""One step of a scan by doubling distances, and the two kernels that stand for all of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.source.tokens import Span, find_closing, split_at, strip_parentheses
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements

CHUNKS = 1024  # at most, of a scan: groups that fill the device
LANES = 256
PIECE = 16  # bytes that a lane loads at a time
_WAVES = LANES // 64
_SIZES = {"int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "double": 8, "long long": 8, "unsigned long long": 8}
_HUGE = {"float": "__builtin_huge_valf()", "double": "__builtin_huge_val()"}
_INDEX = ("blockIdx.x*blockDim.x+threadIdx.x", "threadIdx.x+blockIdx.x*blockDim.x", "blockDim.x*blockIdx.x+threadIdx.x")
_LARGER, _SMALLER = frozenset({"max", "fmaxf", "fmax"}), frozenset({"min", "fminf", "fmin"})
_PLAIN = re.compile(r"[\w.]+(\[[^\[\]]*\])?")
_SIGNS = "+*&|^"


@dataclass(frozen=True)
class ScanStep:
    """A kernel of one step: its parameters, the type of elements, and the operation: a sign or a function's name."""

    source: str
    target: str
    distance: str
    count: str
    type: str
    operation: str

    @property
    def items(self) -> int:
        """Elements that a lane loads at a time."""
        return PIECE // _SIZES[self.type]

    def combine(self, one: str, other: str) -> str:
        return f"{one} {self.operation} {other}" if self.operation in _SIGNS else f"{self.operation}({one}, {other})"

    @property
    def neutral(self) -> str:
        """What changes nothing: the scan of no elements. Raises NotUnderstood."""
        if self.operation in _SIGNS:
            return {"*": "1", "&": "~0"}.get(self.operation, "0")
        largest = self.operation in _LARGER
        if self.type in _HUGE:
            return f"-{_HUGE[self.type]}" if largest else _HUGE[self.type]
        words = {"int": ("-2147483647 - 1", "2147483647"), "unsigned": ("0", "~0u"), "unsigned int": ("0", "~0u")}
        if self.type not in words:
            raise NotUnderstood(f"extremes of {self.type}")
        return words[self.type][0 if largest else 1]


def read_step(program: ParsedProgram, kernel: KernelDefinition) -> ScanStep:
    """Raises NotUnderstood for a kernel that does anything else."""
    arrays = [parameter for parameter in kernel.parameters if parameter.base in _SIZES]
    others = [parameter.name for parameter in kernel.parameters if not parameter.base]
    if len(arrays) != 2 or len(others) != 2 or len(kernel.parameters) != 4 or arrays[0].base != arrays[1].base:
        raise NotUnderstood("other parameters than two arrays, a distance and a number of elements")
    body = Body(program, kernel)
    body.check_plain()
    words = {token.text for token in program.tokens[kernel.first : kernel.last]}
    if words & program.macros.keys():
        raise NotUnderstood("macros")
    kind = arrays[0].base
    for (source, target), (distance, count) in itertools.product((arrays, arrays[::-1]), (others, others[::-1])):
        if target.constant:
            continue
        names = {source.name: "F", target.name: "T", distance: "D", count: "N"}
        near, far = (_ScanExecution(body, names, is_near).run() for is_near in (True, False))
        operation = _read_operation(far)
        if near in ("F[I]", "F[I]+0", "0+F[I]") and operation:
            return ScanStep(source.name, target.name, distance, count, kind, operation)
    raise NotUnderstood("no step of a scan")


def _read_operation(value: str) -> str:
    """The operation of an element and the one at the distance before it; "" for other values."""
    pair = re.fullmatch(r"(F\[I(?:-D)?\])([+*&|^])(F\[I(?:-D)?\])", value)
    call = re.fullmatch(r"(?:std::)?(\w+)\((F\[I(?:-D)?\]),(F\[I(?:-D)?\])\)", value)
    if pair and pair[1] != pair[3]:
        return pair[2]
    return call[1] if call and call[2] != call[3] and call[1] in _LARGER | _SMALLER else ""


class _ScanExecution:
    """Executes a kernel's statements with names for values, for a work-item within the array, nearer to its beginning
    than the distance or not. `I` is its index; `names` has the parameters."""

    def __init__(self, body: Body, names: Mapping[str, str], near: bool) -> None:
        self.body, self.names = body, names
        self.values: dict[int, str] = {}  # of local variables
        self.stored = ""
        self.known = {"I<N": True, "N>I": True, "I>=N": False, "N<=I": False}
        self.known |= {"I<D": near, "D>I": near, "I>=D": not near, "D<=I": not near}

    def run(self) -> str:
        """The value that is stored at the work-item's own element; "" if that is not understood."""
        kernel = self.body.kernel
        try:
            self._execute(parse_statements(self.body.tokens, kernel.first, kernel.last))
        except NotUnderstood:
            return ""
        return self.stored

    def _execute(self, statements: Sequence[Statement]) -> bool:
        """Whether the work-item goes on after these statements."""
        for statement in statements:
            if statement.kind == "block":
                going = self._execute(statement.parts)
            elif statement.kind == "if":
                taken = statement.parts[:1] if self._holds(statement.head) else statement.parts[1:]
                going = self._execute(taken)
            elif statement.kind == "jump" and self.body.tokens[statement.start].text == "return":
                return False
            elif statement.kind == "simple":
                self._assign(statement)
                going = True
            else:
                raise NotUnderstood(f"a {statement.kind}")
            if not going:
                return False
        return True

    def _holds(self, span: Span) -> bool:
        tokens, (start, end) = self.body.tokens, strip_parentheses(self.body.tokens, span)
        for sign, decide in (("||", any), ("&&", all)):
            parts = split_at(tokens, start, end, sign)
            if len(parts) > 1:
                return decide([self._holds(part) for part in parts])
        if tokens[start].text == "!":
            return not self._holds((start + 1, end))
        text = self._value((start, end))
        if text not in self.known:
            raise NotUnderstood(f"the condition {text}")
        return self.known[text]

    def _assign(self, statement: Statement) -> None:
        tokens, body = self.body.tokens, self.body
        start, end = statement.start, statement.end - 1
        declared = [i for i in range(start, end) if tokens[i].start in body.locals]
        if declared:
            if any(tokens[i].text in ("*", "&", "static", "__shared__", "<") for i in range(start, declared[0])):
                raise NotUnderstood("a declaration of another form")
            for a, b in split_at(tokens, declared[0], end, ","):
                if tokens[a].start in body.locals and b > a + 1 and tokens[a + 1].text == "=":
                    self.values[tokens[a].start] = self._value((a + 2, b))
                elif tokens[a].start not in body.locals or b != a + 1:
                    raise NotUnderstood("a declaration of another form")
            return
        sign = next((i for i in range(start, end) if tokens[i].text in ASSIGN), -1)
        if sign < 0:
            raise NotUnderstood("a statement that assigns nothing")
        value, target = self._value((sign + 1, end)), body.local(tokens[start])
        if sign == start + 1 and target >= 0:
            operation = tokens[sign].text[:-1]
            plain = _PLAIN.fullmatch(value)
            before = self.values.get(target, "?")
            self.values[target] = value if not operation else f"{before}{operation}{value if plain else f'({value})'}"
        elif self._value((start, sign)) == "T[I]" and tokens[sign].text == "=" and not self.stored:
            self.stored = value
        else:
            raise NotUnderstood("another store")

    def _value(self, span: Span) -> str:
        """An expression with local variables by their values, and choices made."""
        tokens, (start, end) = self.body.tokens, strip_parentheses(self.body.tokens, span)
        choices = split_at(tokens, start, end, "?")
        if len(choices) == 2:
            sides = split_at(tokens, *choices[1], ":")
            if len(sides) != 2:
                raise NotUnderstood("choices within choices")
            return self._value(sides[0] if self._holds(choices[0]) else sides[1])
        pieces, at = [], start
        while at < end:
            piece, at = self._read_piece(at, end - start == 1)
            pieces.append(piece)
        text = "".join(pieces)
        for form in _INDEX:
            text = "I" if text == form else text.replace(f"({form})", "I")
        return text

    def _read_piece(self, at: int, alone: bool) -> tuple[str, int]:
        """The value of a token, or of what is in brackets, and the next token."""
        token = self.body.tokens[at]
        if token.text in ("(", "["):
            close = find_closing(self.body.tokens, at)
            called = self.body.tokens[at - 1].identifier and token.text == "("
            parts = split_at(self.body.tokens, at + 1, close, ",") if called else [(at + 1, close)]
            inner = ",".join(self._value(part) for part in parts)
            plain = token.text == "(" and not called and _PLAIN.fullmatch(inner)
            return inner if plain else f"{token.text}{inner}{self.body.tokens[close].text}", close + 1
        place = self.body.local(token)
        if place >= 0:
            value = self.values.get(place, "?")
            return value if alone or _PLAIN.fullmatch(value) else f"({value})", at + 1
        is_member = self.body.tokens[at - 1].text == "."
        return token.text if is_member else self.names.get(token.text, token.text), at + 1


# --- the kernels that stand for all steps -----------------------------------------------------------------------------


def write_kernels(step: ScanStep, sums: str, scan: str, index: str) -> str:
    """Two kernels: `sums` combines each chunk of an array, `scan` scans each after those before it. A group has one
    chunk; `index`: the type of the number of elements."""
    words = {"T": step.type, "INDEX": index, "ITEMS": str(step.items), "TILE": str(LANES * step.items),
             "LANES": str(LANES), "WAVES": str(_WAVES), "LAST": str(step.items - 1), "NEUTRAL": step.neutral,
             "SUMS": sums, "SCAN": scan}  # fmt: skip
    text = re.sub(r"JOIN\(([^,()]+(?:\([^()]*\))?), ([^,()]+(?:\([^()]*\))?)\)",
                  lambda match: step.combine(match[1], match[2]), _KERNELS)  # fmt: skip
    return re.sub(r"\b[A-Z]+\b", lambda match: words.get(match[0], match[0]), text).strip()


_KERNELS = """
// What the elements of chunk blockIdx.x come to.
__global__ __launch_bounds__(LANES) void SUMS(const T* from, T* sums, INDEX chunk, INDEX n) {
  __shared__ T parts[WAVES];
  const INDEX first = blockIdx.x * chunk, end = n - first < chunk ? n : first + chunk;
  T sum = NEUTRAL;
  for (INDEX at = first + threadIdx.x * ITEMS; at < end; at += TILE) {
    if (at + ITEMS <= end) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) sum = JOIN(sum, from[at + k]);
    } else {
      for (INDEX i = at; i < end; ++i) sum = JOIN(sum, from[i]);
    }
  }
#pragma unroll
  for (int d = 1; d < 64; d *= 2) sum = JOIN(sum, __shfl_xor(sum, d));
  if (threadIdx.x % 64 == 0) parts[threadIdx.x / 64] = sum;
  __syncthreads();
#pragma unroll
  for (int w = 1; w < WAVES; ++w) sum = JOIN(sum, parts[w]);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// An inclusive scan of chunk blockIdx.x, in place, after the chunks before it.
__global__ __launch_bounds__(LANES) void SCAN(T* data, const T* sums, INDEX chunk, INDEX n) {
  __shared__ T parts[WAVES];
  const unsigned lane = threadIdx.x % 64, wave = threadIdx.x / 64;
  T before = NEUTRAL;
  for (unsigned k = threadIdx.x; k < blockIdx.x; k += LANES) before = JOIN(before, sums[k]);
#pragma unroll
  for (int d = 1; d < 64; d *= 2) before = JOIN(before, __shfl_xor(before, d));
  if (lane == 0) parts[wave] = before;
  __syncthreads();
  before = parts[0];
#pragma unroll
  for (int w = 1; w < WAVES; ++w) before = JOIN(before, parts[w]);
  const INDEX first = blockIdx.x * chunk, end = n - first < chunk ? n : first + chunk;
  for (INDEX start = first; start < end; start += TILE) {
    const INDEX at = start + threadIdx.x * ITEMS;
    T x[ITEMS];
    if (at + ITEMS <= end) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) x[k] = data[at + k];
    } else {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) x[k] = at + k < end ? data[at + k] : NEUTRAL;
    }
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) x[k] = JOIN(x[k - 1], x[k]);
    T sum = x[LAST];  // of this lane and those before it
#pragma unroll
    for (int d = 1; d < 64; d *= 2) {
      const T below = __shfl_up(sum, d);
      if (lane >= d) sum = JOIN(below, sum);
    }
    __syncthreads();  // the parts of the last round are read
    if (lane == 63) parts[wave] = sum;
    T carry = __shfl_up(sum, 1);
    if (lane == 0) carry = NEUTRAL;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WAVES; ++w) {
      if (w < wave) carry = JOIN(carry, parts[w]);
    }
    carry = JOIN(before, carry);
#pragma unroll
    for (int w = 0; w < WAVES; ++w) before = JOIN(before, parts[w]);
    if (at + ITEMS <= end) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) data[at + k] = JOIN(carry, x[k]);
    } else {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) {
        if (at + k < end) data[at + k] = JOIN(carry, x[k]);
      }
    }
  }
}
"""
