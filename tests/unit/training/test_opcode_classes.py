"""The instruction classes of the static features stay as the models were trained on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.simulator.isa.table import load_rows
from hipsynth.training.data.features import CLASSES, code_features, instruction_class

# Class of every opcode, as the patterns gave them that the opcode table's columns replaced.
FROZEN = json.loads(Path(__file__).with_name("opcode_classes.json").read_text())


def test_opcodes_keep_their_class() -> None:
    found = {name: instruction_class(name) for names in FROZEN.values() for name in names}
    assert found == {name: kind for kind, names in FROZEN.items() for name in names}


def test_every_opcode_has_a_class() -> None:
    assert {instruction_class(row.name) for row in load_rows()} <= {*CLASSES, "other"}
    assert len({name for names in FROZEN.values() for name in names}) > 1200


@pytest.mark.parametrize(
    ("mnemonic", "kind"),
    [
        ("v_add_f32_e32", "alu_f32"),
        ("v_fma_f64_e64", "fma_f64"),
        ("v_add_f32_dpp", "alu_f32"),
        ("v_add_u32_sdwa", "valu_other"),
        ("v_add_f32_e64_dpp", "alu_f32"),
        ("global_load_lds_dword", "load_small"),
        ("no_such_opcode", "other"),
    ],
)
def test_encodings_do_not_matter(mnemonic: str, kind: str) -> None:
    assert instruction_class(mnemonic) == kind


def test_listings_are_counted_by_class() -> None:
    lines = ["v_add_f32_e32 v0, v1, v2", "global_load_dwordx4 v[0:3], v4, s[0:1]", "s_endpgm"]
    listing = "0000000000000000 <k>:\n" + "".join(f"\t{text}   // {4 * i:012X}: 0\n" for i, text in enumerate(lines))
    found = code_features(listing)
    assert (found["n_alu_f32"], found["n_load4"], found["n_salu"], found["instructions"]) == (1, 1, 1, 3)
