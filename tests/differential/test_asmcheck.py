"""The assembly oracle sees every difference but the names of symbols."""

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


def test_other_names_are_the_same_program() -> None:
    after = BEFORE.replace("_Z4copyPf", "_Z5movedPf").replace("_ZL5table", "_ZL4data").replace(" out", " dst")
    assert compare(BEFORE, after) == []


def test_an_instruction_matters() -> None:
    assert compare(BEFORE, BEFORE.replace("0x0", "0x8")) != []


def test_exchanged_symbols_matter() -> None:
    text = "\t.globl f\nf:\n\t.globl g\ng:\n\tcall f\n"
    assert compare(text, text.replace("call f", "call g")) != []
    assert compare(text, text.replace("f", "t").replace("g", "f").replace(".flobl", ".globl")) == []


def test_two_symbols_made_one_matter() -> None:
    text = "\t.globl f\nf:\n\t.globl g\ng:\n\tcall f\n\tcall g\n"
    assert compare(text, text.replace("call g", "call f")) != []


def test_a_symbol_called_like_a_word_of_the_metadata() -> None:
    text = "\t.globl global\nglobal:\n      - .address_space:  global\n    .name: global\n    .symbol: global.kd\n"
    after = "\t.globl other\nother:\n      - .address_space:  global\n    .name: other\n    .symbol: other.kd\n"
    assert compare(text, after) == []
    assert compare(text, after.replace(".name: other", ".name: another")) != []
