"""Where a script writes the meta-parameters of its Triton kernels, and the script with other ones.

A parameter is a number at a launch, in the only `triton.Config` of a kernel, or in the only assignment or default of
the variable that is passed; a compile option also an expression whose value a run has shown. Nothing of the script is
executed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.reasons import Reason
from hipsynth.source.edits import Edit, apply_edits, join_insertions
from hipsynth.source.triton_source import JitFunction, TritonSource, called_name, list_configurations
from hipsynth.tuning.trial.refusal import KernelRefusal

# Compile options, with the values that Triton takes where none is written; all are tried, written or not.
OPTIONS = {"num_warps": 4, "num_stages": 2, "waves_per_eu": 0, "matrix_instr_nonkdim": 0}
CONFIG_OPTIONS = frozenset(
    {"num_warps", "num_stages"}
)  # what triton.Config takes by name; others are in its dictionary
_BLOCK = re.compile(r"BLOCK|TILE|CHUNK|SPLIT|GROUP", re.IGNORECASE)
_COUNT = re.compile(r"SPLIT|GROUP", re.IGNORECASE)
BLOCKS, COUNTS, WARPS, STAGES = (16, 8192), (1, 32), (1, 16), (1, 4)


@dataclass(frozen=True)
class MetaParameter:
    """A parameter of a kernel: its value, and the bytes [start, end) that hold it; where start is end, it is not
    written, and an argument is added there, or (`is_item`) an item of a configuration's dictionary."""

    kernel: str
    name: str
    value: int
    places: tuple[tuple[int, int], ...]
    is_item: bool = False

    @property
    def is_block(self) -> bool:
        """Whether it is a number of elements: not a count, nor a compile option."""
        return self.name not in OPTIONS and not _COUNT.search(self.name)

    def other_values(self, now: int, has_products: bool) -> list[int]:
        """The values to try from a value; `has_products`: the kernel multiplies matrices."""
        if self.name == "waves_per_eu":
            return [value for value in (2, 1) if value != now]
        if self.name == "matrix_instr_nonkdim":
            return [value for value in (16, 32) if value != now and has_products]
        if self.name == "num_stages":
            return [value for value in (now - 1, now + 1) if STAGES[0] <= value <= STAGES[1]]
        least, most = WARPS if self.name == "num_warps" else BLOCKS if self.is_block else COUNTS
        return [value for value in (now * 2, now // 2) if least <= value <= most]


def list_parameters(
    source: TritonSource, kernel: JitFunction, options: Mapping[str, int] | None = None
) -> tuple[list[MetaParameter], KernelRefusal | None]:
    """The parameters of a kernel that can be changed; why there are none. `options`: the compile options that all its
    launches had in a run (shared_options())."""
    if kernel.configurations not in (0, 1):
        text = "it is autotuned: `synth run` times its configurations; give it one to search from there"
        return [], KernelRefusal(Reason.AUTOTUNED, text)
    launches = [call for call in ast.walk(source.tree) if isinstance(call, ast.Call) and _is_launch(call, kernel.name)]
    configs = [config for decorator in kernel.node.decorator_list if called_name(decorator) == "autotune"
               for config in list_configurations(decorator) or ()]  # fmt: skip
    if not launches:
        return [], KernelRefusal(Reason.NOT_IN_SCRIPT, "the script does not launch it by its name")
    calls = configs or launches
    constexprs = _parameters_of(kernel.node)
    names = [
        *(name for name in constexprs if _BLOCK.search(name)),
        *(name for name in OPTIONS if name not in constexprs),
    ]
    readable = [_read_parameter(source, kernel, name, calls, launches, options or {}) for name in names]
    parameters = list[MetaParameter]()
    for parameter in readable:  # several may be passed one variable
        taken = {place for other in parameters for place in other.places if place[0] < place[1]}
        if parameter is not None and not taken & set(parameter.places):
            parameters.append(parameter)
    text = "no number in the script sets its meta-parameters"
    return parameters, None if parameters else KernelRefusal(Reason.NO_LITERALS, text)


def write_values(source: TritonSource, values: Mapping[MetaParameter, int]) -> str:
    """The script with other values."""
    edits = []
    for parameter, value in values.items():
        added = f'"{parameter.name}": {value}' if parameter.is_item else f"{parameter.name}={value}"
        for start, end in parameter.places:
            is_first = source.data[:start].endswith(b"{")
            edits.append(Edit(start, end, str(value) if start < end else added if is_first else f", {added}"))
    return apply_edits(source.data, join_insertions(edits)).decode()


def shared_options(records: Iterable[KernelRecord], kernel: str) -> dict[str, int]:
    """The compile options with which a run launched a kernel, as far as all its launches had the same."""
    values_of = {name: {record.meta.get(name) for record in records if record.name == kernel} for name in OPTIONS}
    return {
        name: value
        for name, values in values_of.items()
        if len(values) == 1 and type(value := next(iter(values))) is int
    }


def _is_launch(call: ast.Call, kernel: str) -> bool:
    """Whether a call launches a kernel, `kernel[grid](...)`, or compiles it for a launch, `kernel.warmup(...)`."""
    function = call.func
    if not isinstance(function, ast.Subscript | ast.Attribute):
        return False
    is_one = isinstance(function, ast.Subscript) or function.attr == "warmup"
    return is_one and isinstance(function.value, ast.Name) and function.value.id == kernel


def _positions_of(node: ast.FunctionDef) -> dict[str, int]:
    return {argument.arg: number for number, argument in enumerate([*node.args.posonlyargs, *node.args.args])}


def _parameters_of(node: ast.FunctionDef) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [
        argument.arg
        for argument in arguments
        if argument.annotation and called_name(argument.annotation) == "constexpr"
    ]


def _read_parameter(
    source: TritonSource, kernel: JitFunction, name: str, calls: list[ast.Call], launches: list[ast.Call],
    options: Mapping[str, int],
) -> MetaParameter | None:  # fmt: skip
    """A parameter that every call writes as the same number, or an option that none writes, or whose value is known."""
    positions = _positions_of(kernel.node) if calls is launches else {}
    written = [_written_value(call, name, positions.get(name)) for call in calls]
    if not any(written):
        if calls is not launches and name not in CONFIG_OPTIONS:
            return _add_items(source, kernel.name, name, calls)
        takes_all = any(keyword.arg is None for call in calls for keyword in call.keywords)
        if name not in OPTIONS or takes_all or not all(call.args or call.keywords for call in calls):
            return None
        ends = [max(source.end_of(part) for part in [*call.args, *(k.value for k in call.keywords)]) for call in calls]
        return MetaParameter(kernel.name, name, OPTIONS[name], tuple((end, end) for end in ends))
    numbers = [_find_number(source, value) for value in written if value is not None]
    constants = [number for number in numbers if number is not None]
    if len(constants) != len(calls) or len({number.value for number in constants}) != 1:
        return _take_expressions(source, kernel, name, written, options)
    [value] = {number.value for number in constants}
    assert isinstance(value, int)
    if name not in OPTIONS and (value < 1 or value & (value - 1)):
        return None
    is_written_there = any(isinstance(node, ast.Constant) for node in written)  # else the grid may name the variable
    in_grids = [number for call in launches for number in _grid_numbers(call, name, value) if is_written_there]
    places = {(source.start_of(number), source.end_of(number)) for number in [*constants, *in_grids]}
    return MetaParameter(kernel.name, name, value, tuple(sorted(places)))


def _add_items(source: TritonSource, kernel: str, name: str, configs: list[ast.Call]) -> MetaParameter | None:
    """A compile option that the dictionary of no configuration has, and each can take."""
    if name not in OPTIONS:
        return None
    tables = [table for config in configs for table in _tables_of(config)]
    if len(tables) != len(configs):
        return None
    ends = [source.end_of(table.values[-1]) if table.values else source.start_of(table) + 1 for table in tables]
    return MetaParameter(kernel, name, OPTIONS[name], tuple((end, end) for end in ends), is_item=True)


def _tables_of(call: ast.Call) -> list[ast.Dict]:
    """The dictionaries of parameters that a configuration is given."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "kwargs"]
    return [part for part in [*call.args, *named] if isinstance(part, ast.Dict)]


def _take_expressions(
    source: TritonSource, kernel: JitFunction, name: str, written: list[ast.expr | None], options: Mapping[str, int]
) -> MetaParameter | None:
    """An option that every call computes, and that was the same at all launches: a number can stand there."""
    expressions = [value for value in written if value is not None]
    if len(expressions) != len(written) or name not in OPTIONS or name not in options:
        return None
    places = tuple(sorted({(source.start_of(value), source.end_of(value)) for value in expressions}))
    return MetaParameter(kernel.name, name, options[name], places)


def _written_value(call: ast.Call, name: str, position: int | None) -> ast.expr | None:
    """What a launch, or a configuration's dictionary or keywords, gives a parameter; `position`: its place among the
    arguments of a launch."""
    if position is not None and position < len(call.args):
        is_clear = not any(isinstance(part, ast.Starred) for part in call.args[: position + 1])
        return call.args[position] if is_clear else None
    pairs: list[tuple[object, ast.expr]] = [(keyword.arg, keyword.value) for keyword in call.keywords]
    for part in _tables_of(call):
        pairs += [(key.value, value) for key, value in zip(part.keys, part.values, strict=True)
                  if isinstance(key, ast.Constant)]  # fmt: skip
    return next((value for key, value in pairs if key == name), None)


def _find_number(source: TritonSource, value: ast.expr) -> ast.Constant | None:
    """The number that an expression is; of a variable, that of its only assignment or default."""
    if _is_number(value):
        assert isinstance(value, ast.Constant)
        return value
    if not isinstance(value, ast.Name):
        return None
    bindings = list(_bindings_of(source, value.id))
    return bindings[0] if len(bindings) == 1 and isinstance(bindings[0], ast.Constant) else None


def _is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _bindings_of(source: TritonSource, name: str) -> Iterator[ast.Constant | None]:
    """Everything that gives a variable of host code a value: the number, or None for something else."""
    kernels = {function.node for function in source.functions}
    numbers = dict[ast.AST, ast.Constant]()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            numbers |= _assigned_numbers(node)
        elif isinstance(node, ast.FunctionDef | ast.Lambda) and node not in kernels:
            arguments = [*node.args.posonlyargs, *node.args.args]
            defaults = zip(arguments[::-1], node.args.defaults[::-1], strict=False)
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, default in [*defaults, *named]:
                if isinstance(default, ast.Constant) and _is_number(default):
                    numbers[argument] = default
            yield from (numbers.get(parameter) for parameter in [*arguments, *node.args.kwonlyargs]
                        if parameter.arg == name)  # fmt: skip
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            yield numbers.get(node)


def _assigned_numbers(node: ast.Assign | ast.AnnAssign) -> dict[ast.AST, ast.Constant]:
    """The numbers that an assignment gives to its targets, each or (`a, b = 1, 2`) one by one."""
    pairs = list[tuple[ast.expr, ast.expr | None]]()
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        value = node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs += zip(target.elts, value.elts, strict=True)
        else:
            pairs.append((target, value))
    return {target: value for target, value in pairs if isinstance(value, ast.Constant) and _is_number(value)}


def _grid_numbers(launch: ast.Call, name: str, value: int) -> list[ast.Constant]:
    """The numbers by which a launch's grid is divided and that are a parameter's: the only one that is equal, or the
    one whose dividend has the letter of the parameter's name (M of BLOCK_M)."""
    if _COUNT.search(name) or name in OPTIONS or not isinstance(launch.func, ast.Subscript):
        return []
    divisions = [(node.args[0], node.args[1]) for node in ast.walk(launch.func.slice)
                 if isinstance(node, ast.Call) and called_name(node) == "cdiv" and len(node.args) == 2]  # fmt: skip
    divisions += [(node.left, node.right) for node in ast.walk(launch.func.slice)
                  if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)]  # fmt: skip
    equal = [(size, by) for size, by in divisions if isinstance(by, ast.Constant) and by.value == value]
    matching = [by for size, by in equal if called_name(size).upper() == name.rpartition("_")[2].upper()]
    return matching or ([by for _, by in equal] if len(equal) == 1 else [])
