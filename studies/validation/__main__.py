"""Runs the validation studies and writes their pages: `python -m studies.validation [--only NAME ...]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hipsynth.profiling.uncertainty import expected_error
from studies.validation import pages, summary
from studies.validation.frame import Study, list_studies

DOCS = Path(__file__).resolve().parents[2] / "docs" / "explanation"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_study(study: Study) -> list[str]:
    """Runs one study, writes its page and its errors, and returns a description of each exceeded tolerance."""
    tables = list(study.build_tables())
    (DOCS / "validation").mkdir(exist_ok=True)
    (DOCS / "validation" / f"{study.name}.md").write_text(pages.render_page(study, tables))
    summary.write_errors(study, tables)
    return [f"{study.name}: {text}" for table in tables for text in table.find_failures()]


def write_summary() -> None:
    """Writes errors.toml and the measured section of validation.md from the latest errors of every study."""
    samples = summary.read_errors()
    expected_error.TABLE_PATH.write_text(summary.render_errors(summary.aggregate_samples(samples)))
    path = DOCS / "validation.md"
    path.write_text(replace_section(path.read_text(), summary.render_section(samples)))


def replace_section(text: str, measured: str) -> str:
    """Replaces the measured section (between BEGIN and END) of a page."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{measured}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    """Runs the chosen studies; returns 1 if any error exceeds its tolerance."""
    studies_by_name = {study.name: study for study in list_studies()}
    parser = argparse.ArgumentParser(prog="python -m studies.validation", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=studies_by_name,
        help="run only these studies; keep the results of the others",
    )
    parser.add_argument("--summary", action="store_true", help="run no study; only regenerate the summary")
    options = parser.parse_args(arguments)
    wrong: list[str] = []
    for name in [] if options.summary else options.only or studies_by_name:
        print(f"{name} ...", end=" ", flush=True)
        series = write_study(studies_by_name[name])
        print(f"{len(series)} outside" if series else "ok", flush=True)
        wrong += series
    write_summary()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
