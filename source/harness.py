"""A main() for kernels without one: buffers, values and launches made from their signatures."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hipsynth.core.errors import BadInput, HipsynthError, UsageError, suggest_name
from hipsynth.core.kernel_record import Dim
from hipsynth.core.name_patterns import check_kernel_pattern, matches_name
from hipsynth.core.reasons import Reason
from hipsynth.source.branches import blank_untaken_branches
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter
from hipsynth.source.includes import include_runtime, includes_own_files
from hipsynth.source.launch_code import HEAD, OTHER_NUMBER, KernelLaunchPlan, check_arguments, write_launch
from hipsynth.source.launch_shapes import (
    MOST_GROUP_ITEMS,
    count_groups,
    find_indexed_block,
    find_item_counts,
    find_launch_block,
    find_launch_bound,
    find_launch_grid,
    find_launch_numbers,
    find_row_lengths,
)
from hipsynth.source.outline import blank_opaque, find_namespaces, outline_kernels, without_comments
from hipsynth.source.scalar_types import describe_guess, find_type_definitions, is_size_type
from hipsynth.source.template_arguments import (
    choose_template_arguments,
    fill_in_types,
    is_specialisation,
    list_explicit_instances,
)
from hipsynth.source.torch_sources import keep_device_code, uses_pytorch

ITEMS = 1 << 20  # work-items of a launch whose shape nobody gave: they fill every device
MOST_ITEMS = 1 << 25  # of one that host code gives
LEAST_SIDE = 16  # of sizes for which host code gives a grid
SIDE = 1 << 10  # of two dimensions
FLAT_BLOCK, SQUARE_BLOCK = (256, 1, 1), (16, 16, 1)
DYNAMIC_LDS = 16 << 10  # bytes of it, for kernels that use it
MOST_INSTANCES = 16  # of a template that are launched
_MAIN = re.compile(r"\bmain\s*\(")
_SECOND = re.compile(r"\b(?:threadIdx|blockIdx|hipThreadIdx|hipBlockIdx)(?:\.|_)y\b")
_DYNAMIC = re.compile(r"\bextern\s+(?:__align__\([^)]*\)\s*)?__shared__|\bHIP_DYNAMIC_SHARED\b")
_DEFINES_MARK = re.compile(r"^[ \t]*#[ \t]*define\b.*__global__", re.MULTILINE)
HOST_CODE = "host code"  # what a line that is about no kernel is about
HOW_TO_CHOOSE = "choose with --grid, --block and --value NAME=N"


@dataclass(frozen=True)
class HarnessChoices:
    """What the user chose of the launches: work-groups, work-items, arguments by name. `arguments`: of the command
    line, which set the sizes of main(); `kernel`: a pattern of the names of those that are launched, "" for all."""

    grid: Dim | None = None
    block: Dim | None = None
    values: Mapping[str, float] | None = None
    arguments: Sequence[str] = ()
    kernel: str = ""

    def __post_init__(self) -> None:
        check_block(self.block)

    def __bool__(self) -> bool:
        return bool(self.grid or self.block or self.values)


@dataclass(frozen=True)
class HarnessedProgram:
    """The text with its main(), and by kernel a line that says what was assumed of its launch."""

    text: str
    assumed: Mapping[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.assumed.values())


def lacks_main(text: str) -> bool:
    """Whether a text has kernels and no main()."""
    text = blank_untaken_branches(text)
    return not _MAIN.search(blank_opaque(text)) and bool(outline_kernels(text))


def choose_launches(text: str, choices: HarnessChoices, careful: bool = False) -> list[KernelLaunchPlan]:
    """The launch of each kernel of a text, in source order: as chosen, else as host code launches it, else work-items
    that fill every device. `careful`: sizes for kernels that index with products of many of their arguments."""
    hosts = _read_host(blank_untaken_branches(text))
    launches = [(host, _choose_like_host(host, choices, careful)) for host in hosts]
    return [replace(plan, lds_bytes=host.lds_bytes, namespaces=host.namespaces) for host, plan in launches]


@dataclass(frozen=True)
class _HostLaunch:
    """A kernel that a text defines, and how its host code launches it. `is_flat`: the kernel uses one dimension of its
    launch alone; `block`: the usual one if the host code gives none in numbers; `extents`: the grid, () if it is not
    known; `integers`: the parameters that may be sizes; `numbers`: of those that the host code gives in numbers;
    `row_lengths`: of rows; `namespaces`: around it."""

    kernel: FunctionDeclaration
    is_flat: bool
    block: Dim
    lds_bytes: int
    extents: tuple[str, ...]
    integers: tuple[FunctionParameter, ...]
    numbers: Mapping[str, int]
    row_lengths: tuple[str, ...]
    namespaces: str


@functools.lru_cache(maxsize=16)
def _read_host(text: str) -> tuple[_HostLaunch, ...]:
    code = blank_opaque(text)
    kernels = _list_launched_kernels(text)
    bodies = [code[slice(*kernel.body)] for kernel in kernels]
    flat = [not _SECOND.search(body) for body in bodies]
    types = find_type_definitions(text) if kernels else {}
    sizes = [_list_integers(kernel, types) for kernel in kernels]
    return tuple(
        _HostLaunch(
            kernel,
            is_flat,
            find_launch_block(text, kernel.name)
            or find_indexed_block(text, kernel)
            or _shrink_block(FLAT_BLOCK if is_flat else SQUARE_BLOCK, find_launch_bound(text, kernel)),
            DYNAMIC_LDS if _DYNAMIC.search(body) else 0,
            find_launch_grid(text, kernel) or (),
            integers,
            find_launch_numbers(text, kernel),
            find_row_lengths(body, [parameter.name for parameter in integers]),
            find_namespaces(text, kernel.start) if "namespace" in code else "",
        )
        for kernel, is_flat, body, integers in zip(kernels, flat, bodies, sizes, strict=True)
    )


def _list_launched_kernels(text: str) -> list[FunctionDeclaration]:
    """The kernels that a text defines; full specialisations count as instances of their template, where it is there."""
    kernels = outline_kernels(text)
    templates = {kernel.name for kernel in kernels if kernel.template and not is_specialisation(kernel)}
    return [kernel for kernel in kernels if not (kernel.name in templates and is_specialisation(kernel))]


def _list_integers(kernel: FunctionDeclaration, types: Mapping[str, str]) -> tuple[FunctionParameter, ...]:
    types = {name: definition for name, definition in types.items() if name not in kernel.template_names}
    return tuple(p for p in kernel.parameters if not p.base and is_size_type(p.type, types) and "*" not in p.text)


def _shrink_block(block: Dim, bound: int) -> Dim:
    """The block with so many rows, and so long ones, that it has at most `bound` work-items."""
    width = min(block[0], bound)
    return width, min(block[1], bound // width), 1


def _choose_like_host(host: _HostLaunch, choices: HarnessChoices, careful: bool) -> KernelLaunchPlan:
    """A launch with the grid that host code gives, unless the user chose one: with the largest sizes that nobody gave
    for which it is not too large. Without such a grid, of work-items that fill a device."""
    usual = launch = _choose_launch(host, choices, careful)
    if choices.grid or not host.extents:
        return usual
    while max(launch.numbers.values(), default=0) >= LEAST_SIDE:
        grid = count_groups(host.extents, launch.numbers)
        items = math.prod(grid) * math.prod(launch.block) if grid is not None else 0
        if grid is not None and items <= MOST_ITEMS:
            return replace(launch, grid=grid, sized=(), extents=host.extents, elements=max(launch.elements, items))
        fixed_names = {*(choices.values or {}), *host.numbers}
        halves = {name: value // 2 for name, value in launch.numbers.items() if name not in fixed_names}
        if grid is None or not halves:
            break
        launch = replace(launch, numbers={**launch.numbers, **halves})
    return usual


def _choose_launch(host: _HostLaunch, choices: HarnessChoices, careful: bool) -> KernelLaunchPlan:
    kernel, is_flat, has_rows, integers = host.kernel, host.is_flat, bool(host.row_lengths), host.integers
    block = choices.block or host.block
    side = ITEMS if is_flat and len(integers) < 2 and not has_rows else SIDE
    if careful and integers:
        side = min(side, 1 << ITEMS.bit_length() // max(2, len(integers)))
    fixed_numbers = {**host.numbers, **(choices.values or {})}
    numbers = {p.name: float(fixed_numbers.get(p.name, side)) for p in integers}
    is_by_row = is_flat and (has_rows or (careful and len(integers) > 1))  # a group may be one of as many rows
    sized = () if choices.grid or is_by_row else _name_extents(is_flat, numbers)
    grid = choices.grid or ((side, 1, 1) if is_by_row else _fill_grid(is_flat, block, [numbers[n] for n in sized]))
    plan = KernelLaunchPlan(kernel, grid, block, numbers, 1, sized, careful=careful, has_rows=has_rows or careful)
    return replace(plan, elements=_count_elements(plan))


def _count_elements(plan: KernelLaunchPlan) -> int:
    """The least length of a plan's buffers, as main() counts it."""
    groups, items = math.prod(plan.grid), math.prod(plan.grid) * math.prod(plan.block)
    most, times = plan.buffer_room
    sizes = sorted((max(1.0, size) for size in plan.numbers.values()), reverse=True)
    if not sizes:
        return max(items, 1)
    rows = (items if plan.careful and len(sizes) == 1 else groups) * sizes[0] if plan.has_rows else 1
    return int(max(items, times * math.prod(sizes[:most]), rows, 1))


