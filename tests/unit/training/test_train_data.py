"""Parts of a corpus: the leak-free test part never contains a relative of a training program."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import training_corpus as made
from generated_samples import small

from hipsynth.core.errors import BadInput
from hipsynth.core.program import Program, text_id
from hipsynth.core.store import CorpusItem, CorpusWriter, splits_of
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.source.arguments import run_text
from hipsynth.source.canonical_text import canonical_id
from hipsynth.source.model_view import cut_source, view_source
from hipsynth.source.outline import kernel_names
from hipsynth.training.data.dataset import (
    PARTS,
    LabelledSample,
    load_samples,
    measure_leak,
    require_no_leak,
    split_samples,
)


def samples() -> list[LabelledSample]:
    return made.samples(60, 2)


def test_parts_cover_every_sample_once() -> None:
    pool = samples()
    parts = split_samples(pool)
    keys = [s.key for part in parts.values() for s in part]
    assert sorted(keys) == sorted(s.key for s in pool)
    assert all(parts[name] for name in ("train", "valid", "lineage", "random"))


def test_parts_do_not_change_with_order_or_growth() -> None:
    pool = samples()
    parts, backwards, grown = (
        split_samples(pool),
        split_samples(pool[::-1]),
        split_samples(pool + made.samples(90, 2)[len(pool) :]),
    )
    for name in ("train", "lineage", "random"):
        keys = [s.key for s in parts[name]]
        assert keys == [s.key for s in backwards[name]]
        assert set(keys) <= {s.key for s in grown[name]}


def test_no_relative_of_a_training_program_in_the_lineage_test() -> None:
    parts = split_samples(samples())
    known = {s.lineage for s in parts["train"] + parts["random"]}
    assert not known & {s.lineage for s in parts["lineage"] + parts["valid"]}
    found = measure_leak(parts["train"], parts["lineage"])
    assert (found.same_lineage, found.same_text, found.same_but_names, found.same_code) == (0, 0, 0, 0)
    require_no_leak(parts["train"], parts["lineage"])


def test_the_random_part_leaks_and_reports_it() -> None:
    parts = split_samples(samples())
    assert measure_leak(parts["train"], parts["random"]).share > 0.9


def test_a_renamed_copy_with_a_false_lineage_is_found() -> None:
    parts = split_samples(samples())
    victim = parts["train"][0]
    copy_text = victim.text.replace("kernel_main", "zebra").replace("src", "lion").replace("k1_run", "zebra")
    liar = replace(victim, text=copy_text, program_id=text_id(copy_text), lineage="f" * 16)
    assert canonical_id(liar.text) == canonical_id(victim.text)
    with pytest.raises(BadInput, match="share a lineage"):
        require_no_leak(parts["train"], [*parts["lineage"], liar])


def test_false_lineages_end_as_duplicates_not_in_the_test() -> None:
    lying = [replace(s, lineage=s.program_id) for s in samples()]
    parts = split_samples(lying)
    assert parts["duplicate"]
    assert measure_leak(parts["train"], parts["lineage"]).share == 0.0


def test_programs_drawn_alike_lie_in_one_split(tmp_path: Path) -> None:
    statement = made.own_statement_of(0)
    pool = made.samples(40, 2)
    alike = [s for s in pool if s.family == "copy"]
    texts = {s.text: re.sub(re.escape("x = x ") + r"[^;]+", statement, s.text) for s in alike}
    ids = {text_id(text): text_id(texts[text]) for text in texts}
    pool = [
        replace(s, text=texts[s.text], program_id=ids[s.program_id], lineage=ids[s.lineage]) if s in alike else s
        for s in pool
    ]
    loaded = load_samples(made.write_corpus(tmp_path, pool), every_device=True)
    copies = [s for s in loaded if s.family == "copy"]
    assert len({s.lineage for s in copies}) == len(alike) // 8 > 10
    assert {s.relatives for s in loaded if s.family != "copy"}.isdisjoint({s.relatives for s in copies})
    for dtype in ("float", "double"):
        relatives = [s for s in copies if f"const {dtype}*" in s.text]
        assert len({s.relatives for s in relatives}) == 1
        parts = [name for name, part in split_samples(loaded).items() if any(s in relatives for s in part)]
        assert len(set(parts) - {"random"}) == 1


def test_equal_machine_code_ends_as_duplicate() -> None:
    pool = samples()
    trained, tested = split_samples(pool)["train"][0], split_samples(pool)["lineage"][0]
    facts = replace(trained.facts, code="c" * 16)
    marked = [replace(s, facts=facts) if s.key in (trained.key, tested.key) else s for s in pool]
    parts = split_samples(marked)
    assert [s.key for s in parts["duplicate"]] == [tested.key]
    assert trained.key in {s.key for s in parts["train"]}
    leak = measure_leak(parts["train"], parts["duplicate"])
    assert (leak.same_code, leak.same_but_names, leak.share) == (1, 0, 1.0)


def test_canonical_ids_ignore_only_names_comments_and_space() -> None:
    base = "__global__ void k(float* a, int n) { a[n] = sinf(a[n]) * 2.0f; } // note"
    assert canonical_id(base) == canonical_id(base.replace("a[", "b[").replace("* a", "* b").replace(" // note", "\n"))
    for change in (("2.0f", "3.0f"), ("sinf", "cosf"), ("float", "double"), ("* 2", "+ 2")):
        assert canonical_id(base) != canonical_id(base.replace(*change))


def test_a_quotation_mark_in_apostrophes_begins_no_text() -> None:
    base = "char quote = '\"'; /* note \" */ int size; char end = '\\\"';"
    assert canonical_id(base) == canonical_id(base.replace("note", "remark").replace("size", "count"))


def test_handwritten_programs_are_never_trained_on() -> None:
    hand = [made.sample(200 + i, 0, arch, flags, "handwritten") for i in range(5) for arch, flags in made.TARGETS]
    parts = split_samples(samples() + hand)
    assert {s.origin for s in parts["train"] + parts["valid"] + parts["lineage"]} == {"synthetic"}
    assert len(parts["handwritten"]) + sum(s.origin == "handwritten" for s in parts["duplicate"]) == len(hand)


@pytest.mark.parametrize("part", ["train", "valid"])
def test_handwritten_relatives_of_what_is_learned_end_as_duplicates(part: str) -> None:
    pool = samples()
    learned = split_samples(pool)[part][0]
    alike, other = (made.sample(200 + i, 0, *made.TARGETS[0], "handwritten") for i in range(2))
    alike = replace(alike, split_key=learned.relatives)
    parts, before = split_samples([*pool, alike, other]), split_samples(pool)
    assert parts["duplicate"] == [alike] and parts["handwritten"] == [other]
    assert all(parts[name] == before[name] for name in ("train", "valid", "lineage", "random"))
    require_no_leak([*parts["train"], *parts["valid"]], parts["handwritten"])


def test_held_out_families_and_devices_are_never_trained_on() -> None:
    pool = samples()
    held = {"family": "compose/line-hashed-loop"}
    pool += [
        replace(s, lineage=f"x{s.lineage}", program_id=f"x{s.program_id}", text=f"{s.text};", **held) for s in pool
    ]
    pool += [replace(s, device="mi210") for s in pool if s.arch == "gfx90a"]
    parts = split_samples(pool)
    assert {s.family for s in parts["families"]} == {"compose/line-hashed-loop"}
    assert {s.device for s in parts["device"]} == {"mi210"}
    trained = parts["train"] + parts["valid"] + parts["random"]
    assert trained and {s.family for s in trained}.isdisjoint({s.family for s in parts["families"]})
    assert "mi210" not in {s.device for s in trained + parts["lineage"]}
    for name in ("families", "device"):
        assert measure_leak(parts["train"] + parts["valid"], parts[name]).share == 0.0


def test_kernel_names() -> None:
    text = "__global__ void __launch_bounds__(256) a(int x) {}\ntemplate <int N> __global__ void b_2(float* p) {}"
    assert kernel_names(text) == ["a", "b_2"]
    assert kernel_names("int main() { return 0; }") == []


def test_cut_source_keeps_top_and_bottom_and_marks_the_cut() -> None:
    text = "".join(f"line {i}\n" for i in range(30))
    cut, gone = cut_source(text, 9)
    assert gone == 21
    lines = cut.splitlines()
    assert lines[:6] == [f"line {i}" for i in range(6)]
    assert lines[6] == "// 21 lines cut to fit the context"
    assert lines[7:] == ["line 27", "line 28", "line 29"]
    assert cut_source(text, 30) == (text, 0)


@pytest.mark.parametrize(
    "lines",
    [
        ["const int count = argc > 1 ? std::atoi(argv[1]) : 4096;"],
        ["int count = 4096;", "if (argc > 1) count = std::atoi(argv[1]);"],
        ["int x7 = 4096;", "if (k2 > 1) x7 = std::atoi(w_[1]);"],
        ["const int x7 = k2 > 1 ? std::atoi(w_[1]) : 4096;"],
        ["long n = strtol(argv[1], nullptr, 10);"],
    ],
)
def test_kernel_view_keeps_problem_sizes(lines: list[str]) -> None:
    main = "\n  ".join(["int main(int argc, char** argv) {", *lines])
    text = made.samples(1, 1)[0].text.replace("int main() {", main)
    seen, _ = view_source(text, "kernels")
    assert all(f"  {line}" in seen.splitlines() for line in lines)


@pytest.mark.parametrize("family", ["gather", "row_norm", "paper"])
def test_kernel_view_of_a_generated_program_names_its_sizes(family: str) -> None:
    program, run = small(family)
    seen, _ = view_source(run_text(program.text, " ".join(run.arguments)), "kernels")
    assert all(re.search(rf"(= |: ){size};", seen) for size in run.arguments)


def test_kernel_view_keeps_device_code_and_launches() -> None:
    text = made.samples(1, 1)[0].text + '\nstatic void print_all(int n) { for (int i = 0; i < n; ++i) printf("x"); }\n'
    seen, left_out = view_source(text, "kernels")
    assert "__global__" in seen and "<<<" in seen and "hipMalloc" in seen
    assert "print_all" not in seen and "#include" not in seen and "return" not in seen
    assert left_out == len(text.splitlines()) - len(seen.splitlines())
    assert view_source(text, "whole") == (text, 0)
    assert view_source("int main() {}\n", "kernels") == ("int main() {}\n", 0)


def test_parts_are_the_splits_that_a_release_stores() -> None:
    pool = samples()
    shared = replace(pool[0], family="histogram", program_id="h" * 16, text=pool[0].text + ";")
    pool += [shared, replace(shared, lineage="alone", program_id="i" * 16, text=pool[0].text + ";;")]
    pool += [replace(s, device="mi210") for s in pool if s.arch == "gfx90a"]
    columns = zip(*((s.family, s.lineage, s.device) for s in pool), strict=True)
    stored = dict(zip((s.key for s in pool), splits_of(*columns), strict=True))
    found = {s.key: name for name, part in split_samples(pool).items() for s in part}
    for key, name in stored.items():
        part = "train" if found.get(key) == "random" else found.get(key, "")
        assert part in (PARTS.get(name, ""), "duplicate")
    assert stored[shared.key] == "other"


def test_a_corpus_of_failures_says_what_failed(tmp_path: Path) -> None:
    one = made.samples(1, 1)[0]
    program = Program(one.text, one.origin, one.family, lineage=one.lineage)
    of_run = {"program_id": program.id, "arguments": "", "lineage": one.lineage, "origin": one.origin}
    target = {"family": one.family, "arch": one.arch, "flags": one.flags, "device": one.device}
    tools = {"backend": "sim", "backend_version": "1", "compiler": "", "headers": ""}
    with CorpusWriter(tmp_path / "corpus", answer_ids()) as writer:
        writer.add_program(program.record(), one.text)
        writer.add(CorpusItem(**of_run, **target, **tools, status="failed", reason="timeout", message="", kernels=[]))
    with pytest.raises(BadInput, match="no labels") as caught:
        load_samples(tmp_path / "corpus")
    assert caught.value.cause == "1 x timeout"
