"""Device tables: one TOML file per device, every number with its source; architectures.toml has the facts that all
devices of an architecture share.

A table may inherit from another one and list only the differences; from a device of another architecture, it names its
own, and what it does not list is a guess. Sources that begin with `fit` mark constants fitted
to recorded counters or times of that device; all others come from documents or measurements.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput, UsageError, suggest_name

FOLDER = Path(__file__).parent
ARCHITECTURES = FOLDER / "architectures.toml"
DEFAULT_ARCH = "gfx942"  # where a user names none and only one is wanted: the newest with recordings, MI300X
_ARCHITECTURE = re.compile(r"gfx(?:[6-9]|1[0-9])[0-9a-f]{2}")  # the form of LLVM's names
_HEAD = ("name", "title", "arch", "inherits")


Fact = bool | int | str  # of an architecture


@dataclass(frozen=True)
class DeviceConstant:
    """One number of a device table, with its source."""

    value: float
    source: str

    @property
    def fitted(self) -> bool:
        return self.source.startswith("fit")


@dataclass(frozen=True)
class DeviceTable:
    """One device: `constants` maps "section.key" (for instance "l2.bytes") to a sourced number."""

    name: str
    title: str
    arch: str
    constants: Mapping[str, DeviceConstant]

    def __getitem__(self, key: str) -> float:
        return self.constants[key].value

    def spec(self) -> dict[str, float]:
        """ "section.key" -> value, the form that the simulator core reads."""
        return {key: constant.value for key, constant in sorted(self.constants.items())}


def list_architectures() -> list[str]:
    """Architectures that have a section in architectures.toml, the oldest first."""
    return list(_load_architectures())


def recorded_architectures() -> list[str]:
    """Those with recordings, which are meant where a user names none."""
    return [arch for arch, facts in _load_architectures().items() if facts["recorded"]]


def load_architectures(path: Path = ARCHITECTURES) -> dict[str, dict[str, Fact]]:
    """Architecture -> fact -> value. Raises BadInput if a fact lacks a source or some architecture lacks the fact."""
    table: dict[str, dict[str, Fact]] = {}
    for arch, rows in tomllib.loads(path.read_text()).items():
        for key, row in rows.items():
            if set(row) != {"value", "source"} or not row["source"]:
                raise BadInput(f"{path.name}: {arch}.{key} needs a value and a source")
        table[arch] = {key: row["value"] for key, row in rows.items()}
    kinds = [{key: type(value) for key, value in facts.items()} for facts in table.values()]
    if any(kind != kinds[0] for kind in kinds):
        raise BadInput(f"{path.name}: the architectures do not have the same facts")
    return table


@functools.cache
def _load_architectures() -> dict[str, dict[str, Fact]]:
    return load_architectures()


def architecture_fact(arch: str, key: str) -> Fact:
    """A fact of architectures.toml; raises UsageError for an unknown architecture."""
    default_device(arch)
    return _load_architectures()[arch][key]


def list_devices() -> list[str]:
    """Devices that have a table, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path != ARCHITECTURES)


def default_device(arch: str) -> str:
    """The default device of an architecture; raises UsageError for an unknown architecture."""
    try:
        return str(_load_architectures()[arch]["default_device"])
    except KeyError:
        raise _unknown_architecture(arch) from None


def _unknown_architecture(arch: str) -> UsageError:
    """The error for a name that is no architecture: a device's, one that is not supported, or a slip."""
    if arch.lower() in list_devices():
        return UsageError(f"unknown architecture {arch!r}", cause=f"{arch} is a device", remedy=f"--device {arch}")
    remedy = f"known: {', '.join(list_architectures())}"
    if _ARCHITECTURE.fullmatch(arch.lower()):
        return UsageError(f"architecture {arch} is not supported", remedy=remedy)
    return UsageError(f"unknown architecture {arch!r}", cause=suggest_name(arch, list_architectures()), remedy=remedy)


def _unknown_device(name: str) -> UsageError:
    """The error for a name that is no device: an architecture's, or a slip."""
    if _ARCHITECTURE.fullmatch(name.lower()):
        is_known = name.lower() in list_architectures()
        remedy = f"--arch {name}" if is_known else f"known: {', '.join(list_devices())}"
        return UsageError(f"unknown device {name!r}", cause=f"{name} is an architecture", remedy=remedy)
    remedy = f"known: {', '.join(list_devices())}"
    return UsageError(f"unknown device {name!r}", cause=suggest_name(name, list_devices()), remedy=remedy)


def devices_of(arch: str) -> list[str]:
    """Devices of one architecture, by name. Raises UsageError for an unknown architecture."""
    default_device(arch)
    return [name for name in list_devices() if load_device(name).arch == arch]


def _parse_sections(document: Mapping[str, Any]) -> dict[str, DeviceConstant]:
    flat: dict[str, DeviceConstant] = {}
    for section, rows in document.items():
        if section in _HEAD:
            continue
        for key, row in rows.items():
            if set(row) != {"value", "source"} or not row["source"]:
                raise BadInput(f"{section}.{key}: a constant needs a value and a source")
            flat[f"{section}.{key}"] = DeviceConstant(float(row["value"]), row["source"])
    return flat


@functools.cache
def load_device(name: str) -> DeviceTable:
    """The table of a device; raises UsageError for an unknown name, BadInput for an invalid table."""
    path = FOLDER / f"{name}.toml"
    if name not in list_devices():
        raise _unknown_device(name)
    document = tomllib.loads(path.read_text())
    base = load_device(document["inherits"]) if "inherits" in document else None
    sections = _parse_sections(document)
    if base is not None and (unknown := set(sections) - set(base.constants)):
        raise BadInput(f"{path.name}: {', '.join(sorted(unknown))} not in the inherited table")
    arch = document.get("arch", base.arch if base else "")
    inherited = _inherited_constants(base, arch) if base else {}
    return DeviceTable(document["name"], document["title"], arch, {**inherited, **sections})


def _inherited_constants(base: DeviceTable, arch: str) -> Mapping[str, DeviceConstant]:
    """The constants of the table inherited from; for another architecture they are guesses, whatever their source."""
    if base.arch == arch:
        return base.constants
    return {
        key: DeviceConstant(constant.value, f"guess: as on the {base.name}; there {constant.source}")
        for key, constant in base.constants.items()
    }


def choose_arch(arch: str, device: str) -> str:
    """The architecture of an answer for one target: the one named, else that of the device, else DEFAULT_ARCH."""
    return arch or (load_device(device).arch if device else DEFAULT_ARCH)


def device_of(arch: str, device: str | None = None) -> DeviceTable:
    """The table of a device of `arch`, by default its default device. Raises UsageError if the device has another
    architecture."""
    default = default_device(arch)
    table = load_device(device or default)
    if table.arch != arch:
        remedy = f"devices of {arch}: {', '.join(devices_of(arch))}"
        raise UsageError(f"device {table.name} is a {table.arch}, not a {arch}", remedy=remedy)
    return table
