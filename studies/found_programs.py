"""HIP programs of a folder that `synth optimize` may take as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.profiling.survey.sources import Folder, read_text, scan_folder, source_facts

NO_KERNEL_HERE = "has no kernel of its own, but a library's or those of other files"
REFERENCE = "_ref"  # ends the name of a copy that a collection keeps beside a source
TASK_DEPTH = 3  # folders by which sources that are left out are named


@dataclass(frozen=True)
class FoundProgram:
    """A source with a kernel, and the folders of the collection in which its headers are."""

    collection: str
    path: Path
    includes: tuple[str, ...]


@dataclass(frozen=True)
class ProgramCollection:
    """The programs of a folder by name; for each reason, the folders of sources that are left out."""

    name: str
    programs: Mapping[str, FoundProgram]
    left_out: Mapping[str, tuple[str, ...]]


def find_programs(root: Path) -> ProgramCollection:
    """The sources below a folder that have kernels, each as a program of one file; one with kernels alone counts, too,
    since it gets a main(). A source that is there twice is one program."""
    folder = scan_folder(root)
    programs: dict[str, FoundProgram] = {}
    left_out: dict[str, dict[str, None]] = {}
    texts: set[str] = set()
    for path in folder.sources:
        if path.suffix != ".hip" and path.with_suffix(".hip") in folder.sources:
            continue  # the same before it was translated
        if path.stem.endswith(REFERENCE) and path.with_stem(path.stem.removesuffix(REFERENCE)) in folder.sources:
            continue
        text = read_text(path)
        if text in texts:
            continue
        texts.add(text)
        why = find_obstacle(folder, path)
        name = name_program(folder.root, path)
        if why is None:
            includes = tuple(str(place) for place in folder.include_folders(path))
            programs[name] = FoundProgram(root.resolve().name, path, includes)
        elif why:
            left_out.setdefault(why, {})["/".join(name.split("/")[:TASK_DEPTH])] = None
    return ProgramCollection(
        root.resolve().name, programs, {why: tuple(names) for why, names in sorted(left_out.items())}
    )


def find_obstacle(folder: Folder, path: Path) -> str | None:
    """Why a source is no program to optimize: "" if it has nothing to do with kernels, None if it is one."""
    facts = source_facts(path)
    if facts.has_kernel:
        return None
    return NO_KERNEL_HERE if facts.has_main and folder.is_hip(path) else ""


def name_program(root: Path, path: Path) -> str:
    """The place of a source below the folder, without what says nothing: `main`, `src`, the ending."""
    parts = [part for part in path.relative_to(root).with_suffix("").parts if part not in ("main", "src", "hip")]
    return "/".join(parts)
