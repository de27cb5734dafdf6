"""The page of one profile: its parts, its figures, and that nothing of a program becomes markup or code."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from profiling_samples import failure, kernel, result, target

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.matrix.job import profile_program
from hipsynth.profiling.metrics.bottleneck import simd_occupancy
from hipsynth.profiling.reports.memory_chart import draw_memory_chart
from hipsynth.profiling.reports.occupancy import next_occupancy_step
from hipsynth.profiling.reports.profile_page import profile_page
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.limits import RunLimits

SOURCE = Path(__file__).resolve().parents[2] / "corpus" / "handwritten" / "transpose" / "transpose_lds.hip"


@functools.cache
def profiled() -> TargetResult:
    limits = RunLimits(lines=True)
    program = project_program(Project((SourceFile(SOURCE),), SOURCE.parent))
    (found,) = profile_program(program, [Target("gfx942", "-O3", "mi300x")], "sim", limits)
    assert found.status == "ok", found.message
    return found


class _Balance(HTMLParser):
    """Whether every element that was opened is closed, in order."""

    VOID = frozenset({"meta", "rect", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs), "the policy forbids it"

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_has_all_parts_and_the_figures_of_the_profile() -> None:
    page = profile_page(str(SOURCE), [profiled()])
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    for part in ("bound by LDS throughput", "Launches", "Time that each unit alone needs", "worth at most"):
        assert part in page
    for part in ("Occupancy", "Next step: ", "Memory chart", "Source: ", "Roofline", "Infinity Cache", "Metrics"):
        assert part in page
    (one,) = profiled().launches
    assert f"{one.duration_ns / 1000:.4g} us" in page and "TCC_MISS" in page
    assert "__shared__ T tile" in page, "the source stands beside its counts"
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", ""), "nothing is loaded"


def test_the_policy_allows_the_own_script_and_style_alone() -> None:
    page = profile_page(str(SOURCE), [profiled()])
    (policy,) = re.findall(r'content="(default-src[^"]*)"', page)
    for tag in ('script type="module"', "style"):
        text, *_ = re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy


def test_the_memory_chart_is_a_picture_of_the_counts() -> None:
    (one,) = profiled().launches
    chart = ElementTree.fromstring(draw_memory_chart(one, "mi300x", profiled().transfers))
    texts = ["".join(node.itertext()) for node in chart.iter("text")]
    assert [unit for unit in ("CUs", "vL1D", "L2", "Infinity Cache", "HBM", "LDS", "Host") if unit not in texts] == []
    assert one.traffic is not None
    assert "read 67.1 MB" in texts and one.counters["EXACT_READ_BYTES"] == 67_108_864
    width = float(chart.attrib["viewBox"].split()[2])
    boxes = [node for node in chart.iter("rect") if node.attrib["class"] == "box"]
    assert max(float(box.attrib["x"]) + float(box.attrib["width"]) for box in boxes) <= width
    other = [t.text for t in ElementTree.fromstring(draw_memory_chart(kernel(), "mi250")).iter("text")]
    assert "Infinity Cache" not in other and "Host" not in other and "not used" in other


def test_names_are_text_and_failures_are_said() -> None:
    hostile = kernel("gfx942", name="<img src=x>&")
    page = profile_page("<p>.hip", [result(target("gfx942"), hostile), failure(target("gfx90a"), "trap")])
    assert "<img" not in page and "<p>.hip" not in page and "&lt;img src=x&gt;&amp;" in page
    assert "trap: because trap" in page


@pytest.mark.parametrize("used", range(65, 512, 29))
def test_the_next_step_of_vgprs_is_the_smallest_that_helps(used: int) -> None:
    """The hardware's rule: waves of a SIMD share 512 rows, given out by eight."""

    def waves(count: int) -> int:
        return min(8, 512 // (-(-count // 8) * 8))

    (one,) = profiled().launches
    assert one.registers is not None and one.occupancy is not None
    resident = 4.0 * waves(used)
    occupancy = replace(one.occupancy, limited_by="VGPRs", waves_per_cu=resident, groups_per_cu=resident)
    registers = replace(one.registers, vgprs=float(used), agprs=0.0, lds_bytes=0.0)
    changed = replace(one, registers=registers, occupancy=occupancy, block=(64, 1, 1))
    text = next_occupancy_step(changed, "mi300x")
    allowed, fewer, more = map(int, re.findall(r"\d+", text))
    assert used - fewer == allowed and waves(allowed) == more > waves(used)
    assert waves(allowed + 1) < more, "one register more would not do"


@pytest.mark.parametrize(
    ("vgprs", "lds", "work_items", "groups", "step"),
    [  # what a kernel with one register more or less does was executed: 1024 work-items with 78 VGPRs still have 4
        (94, 0, 1024, 1, "64 VGPRs, 30 fewer, would allow 8 waves/SIMD"),
        (99, 0, 512, 2, "80 VGPRs, 19 fewer, would allow 6 waves/SIMD"),
        (83, 16_384, 256, 4, "12,800 B of LDS per group, 3,584 fewer, would allow 5 work-groups/CU"),
        (
            120,
            16_384,
            256,
            4,
            "96 VGPRs, 24 fewer, and 12,800 B of LDS per group, 3,584 fewer, would allow 5 waves/SIMD",
        ),
        (5, 32_768, 256, 2, "21,504 B of LDS per group, 11,264 fewer, would allow 3 work-groups/CU"),
    ],
)
def test_the_next_step_is_one_of_whole_work_groups(
    vgprs: int, lds: int, work_items: int, groups: int, step: str
) -> None:
    (one,) = profiled().launches
    assert one.registers is not None and one.occupancy is not None
    waves = float(groups * work_items // 64)
    occupancy = replace(one.occupancy, limited_by="VGPRs", waves_per_cu=waves, groups_per_cu=float(groups))
    registers = replace(one.registers, vgprs=float(vgprs), agprs=0.0, lds_bytes=float(lds))
    changed = replace(one, registers=registers, occupancy=occupancy, block=(work_items, 1, 1))
    assert next_occupancy_step(changed, "mi300x") == step
    room = simd_occupancy(changed, "mi300x")
    assert room and (room.limited_by == "LDS") == (lds > 0 and vgprs < 100)


def test_the_next_step_of_the_lds() -> None:
    (one,) = profiled().launches
    assert one.registers is not None and one.registers.lds_bytes == 16_384
    assert next_occupancy_step(one, "mi300x").startswith("12,800 B of LDS per group, 3,584 fewer, would allow 5 ")
    assert 5 * 12_800 <= load_device("mi300x")["lds.bytes_per_cu"] < 5 * (12_800 + 512)
