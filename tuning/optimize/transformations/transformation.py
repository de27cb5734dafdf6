"""The interface of a transformation: when it applies, which plans it offers, and how it changes the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView

# Units of the timing model that limit kernels, in groups that several transformations help.
MEMORY = ("vl1d", "l2", "latency", "hbm", "infinity", "fabric")
WORK = ("dispatch", "latency", "atomics", "hbm", "infinity", "salu", "issue", "valu")
LOOPS = ("latency", "issue", "salu", "valu", "vl1d")
ATOMICS = ("atomics", "l2", "latency", "fabric")

ListPlans = Callable[[KernelView], Iterator[TransformationPlan]]
EditBody = Callable[[ParsedProgram, KernelDefinition, TransformationPlan], Iterable[Edit]]


NameWords = Callable[[ParsedProgram, KernelDefinition, TransformationPlan], Mapping[str, str]]
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]+\b")


def name_no_words(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Mapping[str, str]:
    """Of transformations whose statements are the same for every kernel."""
    return {}


def leave_body(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterable[Edit]:
    """No edits: of transformations that change only which lane executes what, or a declaration."""
    return ()


@dataclass(frozen=True)
class RestFunction:
    """What work-items execute in a second loop over them: the text of a function, its own parameters, what is passed
    for these, and the condition under which a work-item has a rest."""

    text: str
    parameters: tuple[str, ...]
    values: tuple[str, ...]
    condition: str


WriteRest = Callable[[ParsedProgram, KernelDefinition, TransformationPlan], RestFunction]


@dataclass(frozen=True)
class Transformation:
    """One transformation. Where `is_planned` holds for a plan, the emitter applies the parts from `edit_body` on.

    `helps`: what limits kernels that it is for, () for any. `counter`: what it should change. `list_plans`: the plans
    that it offers for a kernel, none where it does not apply. `is_evident`: whether the source shows that a plan of it
    helps. `edit_body`: edits within the kernel's body; raises
    NotUnderstood. `edit_jammed`: the same for the text of work-items that are executed together. `helper`: source
    before the first kernel. `parameter`: what the function of one work-item is passed, (declaration, value). `first`
    and `last`: statements of the kernel before and after its work-items. `again`: statements after which the `rest` of
    its work-items is executed. `words`: what stands for words in capitals in these, by kernel.
    """

    helps: tuple[str, ...]
    counter: str
    list_plans: ListPlans
    is_evident: Callable[[KernelView, TransformationPlan], bool] = lambda view, plan: False
    is_planned: Callable[[TransformationPlan], bool] = lambda plan: False
    edit_body: EditBody = leave_body
    edit_jammed: Callable[[str], str] = lambda text: text
    helper: str = ""
    parameter: tuple[str, str] | None = None
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    rest: WriteRest | None = None
    words: NameWords = name_no_words

    def fill_in(
        self, statements: Iterable[str], program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan
    ) -> list[str]:
        """Statements, or what is passed, with the words of a kernel; without those that are empty then."""
        words = self.words(program, kernel, plan)
        filled = (_CAPITALS.sub(lambda match: words.get(match[0], match[0]), text) for text in statements)
        return [text for text in filled if text]