def _choose_instances(text: str, launch: KernelLaunchPlan) -> Iterator[KernelLaunchPlan]:
    """The launch of an instance of its kernel's template, with parameters of its types, and of all instances that the
    text makes explicitly. Raises BadInput for templates that none can be chosen of."""
    kernel = launch.kernel
    if not kernel.template:
        yield launch
        return
    item_counts = find_item_counts(text, kernel, launch.block)
    chosen = choose_template_arguments(text, kernel, math.prod(launch.block), item_counts)
    others = [template for template in list_explicit_instances(text, kernel) if template != chosen]
    for template in (chosen, *others[: MOST_INSTANCES - 1]):
        parameters = tuple(replace(p, text=fill_in_types(p.text, template)) for p in kernel.parameters)
        yield replace(launch, kernel=replace(kernel, parameters=parameters), template=template)


def _choose_launchable(
    text: str, plans: Iterable[KernelLaunchPlan], is_chosen: bool
) -> tuple[list[KernelLaunchPlan], dict[str, str]]:
    """(the launches of all instances whose arguments can be made; by kernel, why it is not launched). Raises BadInput
    if no kernel remains, or one cannot be launched that the user chose."""
    launches: list[KernelLaunchPlan] = []
    errors: dict[str, BadInput] = {}
    for plan in plans:
        try:
            instances = [*_choose_instances(text, plan)]
            for instance in instances:
                check_arguments(instance.kernel)
            launches += instances
        except BadInput as error:
            if is_chosen:
                raise
            errors.setdefault(plan.kernel.name, error)
    if errors and not launches:
        raise next(iter(errors.values()))
    return launches, {name: f"not launched: {error.what}" for name, error in errors.items()}


