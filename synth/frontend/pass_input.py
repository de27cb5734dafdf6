"""A program on disk and how it is compiled; the input of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CompileSettings:
    """How one file is compiled, beyond its own text; macros as after -D and -U: NAME, NAME=VALUE, NAME(X)=VALUE."""

    defines: tuple[str, ...] = ()
    undefines: tuple[str, ...] = ()
    includes: tuple[Path, ...] = ()
    preludes: tuple[Path, ...] = ()  # files included before it
    standard: str = ""  # such as c++20

    @property
    def head(self) -> bytes:
        """Lines that have the same effect at the top of the file, except for the folders and the standard."""
        defines = [text.partition("=") for text in self.defines]
        lines = [f"#define {name} {value if equals else 1}" for name, equals, value in defines]
        lines += [f"#undef {name}" for name in self.undefines]
        lines += [f'#include "{path}"' for path in self.preludes]
        return "".join(" ".join(line.split("\n")) + "\n" for line in lines).encode(errors="surrogateescape")


@dataclass(frozen=True)
class BuildConfiguration:
    """One way to build a program: its files, the main file last, and the settings of each."""

    files: tuple[Path, ...]
    settings: tuple[CompileSettings, ...] = ()

    @property
    def includes(self) -> tuple[Path, ...]:
        """The include folders of all files."""
        return tuple(dict.fromkeys(folder for setting in self.settings for folder in setting.includes))

    def head(self, number: int) -> bytes:
        """The text that precedes file `number`."""
        return self.settings[number].head if self.settings else b""


@dataclass(frozen=True)
class ProgramSource:
    """A program. `text` is the content of the main file, `main` its path while quoted includes still refer to other
    files, `root` the folder outside of which no file is read, `build` all its files if it has several or settings."""

    text: bytes
    main: Path | None = None
    root: Path | None = None
    build: BuildConfiguration | None = None
