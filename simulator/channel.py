"""The memory shared with a simulated program: it holds the program's configuration and receives its result document.

native/runtime/channel.h describes the layout; the numbers here are the same. The memory belongs to no file, has a fixed
size, and is mapped by the runtime library before any code of the program runs. What the program does to files therefore
cannot affect how its result is read. It shares its address space with the library, so it can write any document: the
content is checked by program_results.parse_document().
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from hipsynth import toolchain
from hipsynth.simulator.artefacts import Artefacts
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.limits import PATIENT_REPLAYS, REPLAYS, RunLimits
from hipsynth.simulator.program_results import MalformedDocument

VARIABLE = "HIPSYNTH_CHANNEL"  # holds the number of the descriptor
BYTES, CONFIGURATION_AT, SLOTS_AT, SLOTS = 64 << 20, 4096, 1 << 20, 3
SLOT_BYTES = (BYTES - SLOTS_AT) // SLOTS
_HEADER = struct.Struct("<QQ")
_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Channel:
    """An open channel; `fd` is to be inherited by the program, which closes it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def document(self) -> bytes | None:
        """The latest complete document, None if there is none; raises MalformedDocument if its header is invalid.

        Call it only after the program has ended.
        """
        word, _ = _HEADER.unpack(os.pread(self.fd, _HEADER.size, 0))
        if not word:
            return None
        size, slot = divmod(word, 4)
        if size > SLOT_BYTES or slot >= SLOTS:
            raise MalformedDocument(f"it is longer than {SLOT_BYTES >> 20} MiB")
        return os.pread(self.fd, size, SLOTS_AT + slot * SLOT_BYTES)


@contextlib.contextmanager
def open_channel(settings: bytes) -> Iterator[Channel]:
    """A new channel with this configuration, while the block runs."""
    if len(settings) > SLOTS_AT - CONFIGURATION_AT:
        raise ValueError("the configuration of the run is too long")
    fd = os.memfd_create("hipsynth", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, BYTES)
        os.pwrite(fd, _HEADER.pack(0, len(settings)), 0)
        os.pwrite(fd, settings, CONFIGURATION_AT)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        yield Channel(fd)
    finally:
        os.close(fd)


def encode_configuration(
    artefacts: Artefacts,
    device: DeviceTable,
    limits: RunLimits,
    *,
    interactive: bool = False,
    embedded: bool = False,
    observed: Iterable[tuple[str, object]] = (),
) -> bytes:
    """A run's configuration: entries `key=value`, each ended by a zero byte, which no path contains.

    `embedded`: the program is this process, which goes on after a failed launch. `observed`: the entries of an
    Observation.
    """
    entries: list[tuple[str, object]] = [
        ("arch", device.arch),
        ("title", device.title),
        ("objdump", artefacts.objdump),
        ("memory_bytes", int(device.spec()["hbm.bytes"])),  # untouched pages use no host memory
        *_limit_entries(limits),
        ("line_output", int(interactive)),
        ("embedded", int(embedded)),
        *observed,
    ]
    for code_object, disassembly in artefacts.modules:
        entries += [("code_object", code_object.resolve()), ("disassembly", disassembly.resolve())]
    if artefacts.mentions(b"hiprtcCompileProgram"):
        entries += [("compiler", word) for word in toolchain.run_time_compiler(toolchain.find_toolchain(), device.arch)]
    entries += [(f"spec.{key}", repr(value)) for key, value in device.spec().items()]
    return b"".join(os.fsencode(f"{key}={value}") + b"\0" for key, value in entries)


def _limit_entries(limits: RunLimits) -> list[tuple[str, object]]:
    return [
        ("max_wave_instructions", limits.wave_instructions),
        ("sampling_units", limits.sampling_units),
        ("effort", limits.effort),
        ("largest_error", limits.largest_error),
        ("replayable", PATIENT_REPLAYS if limits.patient else REPLAYS),
        ("in_part", int(limits.patient)),
        ("per_kernel", limits.per_kernel),
        ("reuse", int(limits.reuse)),
        ("lines", int(limits.lines)),
        ("keep_l2", int(limits.warm_l2)),
        ("budget_s", limits.budget_s),
        ("settled_launches", limits.settled_launches),
        ("cpu_seconds", limits.time_s),
        ("count", int(limits.caches)),
        ("counters", int(limits.counters)),
        ("strict_bounds", int(limits.strict_bounds)),
    ]


def configuration_refusal(library: Path, settings: bytes) -> str:
    """Why the runtime library rejects this configuration, "" if it accepts it. Runs no code of any program."""
    try:
        ask = ctypes.CDLL(str(library)).hipsynthRefusal
    except (OSError, AttributeError) as error:
        return str(error)
    ask.argtypes, ask.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_char_p
    answer: bytes = ask(settings, len(settings))
    return answer.decode(errors="replace")
