"""Scans the source files of a folder: which have a main(), which use HIP, and where headers are."""

from __future__ import annotations

import functools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hipsynth import toolchain
from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, leads_to_file, read_regular
from hipsynth.core.folders import SKIPPED_FOLDERS
from hipsynth.core.languages import INCLUDED_SUFFIXES, SOURCE_SUFFIXES, SUFFIXES, TRITON
from hipsynth.core.reasons import Reason
from hipsynth.source.file_kind import FileFacts, read_facts


def read_text(path: Path, inside: Path | None = None) -> str:
    """A file decoded as UTF-8 (bad bytes replaced); "" if it is unreadable or larger than SOURCE_BYTES.

    Also "" if it lies, after all links, outside the folder `inside`.
    """
    try:
        return read_regular(path, SOURCE_BYTES, inside=inside).decode(errors="replace")
    except BadInput:
        return ""


@functools.lru_cache(maxsize=65536)
def source_facts(path: Path) -> FileFacts:
    """Reads and classifies one file (cached)."""
    return read_facts(read_text(path))


@dataclass
class Folder:
    """Sources, headers and build files below a folder, in a stable order."""

    root: Path
    sources: list[Path] = field(default_factory=list)
    headers: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))  # by file name
    modules: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))  # of Python, by their last name
    build_files: list[Path] = field(default_factory=list)

    def is_hip(self, path: Path) -> bool:
        """Whether the file, or a header of this folder that it includes (transitively), uses HIP."""
        return any(source_facts(file).names_hip for file in self.closure(path))

    def is_cuda(self, path: Path) -> bool:
        """Whether the file, or a header of this folder that it includes (transitively), uses CUDA."""
        return any(source_facts(file).names_cuda for file in self.closure(path))

    def is_portable(self, path: Path) -> bool:
        """Whether the file, or a header of this folder that it includes, uses thrust or the like, and none CUDA."""
        facts = [source_facts(file) for file in self.closure(path)]
        return any(fact.names_portable for fact in facts) and not any(fact.names_cuda for fact in facts)

    def closure(self, path: Path, limit: int = 400, includes: Sequence[Path] = ()) -> Iterator[Path]:
        """The file and, breadth first, the folder's headers that it includes; at most about `limit` files. `includes`:
        the folders of its -I."""
        visited = {path}
        queue = [path]
        while queue and len(visited) < limit:
            current = queue.pop(0)
            yield current
            for quoted, name in source_facts(current).includes:
                header = None if not quoted and is_installed(name) else self.find_header(current, name, includes)
                if header is not None and header not in visited:
                    visited.add(header)
                    queue.append(header)

    def find_header(self, includer: Path, name: str, includes: Sequence[Path] = ()) -> Path | None:
        """The header that `name` most likely means: relative to the includer, in one of the folders `includes`, else
        the nearest with that ending."""
        for place in (includer.parent, *includes):
            header = Path(os.path.normpath(place / name))
            if leads_to_file(header) and header.is_relative_to(self.root):
                return header
        wanted = PurePosixPath(name).parts
        if ".." in wanted:
            return None
        fitting = [path for path in self.headers.get(wanted[-1], ()) if path.parts[-len(wanted) :] == wanted]
        return min(fitting, key=lambda path: _folder_distance(includer.parent, path.parent), default=None)

    def find_module(self, importer: Path, name: tuple[str, ...]) -> Path | None:
        """The nearest file of a Python module or package, from the parts of its dotted name."""
        fitting = [path for path in self.modules.get(name[-1], ()) if _module_parts(path)[-len(name) :] == name]
        return min(fitting, key=lambda path: _folder_distance(importer.parent, path.parent), default=None)

    def include_folders(self, path: Path) -> list[Path]:
        """Include folders (-I) that `path` needs to find the headers of this folder."""
        folders: list[Path] = []
        for file in self.closure(path):
            for quoted, name in source_facts(file).includes:
                if not quoted and is_installed(name):
                    continue
                header = self.find_header(file, name)
                if header is None and leads_to_file(own_headers() / name):  # <hip_runtime.h> for <hip/hip_runtime.h>
                    folders += [own_headers()] if own_headers() not in folders else []
                if header is None or (quoted and Path(os.path.normpath(file.parent / name)) == header):
                    continue
                base = header
                for _ in PurePosixPath(name).parts:
                    base = base.parent
                if base.is_relative_to(self.root) and base not in folders:
                    folders.append(base)
        return folders


