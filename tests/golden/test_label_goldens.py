"""Do programs still get the recorded labels? What moved is printed; simulator/label_model.toml says what to do then."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.simulator import devices, label_model
from hipsynth.synth.generate.headers import load_templates, template_of
from hipsynth.synth.generate.policy import default_policy
from tools import label_goldens

BATCHES = 8


def check(part: str, batch: slice) -> None:
    record = label_goldens.read_goldens()
    if label_goldens.read_tool_versions() != record.tools:
        pytest.fail(
            f"recorded with {record.tools}, here {label_goldens.read_tool_versions()}: record them with --write"
        )
    rows = label_goldens.label_part(part, batch)
    cells = {(key[2], key[4], key[5]) for key, _ in rows}  # program, device, backend
    before = [one for one in record.labels if one.part == part and (one.program, one.device, one.backend) in cells]
    pairs = label_goldens.find_moved_labels(before, label_goldens.make_goldens(rows, record.names))
    assert before and not pairs, "\n".join(["labels moved:", *(label_goldens.describe_move(*pair) for pair in pairs)])


@pytest.mark.parametrize("batch", range(BATCHES))
def test_labels_are_as_recorded(batch: int) -> None:
    check("quick", slice(batch, None, BATCHES))


@pytest.mark.full
@pytest.mark.parametrize("batch", range(BATCHES))
def test_more_labels_are_as_recorded(batch: int) -> None:
    check("full", slice(batch, None, BATCHES))


def test_the_record_is_of_the_present_versions() -> None:
    record = label_goldens.read_goldens()
    assert (record.sim, record.preview) == (label_model.version_number("sim"), label_model.version_number("preview"))
    assert f"## {label_model.preview_version()}\n" in label_goldens.PAGE.read_text()


def test_the_record_covers_families_devices_and_limits() -> None:
    only_by_name = {family for family, weight in default_policy().families.items() if not weight}
    for part in ("quick", "full"):
        labels = [one for one in label_goldens.read_goldens().labels if one.part == part]
        assert {template_of(one.family) for one in labels} == set(load_templates()) - only_by_name
        recorded_devices = {one.device for one in labels if one.backend == "sim"}
        assert recorded_devices == set(devices.list_devices()), "python -m tools.label_goldens --add DEVICE ..."
    limits = {one.values[1] for one in label_goldens.read_goldens().labels}
    assert {
        "launch",
        "latency",
        "dispatch",
        "hbm",
        "infinity",
        "l2",
        "vl1d",
        "lds",
        "valu",
        "mfma",
        "atomics",
    } <= limits


def test_what_the_page_says_of_a_version_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n## {label_model.preview_version()}\n\nWhat was said.\n")
    monkeypatch.setattr(label_goldens, "PAGE", page)
    label_goldens.add_page_lines(["What is added."])
    assert page.read_text() == f"# Page\n\n## {label_model.preview_version()}\n\nWhat was said.\n\nWhat is added.\n"
    monkeypatch.setattr(label_model, "preview_version", lambda: "labels-99")
    label_goldens.add_page_lines(["More."])
    assert page.read_text().endswith("What is added.\n\n## labels-99\n\nMore.\n")


def test_labels_that_moved_are_recorded_only_with_a_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    record = label_goldens.read_goldens()
    one = next(label for label in record.labels if label.backend == "sim")
    changed = label_goldens.replace(one, digest="0" * 16)
    pairs = label_goldens.find_moved_labels([one], [changed])
    assert pairs == [(one, changed)] and "raise `sim`" in label_goldens.explain_refusal(record, pairs)
    monkeypatch.setattr(label_model, "version_number", lambda backend: record.find_version(backend) + 1)
    assert not label_goldens.explain_refusal(record, pairs)
    assert not label_goldens.find_moved_labels(record.labels, record.labels)


def test_added_devices_leave_the_digests_of_recorded_labels() -> None:
    key = ("quick", "gemm", "program", "", "mi300x", "sim", "0 gemm")
    recorded, now = {"block": 1}, {"block": 1, "language": "hip"}  # a fact that all labels have got since
    added = {"block": 1, "language": "hip", "counters.NEW": 2.0}
    known = label_goldens.extend_names({"sim": ["block"], "preview": []}, [(key, now)], [(key, added)])
    assert known == {"sim": ["block", "counters.NEW"], "preview": []}
    assert label_goldens.digest_facts(now, known["sim"]) == label_goldens.digest_facts(recorded, ["block"])
    assert label_goldens.digest_facts(added, known["sim"]) != label_goldens.digest_facts(now, known["sim"])
