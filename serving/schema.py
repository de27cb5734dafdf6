"""What requests may hold, as /openapi.json says it. Types are strict: `false` is no number, and unknown fields are
refused. A validator comes last in an annotation: pydantic leaves bounds that follow one out of the schema."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from hipsynth.serving.limits import REQUEST_SOURCE_BYTES
from hipsynth.simulator.devices import (
    DEFAULT_ARCH,
    default_device,
    device_of,
    devices_of,
    list_architectures,
    list_devices,
    load_device,
)
from hipsynth.toolchain import check_flags, flag_pattern

WORD = 4096  # most characters of a word


def whole_number(value: object) -> object:
    """JSON does not tell 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def one_of(*words: str) -> Any:
    """A text that is one of some words."""
    return Field(pattern=f"^({'|'.join(words)})$", json_schema_extra={"enum": list(words)})


def name_bad_flag(value: object) -> object:
    """The value. Raises UsageError with the first flag that is not allowed, where the pattern would only say no."""
    if isinstance(value, str) and len(value) <= WORD:
        check_flags(value)
    return value


def name_bad_arch(value: object) -> object:
    """The value. Raises UsageError for a device's name, where the pattern would only say no."""
    if isinstance(value, str) and value in list_devices():
        default_device(value)
    return value


def name_bad_device(value: object) -> object:
    """The value. Raises UsageError for an architecture's name, where the pattern would only say no."""
    if isinstance(value, str) and value in list_architectures():
        load_device(value)
    return value


def devices_by_arch() -> list[JsonValue]:
    """For each architecture, the schemas of requests whose device has it; a request may leave out one, or both."""
    schemas: list[JsonValue] = []
    for arch in list_architectures():
        devices: list[JsonValue] = [*devices_of(arch)]
        by_arch: list[JsonValue] = [] if arch == DEFAULT_ARCH else ["arch"]
        schemas += [
            {"properties": {"arch": {"const": arch}, "device": {"enum": [None, *devices]}}, "required": by_arch},
            {"properties": {"arch": {"const": arch}, "device": {"enum": devices}}, "required": ["device"]},
        ]
    return schemas


NotNegative = Annotated[int, Field(ge=0, le=1 << 53), BeforeValidator(whole_number)]
Side = Annotated[int, Field(ge=1, lt=1 << 31), BeforeValidator(whole_number)]
Tokens = Annotated[int, Field(ge=1, le=4096), BeforeValidator(whole_number)]
Shape = Annotated[list[Side], Field(min_length=1, max_length=3)]
Word = Annotated[str, StringConstraints(max_length=WORD, pattern=r"^[^\x00]*$")]
Flags = Annotated[str, StringConstraints(max_length=WORD, pattern=flag_pattern()), BeforeValidator(name_bad_flag)]
# Names of parameters: pydantic says the pattern of keys, but not that there are no others.
Finite = Annotated[float, Field(allow_inf_nan=False)]
Integer = Annotated[int, Field(ge=-(1 << 63), le=1 << 63)]
Values = Annotated[
    dict[Word, Integer | Finite], Field(max_length=64, json_schema_extra={"additionalProperties": False})
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f/]+$")]


class Strict(BaseModel):
    """A request whose values must have the right types already and that has no unknown members."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Document(Strict):
    """Names an edited text: a newer version of it ends the work on older ones."""

    document: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    version: NotNegative = 0


class Build(Strict):
    """A program and how it is compiled: what `synth predict` and `synth profile` are given for one file."""

    model_config = ConfigDict(json_schema_extra={"anyOf": devices_by_arch()})

    source: Annotated[str, StringConstraints(max_length=REQUEST_SOURCE_BYTES)]
    arch: Annotated[str, one_of(*list_architectures()), BeforeValidator(name_bad_arch)] = DEFAULT_ARCH
    device: Annotated[str, one_of(*list_devices()), BeforeValidator(name_bad_device)] | None = None
    flags: Flags = "-O3"
    name: Name = "kernel.hip"
    arguments: Annotated[list[Word], Field(max_length=64)] = []

    @model_validator(mode="before")
    @classmethod
    def infer_arch(cls, body: object) -> object:
        """The request with the architecture of its device, where it has none."""
        if isinstance(body, dict) and "arch" not in body and (device := body.get("device")) in list_devices():
            return {**body, "arch": load_device(str(device)).arch}
        return body

    @model_validator(mode="after")
    def check_device(self) -> Build:
        """Raises UsageError for a device of another architecture; `devices_by_arch` says so in the schema."""
        device_of(self.arch, self.device)
        return self


class AssumedLaunch(Strict):
    """The launch to assume, as --grid, --block and --value name it."""

    grid: Shape | None = None
    block: Shape | None = None
    values: Values = {}


class Predict(Build, Document, AssumedLaunch):
    """`grid`, `block`, `values`: in place of the host code's, as in `synth predict`. Kernels without main() are
    launched as by `synth profile`; the answer's `notes` say how."""


class Profile(Build, Document, AssumedLaunch):
    """`limit_s`: the processor time that the program may take in the simulator (default and most: the server's).
    `lines`: also count by source line and loop, as `synth profile --lines`. `grid`, `block`, `values`: for kernels
    without main(); the document's `assumed` says how they are launched."""

    limit_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] | None = None
    lines: bool = False


class Verify(Build):
    """Whether the program of `source` does the same as `original`; `arguments`: of the measured runs. `limit_s`: the
    job is ended after three times that and half a minute, whatever it has compared by then."""

    original: Annotated[str, StringConstraints(max_length=REQUEST_SOURCE_BYTES)]
    limit_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] | None = None


class Improve(Build, Document, AssumedLaunch):
    """A search for a faster program, with `budget_s` of work (default 60, at most the server's)."""

    budget_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] = 60.0


class Compare(Strict):
    """Two predictions side by side."""

    a: Predict
    b: Predict


class Message(Strict):
    """One message of a chat request; `content` has at most REQUEST_SOURCE_BYTES characters."""

    role: Annotated[str, one_of("system", "user", "assistant")]
    content: Annotated[str, StringConstraints(max_length=REQUEST_SOURCE_BYTES)]


class Chat(BaseModel):
    """OpenAI's chat request; fields that have no meaning here (temperature, user, ...) are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    messages: Annotated[list[Message], Field(min_length=1, max_length=64)]
    model: str = ""
    max_tokens: Tokens = 400
    stream: bool = False