@functools.lru_cache(maxsize=4096)
def is_installed(name: str) -> bool:
    """Whether <name> is a standard, system or HIP header that the compiler finds without -I."""
    places = (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"), toolchain.find_toolchain().root / "include")
    return "." not in name or any(leads_to_file(place / name) for place in places)


def own_headers() -> Path:
    """The include/hip folder: older programs include its headers without the hip/ prefix and pass it with -I."""
    return (toolchain.find_toolchain().root / "include" / "hip").resolve()


def _folder_distance(start: Path, end: Path) -> tuple[int, int, str]:
    """Sort key for nearness: steps through the tree from one folder to another; ties go to the shorter path."""
    common = len(os.path.commonpath([start, end]).rstrip("/").split("/"))
    return len(start.parts) + len(end.parts) - 2 * common, len(end.parts), str(end)


def _module_parts(path: Path) -> tuple[str, ...]:
    """The folders of a Python file and the name under which it is imported; a package has that of its folder."""
    return path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts


def scan_files(root: Path, ending: str) -> list[Path]:
    """The files below `root` with this ending, in a stable order; as those of `scan_folder`."""
    return [path for path in _walk_files(root.resolve()) if path.suffix == ending]


def _walk_files(root: Path) -> Iterator[Path]:
    """The files below `root`; links to folders and out of `root` do not count, nor folders in it that may not be read.
    Raises BadInput if `root` may not."""

    def refuse_root(error: OSError) -> None:
        if error.filename == str(root):
            remedy = "give a folder that you may read, or change its rights"
            raise BadInput(
                f"{root}: the folder may not be read", cause=error.strerror or "", remedy=remedy,
                reason=Reason.UNREADABLE_FILE,
            )  # fmt: skip

    for place, names, files in os.walk(root, onerror=refuse_root):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(place) / name
            if not leads_to_file(path):  # a broken link, or a pipe on which a read would block
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                continue
            yield path


def scan_folder(root: Path) -> Folder:
    """Collects the sources, headers and build files below `root`; links to folders and out of `root` do not count."""
    root = root.resolve()
    folder = Folder(root)
    for path in _walk_files(root):
        ending = path.suffix
        if ending in SOURCE_SUFFIXES:
            folder.sources.append(path)
        if ending in INCLUDED_SUFFIXES or not ending:  # headers such as <vector> have none
            folder.headers[path.name].append(path)
        if ending == SUFFIXES[TRITON]:
            folder.modules[_module_parts(path)[-1]].append(path)
        if path.name in BUILD_FILES or is_makefile(path.name) or ending == ".sh":
            folder.build_files.append(path)
    folder.build_files.sort(key=lambda path: not _HIP_MAKEFILE.fullmatch(path.name))  # HIP-specific Makefiles first
    return folder


CMAKE_FILE = "CMakeLists.txt"
BUILD_FILES = (CMAKE_FILE, "compile_commands.json")
_HIP_MAKEFILE = re.compile(
    r"(?:GNU)?makefile[._-](?:hip|hipcc|rocm|amd)|(?:hip|hipcc|rocm|amd)\.(?:mk|make|mak)", re.IGNORECASE
)


def is_makefile(name: str) -> bool:
    """Whether this is a default Makefile name, or one named for HIP, such as Makefile.hip."""
    return name in ("GNUmakefile", "makefile", "Makefile") or bool(_HIP_MAKEFILE.fullmatch(name))
