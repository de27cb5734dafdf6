"""What requests may hold. Types are strict: `false` is no number, and unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from hipsynth.profiling.devices import architectures
from hipsynth.serving.limits import SOURCE_BYTES


def whole(value: object) -> object:
    """JSON does not tell 3.0 from 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def one_of(*words: str) -> Any:
    """A text that is one of some words."""
    return Field(pattern=f"^({'|'.join(words)})$", json_schema_extra={"enum": list(words)})


Whole = Annotated[int, BeforeValidator(whole)]
Side = Annotated[Whole, Field(ge=1, lt=1 << 31)]
Shape = Annotated[list[Side], Field(min_length=1, max_length=3)]
Word = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f/]+$")]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Document(Strict):
    """Names an edited text: a newer version of it ends the work on older ones."""

    document: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    version: Annotated[Whole, Field(ge=0, le=1 << 53)] = 0


class Build(Strict):
    """A program and how it is compiled: what `synth predict` and `synth profile` are given for one file."""

    source: Annotated[str, StringConstraints(max_length=SOURCE_BYTES)]
    arch: Annotated[str, one_of(*architectures())] = "gfx942"
    device: Word | None = None
    flags: Word = "-O3"
    name: Name = "kernel.hip"
    arguments: Annotated[list[Word], Field(max_length=64)] = []


class Predict(Build, Document):
    """`grid`, `block`, `values`: the launch to assume in place of the host code's, as in `synth predict`."""

    grid: Shape | None = None
    block: Shape | None = None
    values: Annotated[dict[Word, int | float], Field(max_length=64)] = {}


class Profile(Build, Document):
    """`limit_s`: the processor time that the program may take in the simulator (default and most: the server's).
    `lines`: also count by source line and loop, as `synth profile --lines`."""

    limit_s: Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)] | None = None
    lines: bool = False


class Compare(Strict):
    """Two predictions side by side."""

    a: Predict
    b: Predict


class Message(Strict):
    role: Annotated[str, one_of("system", "user", "assistant")]
    content: Annotated[str, StringConstraints(max_length=SOURCE_BYTES)]


class Chat(BaseModel):
    """OpenAI's chat request; fields that have no meaning here (temperature, user, ...) are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    messages: Annotated[list[Message], Field(min_length=1, max_length=64)]
    model: str = ""
    max_tokens: Annotated[Whole, Field(ge=1, le=4096)] = 400
    stream: bool = False


class Problem(BaseModel):
    """Every error: a code, what happened, the likely cause, and what to do; `diagnostics` are the compiler's."""

    error: str
    message: str
    cause: str = ""
    remedy: str = ""
    diagnostics: str = ""


class Accepted(BaseModel):
    job: str


class Job(BaseModel):
    """`state`: queued, running, done, failed or cancelled; `document` as of `synth profile --json` when done."""

    job: str
    state: str
    elapsed_s: float
    limit_s: float
    document: dict[str, Any] | None = None
    problem: Problem | None = None
