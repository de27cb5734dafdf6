"""Finds sums of products of two loads each, which matrix instructions can add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Definition, StagedLoad, TiledLoop


class MatrixRefusal(StrEnum):
    """Why a loop is not written with matrix instructions."""

    NOT_A_PRODUCT = "a statement of the loop that does not add a product of two loads"
    ONE_AXIS = "a product of two loads along one axis"
    SUM_TYPE = "sums that are neither float nor double, or of both types"
    ROUNDED_PRODUCT = "a product that is rounded to a narrower type than that of the sum"
    ROUNDED_OPERAND = "an operand that is rounded, or of a type that is not known"


# Floating-point types; a wider one has all values of a narrower one.
_WIDTHS = {"_Float16": 1, "__half": 1, "half": 1, "hip_bfloat16": 1, "__hip_bfloat16": 1, "float": 2, "double": 3}
SUM_TYPES = ("float", "double")
_CONVERSIONS = {"__half2float": "float", "__bfloat162float": "float"}
_FACTOR = r"(?:\((?:float|double)\)@\d+|(?:static_cast<(?:float|double)>|float|double|\w+2float)\(@\d+\)|@\d+)"
_ADDS = re.compile(
    rf"(?P<sum>\w+)(?:\+=(?P<a>{_FACTOR})\*(?P<b>{_FACTOR})"
    rf"|=(?P=sum)\+(?P<c>{_FACTOR})\*(?P<d>{_FACTOR})|=(?P<e>{_FACTOR})\*(?P<f>{_FACTOR})\+(?P=sum)"
    rf"|=(?P<fma>fmaf?|__fmaf?_rn)\((?P<g>{_FACTOR}),(?P<h>{_FACTOR}),(?P=sum)\));"
)


@dataclass(frozen=True)
class Factor:
    """A load with the type to which the source converts it."""

    load: StagedLoad
    type: str


@dataclass(frozen=True)
class ProductSum:
    """A statement that adds the product of loads along x and along y to a sum."""

    sum: Definition
    factors: dict[int, StagedLoad]  # by axis


@dataclass
class ProductFinder:
    """Reads the statements of a loop."""

    tiling: TiledLoop
    subscripts: tuple[Statement, ...]  # statements that declare only what subscripts are made of

    def find(self) -> tuple[ProductSum, ...]:
        """The sums of products, in the order of the source. Raises NotUnderstood for any other statement."""
        self._factors: list[Factor] = []
        self._named: dict[int, int] = {}  # declarations of local constants that are factors -> number
        products = [product for statement in self.tiling.steps for product in self._read_statement(statement)]
        sums = {product.sum.place: product.sum for product in products}
        if len({self._resolve(local.type) for local in sums.values()}) != 1:
            raise NotUnderstood(MatrixRefusal.SUM_TYPE)
        return tuple(products)

    def _resolve(self, kind: str) -> str:
        return self.tiling.body.kernel.resolve_type(kind)

    def _read_statement(self, statement: Statement) -> Iterator[ProductSum]:
        if statement in self.subscripts:
            return
        declared = [d for d in self.tiling.definitions if statement.start <= d.value[0] < statement.end]
        if declared:
            for definition in declared:
                self._name_factor(definition)
            return
        matched = _ADDS.fullmatch("".join(self._mark(statement.start, statement.end)))
        place = self.tiling.body.local(self.tiling.body.tokens[statement.start])
        local = next((candidate for candidate in self.tiling.sums if candidate.place == place), None)
        if matched is None or local is None:
            raise NotUnderstood(MatrixRefusal.NOT_A_PRODUCT)
        if self._resolve(local.type) not in SUM_TYPES:
            raise NotUnderstood(MatrixRefusal.SUM_TYPE)
        texts = [text for name, text in matched.groupdict().items() if text and name not in ("sum", "fma")]
        yield self._check_product(local, [self._read_factor(text) for text in texts], matched["fma"] or "")

    def _name_factor(self, definition: Definition) -> None:
        """A local constant that is a load, perhaps converted."""
        text = "".join(self._mark(*definition.value))
        kind = self._resolve(definition.type.removeprefix("const "))
        if not re.fullmatch(_FACTOR, text):
            raise NotUnderstood(MatrixRefusal.NOT_A_PRODUCT)
        factor = self._read_factor(text)
        if not _converts_exactly(factor.type, kind):
            raise NotUnderstood(MatrixRefusal.ROUNDED_OPERAND)
        self._named[definition.place] = len(self._factors)
        self._factors.append(Factor(factor.load, kind))

    def _mark(self, start: int, end: int) -> Iterator[str]:
        """The words of a statement, with "@" and a number for each factor."""
        tokens, at = self.tiling.body.tokens, start
        loads = {a: load for load in self.tiling.loads for a in load.places}
        while at < end:
            number = self._named.get(self.tiling.body.local(tokens[at]))
            if at in loads:
                self._factors.append(Factor(loads[at], self._resolve(loads[at].type)))
                yield f"@{len(self._factors) - 1}"
                at += loads[at].span[1] - loads[at].span[0]
                continue
            yield f"@{number}" if number is not None else self._resolve(tokens[at].text)
            at += 1

    def _read_factor(self, text: str) -> Factor:
        factor = self._factors[int(text[text.index("@") + 1 :].rstrip(")"))]
        conversion = re.search(r"\w*2float|float|double", text)
        kind = _CONVERSIONS.get(conversion[0], conversion[0]) if conversion else factor.type
        if not _converts_exactly(factor.type, kind):
            raise NotUnderstood(MatrixRefusal.ROUNDED_OPERAND)
        return Factor(factor.load, kind)

    def _check_product(self, local: Definition, factors: list[Factor], function: str) -> ProductSum:
        """Raises NotUnderstood for a product that matrix instructions do not add as precisely as the source does, or
        more precisely."""
        if {factor.load.axis for factor in factors} != {0, 1}:
            raise NotUnderstood(MatrixRefusal.ONE_AXIS)
        kinds, sum_type = {factor.type for factor in factors}, self._resolve(local.type)
        if function:
            kinds.add("double" if sum_type == "double" and function not in ("fmaf", "__fmaf_rn") else "float")
        if not kinds <= _WIDTHS.keys():
            raise NotUnderstood(MatrixRefusal.ROUNDED_OPERAND)
        if max(kinds, key=_WIDTHS.__getitem__) != sum_type:
            raise NotUnderstood(MatrixRefusal.ROUNDED_PRODUCT)
        return ProductSum(local, {factor.load.axis: factor.load for factor in factors})


def _converts_exactly(one: str, other: str) -> bool:
    """Whether a type has all values of another one."""
    return one == other or (one in _WIDTHS and other in _WIDTHS and _WIDTHS[one] < _WIDTHS[other])