def add_harness(text: str, choices: HarnessChoices, careful: bool = False) -> HarnessedProgram:
    """Adds a main() behind the text, whose lines keep their numbers; it launches each kernel once, of a template each
    explicit instance, with integer arguments that its own arguments may set. Of an extension of PyTorch, the device
    code alone stays.

    Kernels whose arguments cannot be made are left out, with a line that says so. Raises UsageError for values of no
    argument, BadInput if no kernel remains, or one that the user chose cannot be launched.
    """
    check_argument_names(text, choices.values or {})
    for name, value in (choices.values or {}).items():
        if not math.isfinite(value):
            raise UsageError(f"{name} = {value}", cause="not a finite number", remedy="choose a finite one")
    is_extension = uses_pytorch(text)
    text, plans = _leave_out_others(text, choose_launches(text, choices, careful), choices.kernel)
    compiled_text = blank_untaken_branches(text)
    launches, problems = _choose_launchable(compiled_text, plans, bool(choices.kernel))
    variables = _name_sizes(launches)
    words = dict(zip(variables, choices.arguments, strict=False))
    lines = [
        f"  const long long {variable} = argc > {at} ? std::atoi(argv[{at}]) : {int(value)};"
        for at, ((_, value), variable) in enumerate(variables.items(), 1)
    ]
    lines += [write_launch(launch, choices.values or {}, variables) for launch in launches]
    head = "int main(int argc, char** argv) {\n  (void)argc, (void)argv;"
    body = "\n".join(lines)
    main = f"{head}\n{body}\n  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;\n}}\n"
    assumed = _note_launches(compiled_text, launches, choices.values or {}, words)
    for name, problem in problems.items():
        assumed[name] = f"{assumed[name]}; {problem}" if name in assumed else problem
    if is_extension:
        text = keep_device_code(text)
        assumed |= {HOST_CODE: "host code that uses PyTorch is left out"}
    return HarnessedProgram(f"{include_runtime(text).rstrip()}\n{HEAD}{main}", assumed)


