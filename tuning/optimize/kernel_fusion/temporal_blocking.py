"""Temporal blocking: a launch makes many passes of a loop over arrays, whose work-items read neighbours' elements.

Of a loop such as `for (int d = 2; d <= n; ++d)` that does nothing but compute numbers, launch a kernel and swap arrays,
a launch takes up to 128 passes. A group keeps a tile of each array in the LDS: elements of its own, and a halo on which
their values will depend. It computes the halo for itself, less of it after each pass, and stores its own elements to
copies of the arrays, since other groups read them as their halo. The next launch goes from the copies to the arrays.

Each work-item writes one place, the same in all arrays, and reads at known distances from it. The host looks at run
time whether the arrays are allocations of their own and of one size; else, the loop remains.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.tokens import split_at, text_between
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.macro_expansion import names_numbers_alone
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.group_places import check_repeatable_body
from hipsynth.tuning.optimize.kernel_fusion.host_loop import HostLoop, HostVariables, read_host_loop
from hipsynth.tuning.optimize.kernel_fusion.item_numbers import number_items
from hipsynth.tuning.optimize.kernel_fusion.item_places import ItemPlaces, find_places
from hipsynth.tuning.optimize.kernel_fusion.joinable_kernels import check_arrays_known, check_joinable
from hipsynth.tuning.optimize.kernel_fusion.temporal_source import StagedArray, TemporalSource
from hipsynth.tuning.optimize.program_edits import edit_program

LANES = 512
HALO = LANES // 4  # elements of a tile that other groups compute, too
MOST_PASSES = 128  # in a launch
LEAST_PASSES = 8
MOST_BYTES = 32 << 10  # of a group's tiles, so that two groups fit on a CU
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(?:\.(?:data|get)\(\))?")


def find_temporal_blocks(program: ParsedProgram) -> Iterator[Fusion]:
    """The program with many passes of such a loop in a launch, for each loop."""
    for kernel in program.kernels:
        for launch in kernel.launches:
            with contextlib.suppress(NotUnderstood):
                yield _BlockedLoop(program, launch, kernel, read_host_loop(program, launch)).write_program()


@dataclass(frozen=True)
class _BlockedLoop:
    program: ParsedProgram
    launch: LaunchStatement
    kernel: KernelDefinition
    loop: HostLoop

    def write_program(self) -> Fusion:
        """Raises NotUnderstood for loops and kernels of another form."""
        program, kernel, loop = self.program, self.kernel, self.loop
        launched = [each for k in program.kernels for each in k.launches if loop.start <= each.start < loop.end]
        if launched != [self.launch]:
            raise NotUnderstood("a loop of more launches than one")
        item, edits = number_items(program, self.launch, kernel)
        call = FusedLaunch(program, self.launch, kernel)
        call.body.check_plain()
        check_joinable(program, kernel)
        check_arrays_known(program, kernel)
        if not call.takes_arrays_and_numbers() or not names_numbers_alone(program, kernel):
            raise NotUnderstood("a structure or a macro that may name arrays")
        check_repeatable_body(call, "")
        host = HostVariables(program, loop, ((self.launch, kernel),))
        arrays = tuple(self._find_staged(call, host))
        places = find_places(call.body, frozenset(name for array in arrays for name in array.parameters))
        source = TemporalSource(
            program, self.launch, kernel, loop, host, arrays, places, self._count_passes(places), LANES,
            self._read_head(), item,
        )  # fmt: skip
        text = edit_program(program, source.write_edits(edits))
        return Fusion(text, source.name, (kernel.name,), many_passes=True)

    def _count_passes(self, places: ItemPlaces) -> int:
        """How many passes a launch makes: an even number, so that swapped arrays are where they were."""
        reach = places.largest - places.least
        passes = min(MOST_PASSES, HALO // reach) // 2 * 2 if reach else MOST_PASSES
        if passes < LEAST_PASSES:
            raise NotUnderstood("elements that are read too far away")
        return passes

    def _read_head(self) -> tuple[str, str, str, str]:
        """(Type, name, first value, condition) of a loop that counts upwards by one. Raises NotUnderstood otherwise."""
        program, tokens = self.program, self.program.tokens
        parts = split_at(tokens, *self.loop.expressions[0], ";")
        start, end = parts[0]
        equals = next(i for i in range(start, end) if tokens[i].text == "=")
        name = tokens[equals - 1].text
        condition = [token.text for token in tokens[slice(*parts[1])]]
        step = "".join(token.text for token in tokens[slice(*parts[2])])
        is_sum = len(split_at(tokens, start, end, ",")) == 1 and not {"&&", "||", "?"} & set(condition)
        if not is_sum or condition[:1] != [name] or condition[1] not in ("<", "<="):
            raise NotUnderstood("a loop that does not end at a number")
        if step not in (f"++{name}", f"{name}++", f"{name}+=1"):
            raise NotUnderstood("a loop that does not count upwards by one")
        value, bound = text_between(program.unit, tokens, equals + 1, end), "".join(condition[2:])
        if value.isdecimal() and bound.isdecimal() and int(bound) - int(value) < LEAST_PASSES:
            raise NotUnderstood("too few passes")
        kind = text_between(program.unit, tokens, start, equals - 1)
        if kind not in ("int", "unsigned", "unsigned int", "long", "size_t", "std::size_t"):
            raise NotUnderstood("a loop over other numbers")
        return kind, name, value, text_between(program.unit, tokens, *parts[1])

    def _find_staged(self, call: FusedLaunch, host: HostVariables) -> Iterator[StagedArray]:
        """The arrays that passes write or swap: arrays of pointers first. Raises NotUnderstood where they have several
        types."""
        families = {name: count for name in self._find_families(host) if (count := _count_pointers(host, name))}
        by_name: dict[str, list[str]] = {}
        changed = set(self.loop.swapped)
        for parameter in self.kernel.parameters:
            if not parameter.base:
                continue
            passed = call.passed[parameter.name]
            name = passed.partition("[")[0] if passed.partition("[")[0] in families else passed
            by_name.setdefault(name, []).append(parameter.name)
            named = [i for i in range(self.kernel.first, self.kernel.last) if call.uses_name(i, parameter.name)]
            if not parameter.constant and any(call.writes(i) for i in named):
                changed.add(name)
        kinds = {p.name: p.base for p in self.kernel.parameters}
        types = {kinds[parameter] for name in changed for parameter in by_name.get(name, ())}
        size = type_bytes(next(iter(types))) if len(types) == 1 else None
        if size is None or not changed <= by_name.keys():
            raise NotUnderstood("arrays of several types, or of one that is not known")
        total = 0
        for name in sorted(changed, key=lambda name: (name not in families, list(by_name).index(name))):
            if name not in families and not _PLAIN_NAME.fullmatch(name):
                raise NotUnderstood("an array that may be part of another one")
            yield StagedArray(name, total, families.get(name, 0), tuple(by_name[name]), next(iter(types)))
            total += families.get(name, 1)
        if total * LANES * size > MOST_BYTES:
            raise NotUnderstood("too many arrays")

    def _find_families(self, host: HostVariables) -> list[str]:
        """The arrays of pointers that the loop names."""
        return list(dict.fromkeys(argument.partition("[")[0] for argument in host.arguments if "[" in argument))


def _count_pointers(host: HostVariables, name: str) -> int:
    return sum(re.fullmatch(rf"{re.escape(name)}\[\d+\]", argument) is not None for argument in host.arguments)
