"""The assembly comparison finds every difference except symbol names."""

from __future__ import annotations

from asmcheck import compare

BEFORE = """
\t.globl\t_Z4copyPf ; -- Begin function
\t.p2align\t8
_Z4copyPf:                              ; @_Z4copyPf
\ts_load_dwordx2 s[0:1], s[4:5], 0x0
\ts_add_u32 s6, s6, _ZL5tablePKf@rel32@lo+4
\ts_endpgm
\t.size\t_Z4copyPf, .Lfunc_end0-_Z4copyPf
\t.type\t_ZL5table,@object
_ZL5tablePKf:
\t.set .L_Z4copyPf.num_vgpr, 1
  - .args:
      - .name:           out
\t.ident\t"clang"
"""


def test_renamed_symbols_are_ignored() -> None:
    after = BEFORE.replace("_Z4copyPf", "_Z5movedPf").replace("_ZL5table", "_ZL4data").replace(" out", " dst")
    assert compare(BEFORE, after) == []


def test_a_different_instruction_is_found() -> None:
    assert compare(BEFORE, BEFORE.replace("0x0", "0x8")) != []


def test_swapped_symbols_are_found() -> None:
    text = "\t.globl f\nf:\n\t.globl g\ng:\n\tcall f\n"
    assert compare(text, text.replace("call f", "call g")) != []
    assert compare(text, text.replace("f", "t").replace("g", "f").replace(".flobl", ".globl")) == []


def test_merged_symbols_are_found() -> None:
    text = "\t.globl f\nf:\n\t.globl g\ng:\n\tcall f\n\tcall g\n"
    assert compare(text, text.replace("call g", "call f")) != []


def test_a_symbol_named_like_a_metadata_key() -> None:
    text = "\t.globl global\nglobal:\n      - .address_space:  global\n    .name: global\n    .symbol: global.kd\n"
    after = "\t.globl other\nother:\n      - .address_space:  global\n    .name: other\n    .symbol: other.kd\n"
    assert compare(text, after) == []
    assert compare(text, after.replace(".name: other", ".name: another")) != []
