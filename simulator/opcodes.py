"""The opcodes of a build, counted in LLVM's disassembly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from hipsynth.simulator.isa.table import without_encoding

# An instruction's line: its mnemonic after white space, with its address and encoding behind `//`.
_LINE = re.compile(r"^\s+([a-z]\w+)\b.*//", re.MULTILINE)


def count_opcodes(disassemblies: Iterable[Path]) -> Counter[str]:
    """How often each opcode occurs in the text of `llvm-objdump -d`, whatever its encoding; padding is left out."""
    counts: Counter[str] = Counter()
    for path in disassemblies:
        counts += opcodes_in(path.read_text())
    return counts


def opcodes_in(disassembly: str) -> Counter[str]:
    """As count_opcodes(), of one text."""
    return Counter(without_encoding(name) for name in _without_padding(_LINE.findall(disassembly)))


def _without_padding(mnemonics: Iterable[str]) -> Iterator[str]:
    """The mnemonics without the `s_nop` that fill the space behind a kernel's end."""
    after_end = False
    for name in mnemonics:
        after_end = name == "s_endpgm" or (after_end and name == "s_nop")
        if not after_end or name == "s_endpgm":
            yield name
