"""Which lines of device memory each work-group of a launch reads and writes (native/core/sharing.h).

The simulated program could have written anything to the file, so its content is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_program_file
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason

FILE = "hipsynth-sharing.bin"  # in the program's folder
LINE_BYTES = 128
TOUCH = np.dtype([(name, "<u4") for name in ("group", "line", "reads", "writes", "atomics")])
MOST_BYTES = 256 << 20
_LINE = 16384  # bytes of the longest line: kernels of templates have long symbols
# Why the work-groups of a launch could not be followed.
REASONS = {
    "ordered": "its results depend on the order of atomics",
    "following": "it uses clocks, host services, textures, grid barriers or indirect calls",
    "too_long": "its work-groups are too long to follow",
}
_STATES = ("all", *REASONS)
_FIELDS = 11


@dataclass(frozen=True)
class SharingObservation:
    """Follows the first launch of each kernel and grid. `most_touches`: more thin out the lines (see
    LineSharing.one_in); `most_work`: wave instructions of a launch after which it is given up."""

    most_touches: int = 1 << 20
    most_work: int = 300_000_000

    def entries(self, folder: Path) -> list[tuple[str, object]]:
        """The entries of a run's configuration, for a program that runs in `folder`."""
        path = folder.resolve() / FILE
        limits = [("sharing_touches", self.most_touches), ("sharing_work", self.most_work)]
        return [("sharing_path", path), *limits]


@dataclass(frozen=True)
class LineSharing:
    """The lines of one launch. `state`: "all", or a key of REASONS, and then there are no touches.

    `touches`: [touches] of TOUCH, ordered by work-group and line: a group's number (x fastest), a line's number in
    device memory, and bit masks of its 32 words that the group reads, writes and updates by atomics. Only one line in
    `one_in`, drawn by a hash, is there.
    """

    symbol: str
    state: str
    grid: Dim
    block: Dim
    cooperative: bool
    one_in: int
    touches: npt.NDArray[np.void]

    @property
    def groups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def read_sharing(folder: Path) -> list[LineSharing]:
    """Reads the sharing file of a run in `folder`. Raises BadInput if its format is not the runtime library's."""
    path = folder / FILE
    data = read_program_file(folder, FILE, MOST_BYTES)
    accesses, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at, at + _LINE)
        words = data[at:end].decode(errors="replace").split(" ") if end > 0 else []
        if len(words) != _FIELDS or words[1] not in _STATES or not all(word.isdecimal() for word in words[2:]):
            raise _malformed_file(path)
        numbers = [int(word) for word in words[2:]]
        at = end + 1 + numbers[-1] * TOUCH.itemsize
        if at > len(data):
            raise _malformed_file(path)
        touches = np.frombuffer(data, TOUCH, numbers[-1], end + 1)
        launch_lines = LineSharing(
            words[0], words[1], _to_dim(numbers[:3]), _to_dim(numbers[3:6]), bool(numbers[6]), numbers[7], touches
        )
        if (
            launch_lines.one_in < 1
            or launch_lines.groups >= 1 << 32
            or (len(touches) and int(touches["group"].max()) >= launch_lines.groups)
        ):
            raise _malformed_file(path)
        accesses.append(launch_lines)
    return accesses


def _to_dim(numbers: Sequence[int]) -> Dim:
    return (numbers[0], numbers[1], numbers[2])


def _malformed_file(path: Path) -> BadInput:
    return BadInput(f"{path.name} is damaged", cause="the program wrote to it", reason=Reason.BAD_RESULT)