def _note_launches(
    text: str,
    launches: Iterable[KernelLaunchPlan],
    values: Mapping[str, float],
    words: Mapping[tuple[str, float], str],
) -> dict[str, str]:
    """By kernel, a line that says what is assumed of its launches, the other instances of its template by their names.
    `words`: of the command line, which replace sizes."""
    assumed: dict[str, str] = {}
    for launch in launches:
        name = launch.kernel.name
        if name in assumed:
            assumed[name] += f"; {launch.instance} alike"
            continue
        structures = _find_structures(text, launch)
        guesses = _note_guesses(text, launch, {*values, *structures})
        assumed[name] = _harness_note(_apply_arguments(launch, words), structures) + guesses
    return assumed


def _leave_out_others(
    text: str, launches: Sequence[KernelLaunchPlan], pattern: str
) -> tuple[str, list[KernelLaunchPlan]]:
    """(the text with empty bodies of kernels that do not match, so that none of them fails; the launches of those that
    match). A template's arguments in the pattern are not compared. Raises UsageError if no kernel matches."""
    if not pattern:
        return text, list(launches)
    name_pattern = pattern.partition("<")[0].rpartition("::")[2]
    check_kernel_pattern(name_pattern, [launch.kernel.name for launch in launches])
    matching = [launch for launch in launches if matches_name(launch.kernel.name, name_pattern)]
    for kernel in outline_kernels(text):
        if matches_name(kernel.name, name_pattern):
            continue
        start, end = kernel.body
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text, matching


def ensure_main(text: str, choices: HarnessChoices | None = None) -> HarnessedProgram:
    """The text with a main(): unchanged and without notes if it has one or no kernels. Raises as `add_harness`."""
    return add_harness(text, choices or HarnessChoices()) if lacks_main(text) else HarnessedProgram(text, {})


def complete_text(text: str, choices: HarnessChoices, careful: bool = False) -> HarnessedProgram | None:
    """The text with a main(); None if it has one, is half-written, or its kernels' arguments cannot be made."""
    code = blank_opaque(text)
    if code.count("{") != code.count("}") or not lacks_main(text):
        return None
    with contextlib.suppress(HipsynthError):
        return add_harness(text, choices, careful)
    return None


def check_block(block: Dim | None) -> None:
    """Raises UsageError for a work-group that no device starts."""
    if block is not None and math.prod(block) > MOST_GROUP_ITEMS:
        raise UsageError(
            f"work-groups of {' x '.join(map(str, block))} work-items",
            cause=f"a work-group has at most {MOST_GROUP_ITEMS}",
            remedy="choose a smaller block",
            reason=Reason.BAD_CONFIGURATION,
        )


def check_argument_names(text: str, names: Iterable[str], others: Collection[str] = ()) -> None:
    """Raises UsageError for a name that is neither an argument of a kernel nor one of `others`. Texts with macros or
    headers of their own may have kernels that are not seen here: any of their words counts."""
    known_names = [parameter.name for kernel in outline_kernels(text) for parameter in kernel.parameters]
    elsewhere = _DEFINES_MARK.search(text) or includes_own_files(text)
    words = set(re.findall(r"\w+", without_comments(text))) if elsewhere else set()
    for name in names:
        if name in known_names or name in others or name in words:
            continue
        cause = suggest_name(name, [*known_names, *others])
        remedy = f"arguments: {', '.join(dict.fromkeys(filter(None, known_names))) or 'none'}"
        raise UsageError(f"{name}: no kernel has an argument of this name", cause=cause, remedy=remedy)


