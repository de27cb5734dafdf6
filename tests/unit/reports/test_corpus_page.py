"""`synth stats --html`: one page, nothing from elsewhere, no text of the corpus as code; drawn by a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import release_samples

from hipsynth.cli.main import main
from hipsynth.core.errors import BadInput
from hipsynth.core.store import Corpus, CorpusWriter
from hipsynth.profiling.reports.corpus_page import corpus_page
from hipsynth.profiling.reports.corpus_statistics import corpus_statistics

ATTACK = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    base = release_samples.programs(0)
    base = [release_samples.replace(one, text=f"{one.text}// {ATTACK}\n", family=f"paper{ATTACK}") for one in base]
    release_samples.labelled(work, 0, base)
    return work / "s0000"


@pytest.fixture(scope="module")
def page(corpus: Path) -> str:
    opened = Corpus.open(corpus)
    return corpus_page(opened, corpus_statistics(opened))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def test_the_page_loads_nothing(page: str) -> None:
    hosts = set(re.findall(r"\bhttps?://[\w.]+", page))
    assert hosts == {"http://www.w3.org"}  # the name of SVG, which is not loaded
    assert not re.search(r"<(?:link|img|iframe|object|embed)\b|@import|url\(", page.replace(ATTACK, ""))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy and policy[1].startswith("default-src 'none';") and "unsafe" not in policy[1]


def test_the_policy_allows_this_script_and_style_alone(page: str) -> None:
    for tag in ('<script type="module">(.*?)</script>', "<style>(.*?)</style>"):
        found = re.search(tag, page, re.DOTALL)
        assert found
        assert base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode() in page.partition("</head>")[0]


def test_texts_of_the_corpus_stay_data(page: str) -> None:
    assert page.count("<script") == page.count("</script>") == 2
    assert any(ATTACK in text for text in data_of(page)["sources"].values())


def test_counts_are_those_of_the_corpus(corpus: Path, page: str) -> None:
    data, rows = data_of(page), Corpus.open(corpus).measurements().to_pylist()
    shares = [cell for row in data["bottlenecks"]["rows"] for cell in row["cells"].values()]
    assert sum(cell["count"] for cell in shares) == len(rows)
    times = next(chart for chart in data["charts"] if chart["title"] == "Kernel time")
    assert sum(bar["count"] for bars in times["bars"].values() for bar in bars.values()) == len(rows)
    assert {plot["document"]["device"] for plot in data["rooflines"]} == {row["device"] for row in rows}
    for plot in data["rooflines"]:
        shown = [row for row in rows if row["device"] == plot["document"]["device"] and row["HBM_GFLOPS"]]
        cells = plot["cells"]["HBM"]
        assert sum(cell["count"] for cell in cells) == sum(bool(row["HBM_Arithmetic_Intensity"]) for row in shown)
    numbers = [cell["example"] for cell in shares]
    assert numbers and max(numbers) < len(data["examples"])
    assert {example["facts"]["program_id"] for example in data["examples"]} == set(data["sources"])


def test_an_example_lies_where_it_is_shown(page: str) -> None:
    data = data_of(page)
    chart = next(chart for chart in data["charts"] if chart["title"] == "Kernel time")
    bars = [(int(number), bar) for group in chart["bars"].values() for number, bar in group.items()]
    assert bars
    for number, bar in bars:
        low, high = chart["ends"][number]
        assert low * 0.999 <= data["examples"][bar["example"]]["facts"]["ns"] <= high * 1.001


def test_a_corpus_without_labels_has_no_page(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path / "empty", ("HBM_GFLOPS",)):
        pass
    with pytest.raises(BadInput, match="no label"):
        corpus_page(opened := Corpus.open(tmp_path / "empty"), corpus_statistics(opened))


def test_the_verb_writes_it(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as code:
        main(["stats", str(corpus), "--html", str(tmp_path / "corpus.html"), "--json"])
    assert not code.value.code and json.loads(capsys.readouterr().out)["labels"]
    assert (tmp_path / "corpus.html").read_text().startswith("<!doctype html>")


@pytest.mark.full
def test_a_browser_draws_it(page: str, tmp_path: Path) -> None:
    """Debian's Chromium runs the script under the policy: bars, cells, an example by its link, and no attack."""
    browser = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if browser is None:
        pytest.skip("chromium is not installed")
    (tmp_path / "corpus.html").write_text(page)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    command += ["--virtual-time-budget=4000", "--dump-dom", f"file://{tmp_path}/corpus.html#example-0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    drawn = done.stdout
    assert "taken" not in re.findall(r"<title>(.*?)</title>", drawn)[0] and "<img" not in drawn
    assert drawn.count('class="bar ') >= 2 and drawn.count('class="cells"') == 3
    assert drawn.count('class="bars"') == len([chart for chart in data_of(page)["charts"] if chart["ends"]])
    assert re.search(r'<dialog id="example"[^>]* open', drawn)
    assert "__global__" in drawn.partition('<code id="source">')[2].partition("</code>")[0]
