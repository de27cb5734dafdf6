"""When, from which text and with which tools a study's result was made, beside the result in the study's journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from hipsynth.core.program import text_id
from hipsynth.simulator.identity import build_identity
from hipsynth.toolchain import find_toolchain


@dataclass(frozen=True)
class ResultOrigin:
    """`day`: as 2026-11-30, in UTC; `tools`: identities of simulator and toolchain; `program`: the id of the text. All
    are "" in a journal from before they were recorded."""

    day: str = ""
    tools: str = ""
    program: str = ""

    def is_of(self, text: str) -> bool:
        """Whether the result may be that of a program with this text: False if it is known to be of another."""
        return self.program in ("", text_id(text))


UNKNOWN = ResultOrigin()


def record_day() -> str:
    """Today, in UTC."""
    return datetime.now(UTC).date().isoformat()


def record_origin(text: str) -> ResultOrigin:
    """The origin of a result for a program, made now. Raises MissingDependency."""
    return ResultOrigin(record_day(), f"{build_identity()} {find_toolchain().identity}", text_id(text))


def describe_days(days: Iterable[str], tools: Iterable[str] = ()) -> str:
    """The first and last day of results, such as "3 to 5 November 2026"; by how many versions of the tools they are, if
    these differ, and of how many no day is recorded."""
    results, versions = list(days), set(tools) - {""}
    dated = sorted(date.fromisoformat(day) for day in results if day)
    if not dated:
        return "Date not recorded"
    parts = [_name_days(dated[0], dated[-1])]
    if len(versions) > 1:
        parts.append(f"by {len(versions)} versions of the tools")
    if len(dated) < len(results):
        parts.append(f"the date of {len(results) - len(dated)} of the {len(results)} results is not recorded")
    return "; ".join(parts)


def describe_origins(origins: Iterable[ResultOrigin]) -> str:
    """describe_days() of origins."""
    results = list(origins)
    return describe_days((origin.day for origin in results), (origin.tools for origin in results))


def _name_days(first: date, last: date) -> str:
    if first == last:
        return f"{last:%-d %B %Y}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {last:%-d %B %Y}"
    return f"{first:%-d %B %Y} to {last:%-d %B %Y}"