def needs_care(reason: Reason) -> bool:
    """Whether a run's failure may be one of sizes that nobody gave: accesses outside its buffers, or endless work."""
    return reason in (Reason.ILLEGAL_ACCESS, Reason.TIMEOUT, Reason.INSTRUCTION_LIMIT)


def _find_structures(text: str, launch: KernelLaunchPlan) -> list[str]:
    """The parameters whose types are structures of the text, of which nobody knows what to put in."""
    names = set(re.findall(r"\b(?:struct|class|union)\s+([A-Za-z_]\w*)", blank_opaque(text)))
    return [p.name for p in launch.kernel.parameters if not p.base and names & set(re.findall(r"\w+", p.type))]


def _harness_note(launch: KernelLaunchPlan, structures: Sequence[str]) -> str:
    buffers = ", ".join(p.name for p in launch.kernel.parameters if p.base)
    sized = f"; {buffers} of {launch.elements:,} elements" if buffers else ""
    zeros = f"; {', '.join(structures)}: all zeros, pointers among them" if structures else ""
    return f"no main(): {launch.describe()}{sized}{zeros}"


def _note_guesses(text: str, launch: KernelLaunchPlan, others: Collection[str]) -> str:
    """What is assumed of the scalars that are neither floating-point nor truths, sizes, nor any of the others."""
    types = find_type_definitions(text)
    scalars = [p for p in launch.kernel.parameters if not p.base and p.name not in {*others, *launch.numbers}]
    guesses = [(p.name or p.type, describe_guess(p.type, types, OTHER_NUMBER)) for p in scalars]
    listed = ", ".join(f"{name} = {guess}" for name, guess in guesses if guess)
    return f"; nobody chose {listed}" if listed else ""


def _apply_arguments(launch: KernelLaunchPlan, words: Mapping[tuple[str, float], str]) -> KernelLaunchPlan:
    """The launch as main() makes it where words of the command line replace the integer arguments that they are for."""
    numbers = {name: _read_size(words.get((name, size)), size) for name, size in launch.numbers.items()}
    if numbers == launch.numbers:
        return launch
    sides = [math.ceil(numbers[name] / side) for name, side in zip(launch.sized, launch.block, strict=False)]
    x, y, z = *sides, *launch.grid[len(sides) :]
    grid = (count_groups(launch.extents, numbers) if launch.extents else None) or (x, y, z)
    changed = replace(launch, numbers=numbers, grid=grid)
    return replace(changed, elements=_count_elements(changed))


def _read_size(word: str | None, default: float) -> float:
    """The integer that std::atoi() reads of a word; the default without one."""
    digits = re.match(r"\s*[-+]?\d+", word or "")
    return default if word is None else float(digits[0]) if digits else 0.0


def _name_sizes(launches: Iterable[KernelLaunchPlan]) -> dict[tuple[str, float], str]:
    """The variable of main() for each integer argument and default: arguments of one name and default share it."""
    variables: dict[tuple[str, float], str] = {}
    for launch in launches:
        for name, value in launch.numbers.items():
            others = sum(other == name for other, _ in variables)
            variables.setdefault((name, value), f"{name}_value{others + 1 if others else ''}")
    return variables


def _name_extents(is_flat: bool, numbers: Mapping[str, float]) -> tuple[str, ...]:
    """The arguments that the dimensions of a grid cover: the only one, or the largest one or two."""
    largest = sorted(numbers, key=lambda name: -numbers[name])
    if is_flat:
        return tuple(largest) if len(largest) == 1 else ()
    return (largest[0], largest[min(1, len(largest) - 1)]) if largest else ()


def _fill_grid(is_flat: bool, block: Dim, extents: Sequence[float]) -> Dim:
    """A work-item for each element of the extents; without any, as many as fill a device."""
    if is_flat:
        count = extents[0] if extents else ITEMS
        return (max(1, math.ceil(count / math.prod(block))), 1, 1)
    width, height = extents or (SIDE, SIDE)
    return (max(1, math.ceil(width / block[0])), max(1, math.ceil(height / block[1])), 1)
