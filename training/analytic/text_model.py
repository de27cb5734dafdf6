"""Reads a kernel's words where its code cannot be compiled: gradient boosting on counts of what the text says.

It answers in logarithms and medians, and its metrics are formulas over the same quantities as everywhere, so that they
agree with each other. It knows neither time nor reuse: intervals are wide (a factor of two to three each way).
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import HIP
from hipsynth.simulator.devices import load_device
from hipsynth.source.completion.words import split_tokens
from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.names import base_name
from hipsynth.source.outline import blank_opaque, outline_kernels, outline_launches
from hipsynth.source.type_sizes import type_bytes
from hipsynth.training.analytic.model import COVERED, DURATION, FLOOR, PARAMETERS, log_errors, prediction_interval
from hipsynth.training.analytic.quantities import NAMES, Quantities, metric_quantities, metrics_of
from hipsynth.training.analytic.trees import Trees, load_model, save_model
from hipsynth.training.data.features import evaluate_constant, integer_constants, source_features

if TYPE_CHECKING:
    from hipsynth.training.data.dataset import LabelledSample  # asking needs no corpus, and no pyarrow

VERSION = 1
TEXT_MODEL = Path(__file__).with_name("shipped") / "text_model.json.gz"
FOLDS = 5
ROUNDS, LEAVES = 150, 15
NOTHING = -10.0  # log2 of a quantity that is none
DEVICE_FACTS = ("topology.cus", "clock.core_mhz", "hbm.read_gbps", "l2.bytes")
UNKNOWN_TRIPS = 8.0
# Words that say what a kernel does; all others are its author's.
WORDS = frozenset(
    re.findall(
        r"\S+",
        """for while if else return break continue __shared__ __syncthreads atomicAdd atomicMax atomicMin atomicCAS
        __shfl_down __shfl_xor __ballot float double half _Float16 int long unsigned char short float2 float4 const
        template struct sqrtf sqrt expf exp __expf logf log sinf cosf powf rsqrtf fmaf fma max min abs static_cast
        __restrict__ threadIdx blockIdx blockDim gridDim + - * / % & | ^ << >> < > == ? [ += = && ( . 2 4 8 16 32 64
        128 256 512 1024""",
    )
)
_FOR = re.compile(
    r"for\s*\([^;=]*=\s*(?P<first>[^;,]+)[^;]*;\s*\w+\s*[<>]=?\s*(?P<last>[^;]+);[^;)]*?(?:\+=\s*(?P<step>[^;)]+))?\)"
)
_BUILTIN = re.compile(r"__builtin_amdgcn_(\w+)")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TextPrediction:
    """A kernel's metrics in physical units, its duration, and intervals that hold COVERED of true values."""

    metrics: dict[str, float | None]
    duration_ns: float
    intervals: dict[str, tuple[float, float]]


@dataclass
class TextModel:
    """`trees`: a model of log2 of each quantity; `widths`: the half width of the interval of each value, in natural
    logarithms, for hit rates in points."""

    columns: tuple[str, ...]
    trees: dict[str, Trees] = field(default_factory=dict)
    widths: dict[str, float] = field(default_factory=dict)

    @classmethod
    def fit(cls, samples: Sequence[LabelledSample]) -> TextModel:
        """Fits to labels of HIP kernels whose text the program has; widths come from models that have not seen a
        sample's lineage. Raises BadInput with too few labels."""
        pairs = [(sample, kernel) for sample in samples if (kernel := find_kernel(sample)) is not None]
        if len(pairs) < 2 * FOLDS:
            raise BadInput(
                "too few labels of HIP kernels to learn from",
                cause=f"{len(pairs)} of {len(samples)} labels are of kernels whose text is known",
                remedy="profile more HIP programs into the corpus",
            )
        samples = [sample for sample, _ in pairs]
        rows = [kernel_features(s.text, kernel, s.arch, s.flags, s.device) for s, kernel in pairs]
        model = cls(tuple(sorted({name for row in rows for name in row})))
        table = model._table(rows)
        truth = [metric_quantities(sample.metrics, sample.duration_ns, sample.arch) for sample in samples]
        model.trees = _fit_trees(table, truth)
        model.widths = model._unseen_widths(table, truth, samples)
        return model

    def _table(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        return np.array([[row.get(name, 0.0) for name in self.columns] for row in rows], dtype=np.float64)

    def _unseen_widths(
        self, table: Floats, truth: Sequence[Quantities], samples: Sequence[LabelledSample]
    ) -> dict[str, float]:
        folds = np.array([zlib.crc32(sample.relatives.encode()) % FOLDS for sample in samples])
        errors: dict[str, list[float]] = {}
        for fold in range(FOLDS):
            inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            if not len(inside) or len(outside) < FOLDS:
                continue
            trees = _fit_trees(table[outside], [truth[int(i)] for i in outside])
            for i, answer in zip(inside, _predict_quantities(trees, table[inside]), strict=True):
                for name, error in log_errors(answer, truth[int(i)], samples[int(i)].arch).items():
                    errors.setdefault(name, []).append(error)
        return {name: float(np.quantile(values, COVERED)) for name, values in errors.items()}

    def predict(self, text: str, kernel: FunctionDeclaration, arch: str, flags: str, device: str) -> TextPrediction:
        """What the words of one kernel of a text say."""
        table = self._table([kernel_features(text, kernel, arch, flags, device)])
        quantities = _predict_quantities(self.trees, table)[0]
        metrics = metrics_of(quantities, arch)
        values = {**metrics, DURATION: quantities["duration"]}
        intervals = {
            name: prediction_interval(name, value, self.widths[name])
            for name, value in values.items()
            if value is not None and name in self.widths
        }
        return TextPrediction(metrics, quantities["duration"], intervals)

    def save(self, path: Path) -> None:
        """Writes the model, with equal bytes for an equal model."""
        trees = {name: model.text for name, model in self.trees.items()}
        save_model(path, VERSION, {"columns": self.columns, "widths": self.widths, "trees": trees})

    @classmethod
    def load(cls, path: Path = TEXT_MODEL) -> TextModel:
        """Raises BadInput for a file that is damaged or of another version."""
        return load_model(path, VERSION, cls._from_document)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> TextModel:
        trees = {name: Trees(text) for name, text in document["trees"].items()}
        return cls(tuple(document["columns"]), trees, document["widths"])


def find_kernel(sample: LabelledSample) -> FunctionDeclaration | None:
    """The label's kernel in its program's text; None for Triton, and where macros or headers make the kernel."""
    if sample.language != HIP:
        return None
    name = base_name(sample.kernel)
    return next((kernel for kernel in outline_kernels(sample.text) if kernel.name == name), None)


def kernel_features(text: str, kernel: FunctionDeclaration, arch: str, flags: str, device: str) -> dict[str, float]:
    """Numbers that describe a kernel's text: words by how often they are executed, sizes, the launch, the target."""
    code = blank_opaque(text)
    sizes = _known_sizes(text, kernel)
    body = code[slice(*kernel.body)]
    values = {f"deep {word}": weight for word, weight in _weigh_words(body, sizes).items()}
    values |= {f"text {word}": math.log2(1 + count) for word, count in _count_words(body).items()}
    values |= {f"source {name}": value for name, value in source_features(text).items()}
    values |= _size_features(kernel, sizes)
    table = load_device(device)
    values |= {f"device {name}": table[name] for name in DEVICE_FACTS}
    values |= {f"arch {arch}": 1.0, "level": float((re.search(r"-O(\d)", flags) or ["", "3"])[1])}
    values["fast"] = float("-ffast-math" in flags)
    return values


def _known_sizes(text: str, kernel: FunctionDeclaration) -> dict[str, int]:
    """The names with an integer value, parameters of the kernel by its first launch among them."""
    constants = integer_constants(text)
    launches = outline_launches(text)
    launch = next((launch for launch in launches if launch.kernel.rpartition("::")[2] == kernel.name), None)
    if launch is None:
        return constants
    pairs = zip(kernel.parameters, launch.arguments, strict=False)
    numbers = {
        parameter.name: evaluate_constant(value, constants) for parameter, value in pairs if "*" not in parameter.text
    }
    return constants | {name: value for name, value in numbers.items() if name and value is not None}


def _known_word(word: str) -> str:
    """The word, if it says what happens; a builtin's name; "number" or "name"."""
    if word in WORDS:
        return word
    if builtin := _BUILTIN.fullmatch(word):
        return builtin[1].partition("_")[0]
    return "number" if word[0].isdigit() else "name" if word[0].isalpha() or word[0] == "_" else ""


def _count_words(code: str) -> Counter[str]:
    return Counter(word for token in split_tokens(code) if (word := _known_word(token.text)))


def _weigh_words(body: str, sizes: Mapping[str, int]) -> dict[str, float]:
    """log2 of how often each word is executed, where a loop of unknown length runs UNKNOWN_TRIPS times."""
    weights: dict[str, float] = defaultdict(float)
    loops: list[float] = []  # trips of the loops around, 1 for other blocks
    pending, brackets = 1.0, 0
    for token in split_tokens(body):
        brackets += (token.text == "(") - (token.text == ")")
        if token.text in ("for", "while"):
            pending *= _count_trips(body[token.start :], sizes)
        elif token.text == "{":
            loops.append(pending)
            pending = 1.0
        elif token.text == "}" and loops:
            loops.pop()
        if word := _known_word(token.text):
            weights[word] += math.prod(loops) * pending
        if token.text == ";" and brackets == 0:
            pending = 1.0
    return {word: math.log2(1 + weight) for word, weight in weights.items()}


def _count_trips(loop: str, sizes: Mapping[str, int]) -> float:
    """How often a loop runs, if its bounds are known."""
    head = _FOR.match(loop)
    if head is None:
        return UNKNOWN_TRIPS
    first, last = (evaluate_constant(head[part], sizes) for part in ("first", "last"))
    step = evaluate_constant(head["step"], sizes) if head["step"] else 1
    if last is None:
        return UNKNOWN_TRIPS
    return max(1.0, (last - (first or 0)) / max(1, step or 1))


def _size_features(kernel: FunctionDeclaration, sizes: Mapping[str, int]) -> dict[str, float]:
    numbers = sorted(
        (sizes[parameter.name] for parameter in kernel.parameters if parameter.name in sizes), reverse=True
    )
    values = {f"argument {i}": math.log2(1 + abs(value)) for i, value in enumerate(numbers[:4])}
    values["parameters"] = float(len(kernel.parameters))
    values["pointers"] = float(sum(bool(parameter.base) for parameter in kernel.parameters))
    values["read only"] = float(sum(parameter.constant for parameter in kernel.parameters))
    values["bytes"] = float(
        max((type_bytes(parameter.base) or 0 for parameter in kernel.parameters if parameter.base), default=0)
    )
    return values


def _log_quantity(value: float) -> float:
    return math.log2(value) if value > FLOOR else NOTHING


def _fit_trees(table: Floats, truth: Sequence[Quantities]) -> dict[str, Trees]:
    import lightgbm

    settings = {**PARAMETERS, "num_leaves": LEAVES, "min_data_in_leaf": 8}
    models = {}
    for name in NAMES:
        target = np.array([_log_quantity(quantities[name]) for quantities in truth])
        data = lightgbm.Dataset(table, target, params={"verbosity": -1})
        models[name] = Trees(lightgbm.train(settings, data, num_boost_round=ROUNDS).model_to_string())
    return models


def _predict_quantities(trees: Mapping[str, Trees], table: Floats) -> list[Quantities]:
    logs = {name: model.predict(table) for name, model in trees.items()}
    answers = []
    for i in range(len(table)):
        row = {name: 2 ** float(logs[name][i]) if logs[name][i] > NOTHING / 2 else 0.0 for name in NAMES}
        row["l1_requests"] = min(row["l1_requests"], row["lookups"])
        row["l2_misses"] = min(row["l2_misses"], row["l2_requests"])
        answers.append(row)
    return answers
