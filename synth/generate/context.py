"""The inputs of a family's builder: parameters, random choices, policy, names, and buffer initialisers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.extent import Extent
from hipsynth.synth.generate.headers import ParameterValues
from hipsynth.synth.generate.ir import HostBuffer, Init, Kernel, Launch, Module, Style
from hipsynth.synth.generate.policy import Policy
from hipsynth.synth.generate.types import DType, IRError, find_dtype

MAX_HOST_ELEMENTS = 1 << 24  # a tenth of a second
INPUT_NAMES = (
    ("a", "b", "c", "d", "e", "f", "g", "h"),
    tuple(f"input_{k}" for k in range(8)),
    tuple(f"in{k}" for k in range(8)),
    ("x", "y", "z", "w", "p", "q", "r", "s"),
    ("src", "lhs", "rhs", "coef", "bias", "base", "gain", "mask"),
)
OUTPUT_NAMES = (
    tuple(f"output_{k}" for k in range(4)),
    tuple(f"out{k}" for k in range(4)),
    ("dst", "res", "acc_out", "extra"),
    ("result", "result1", "result2", "result3"),
)
INDEX_NAMES = ("i", "idx", "gid", "id", "thread_id", "tid")
LOCAL_NAMES = ("var_", "v", "t", "tmp", "val")
CHECK_NAMES = ("HIP_CHECK", "HIP_CHECK", "CHECK", "HIP_CALL", "hipCheck", "GPU_CHECK", "checkHipErrors")
COUNT_NAMES = ("n", "count", "size", "N", "num_elements")


@dataclass(frozen=True)
class Names:
    """The naming convention of one program."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    index: str
    local: str
    count: str

    @staticmethod
    def draw(choices: Choices) -> Names:
        """A random convention."""
        return Names(
            choices.pick(INPUT_NAMES), choices.pick(OUTPUT_NAMES), choices.pick(INDEX_NAMES),
            choices.pick(LOCAL_NAMES), choices.pick(COUNT_NAMES),
        )  # fmt: skip


@dataclass
class Context:
    """Everything a family's builder may use. `params` hold the values of the template's parameters."""

    params: ParameterValues
    choices: Choices
    policy: Policy
    names: Names = field(init=False)
    restrict: bool = field(init=False)
    style: Style = field(init=False)
    arguments: dict[str, Extent] = field(init=False, default_factory=dict)
    composition: str = field(init=False, default="")  # names the kind of program within its family

    def __post_init__(self) -> None:
        self.names = Names.draw(self.choices)
        habits: dict[str, bool | str] = {"check": self.choices.pick(CHECK_NAMES)}
        habits |= {name: self.choices.flag(percent) for name, percent in self.policy.style.items()}
        self.restrict = bool(habits["restrict"])
        self.style = habits

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    @property
    def dtype(self) -> DType:
        """The type named by the parameter `find_dtype`."""
        return find_dtype(str(self.params["dtype"]))

    def size(self, name: str, value: int) -> int:
        """A problem size that the program reads from its arguments, `value` by default. Called once more with the same
        name, it returns the same size."""
        return self.arguments.setdefault(name, Extent(int(value), name))

    @property
    def count(self) -> int:
        """The parameter `size` as a problem size, called as this program calls counts."""
        return self.size(self.names.count, self["size"])

    def kernel_options(self) -> dict[str, bool]:
        return {name: bool(self.style[name]) for name in ("launch_bounds", "auto")}

    def init(self, kind: DType, highest: float = 4.0) -> Init:
        """A random initialiser whose values are exact in every type: non-negative, steps of powers of two, floats at
        most `highest`."""
        form = self.choices.weighted([2, 5, 5])
        if kind.is_float:
            step = self.choices.pick((0.0625, 0.125, 0.25))
            lo = self.choices.pick((0.25, 0.5, 1.0))
            mod = max(2, min(self.choices.integer(5, 31), int((highest - lo) / step)))
        else:
            lo, step, mod = self.choices.integer(0, 3), 1, self.choices.pick((10, 17, 64, 100, 256))
        if form == 0:
            return Init("constant", lo + step * self.choices.integer(0, mod - 1))
        if form == 1:
            return Init("ramp", lo, step, self.choices.pick((1, 3, 7, 11, 13)), self.choices.integer(0, 7), mod)
        return Init("hash", lo, step, add=self.choices.integer(0, 9999), mod=mod)

    def module(
        self, buffers: list[HostBuffer], kernels: list[Kernel], *, terms: int = 1, repeat: int = 1,
        arguments: list[dict[str, str]] | None = None, whole: bool = False,
    ) -> Module:  # fmt: skip
        """A program that launches the kernels in order. Without `arguments`, each kernel parameter is bound to the
        buffer of the same name.

        `whole`: inputs hold indices, which the host must write one by one, not as repetitions of a tile. Raises IRError
        if that is too much for it.
        """
        tiled = bool(self.style["tiled"]) and not whole and self.params.get("host") != "thrust"
        if not tiled and sum(int(buffer.size) for buffer in buffers) > MAX_HOST_ELEMENTS:
            raise IRError(f"the host would have to write more than {MAX_HOST_ELEMENTS} elements")
        bound = arguments or [{b.name: b.name for b in k.buffers} for k in kernels]
        launches = tuple(Launch(k, a) for k, a in zip(kernels, bound, strict=True))
        return Module(
            tuple(buffers), launches, terms, repeat, tuple(self.arguments.values()), self.style, tiled
        )  # fmt: skip
