"""The compiled files of a program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ScriptInterpreter:
    """What runs a script: the words before its path, folders that it reads, and its environment; `places` are the
    variables that say where caches lie in a sandbox, without which they lie where the user has them."""

    command: tuple[str, ...]
    folders: tuple[Path, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Artefacts:
    """Compiled files of one program; a program without device code has no code object. With an interpreter, the
    executable is a script, which compiles its device code while it runs."""

    executable: Path
    code_object: Path | None = None
    disassembly: Path | None = None
    objdump: Path = Path("llvm-objdump")
    further: tuple[tuple[Path, Path], ...] = ()  # code object and disassembly of the program's other files
    interpreter: ScriptInterpreter | None = None
    environment: tuple[tuple[str, str], ...] = ()  # variables that the user sets for the program

    @property
    def modules(self) -> tuple[tuple[Path, Path], ...]:
        """Code object and disassembly of each file with kernels, in the order of their module numbers."""
        if self.code_object is None or self.disassembly is None:
            return ()
        return ((self.code_object, self.disassembly), *self.further)

    @property
    def has_kernels(self) -> bool:
        """Whether it may launch a kernel: one of its own, or one that it loads or compiles while it runs."""
        return self.code_object is not None or self.starts_processes

    @property
    def starts_processes(self) -> bool:
        """Whether it loads or compiles code objects while it runs, which takes a disassembler or compiler."""
        return self.interpreter is not None or self.mentions(b"hipModuleLoad", b"hiprtcCompileProgram")

    def mentions(self, *symbols: bytes) -> bool:
        """True if the executable contains the name of one of these functions."""
        try:
            text = self.executable.read_bytes()
        except OSError:
            return False
        return any(symbol in text for symbol in symbols)
