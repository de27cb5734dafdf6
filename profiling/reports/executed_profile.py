"""A profile that was executed here: its document, which can also show itself as the whole page."""

from __future__ import annotations

from collections.abc import Sequence

from hipsynth.core.tabular import frame_page
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfileDocument

PAGE_HEIGHT = 760  # pixels, in a notebook


class ExecutedProfile(ProfileDocument):
    """The document, and in `measured` the results that it was made of."""

    measured: tuple[TargetResult, ...]

    @classmethod
    def of(
        cls,
        program: str,
        path: str,
        results: Sequence[TargetResult],
        what_if: bool = False,
        assumed: Sequence[str] = (),
    ) -> ExecutedProfile:
        """The profile of the program with this id at this path."""
        document = profile_document(program, path, results, what_if, assumed)
        executed = cls(document.program, document.results, document.assumed)
        object.__setattr__(executed, "measured", tuple(results))
        return executed

    def write_page(self) -> str:
        """The page of `synth profile --html`."""
        from hipsynth.profiling.reports.profile_page import profile_page

        return profile_page(self.program.path, self.measured)

    def __str__(self) -> str:
        from hipsynth.profiling.reports.lines import lines_listing
        from hipsynth.profiling.reports.terminal import render_results
        from hipsynth.profiling.reports.what_if import what_if_listing

        parts = [render_results(self.measured)]
        if any(result.lines for result in self.measured):
            parts.append(lines_listing(self.measured))
        if any(kernel.what_if is not None for result in self.results for kernel in result.kernels):
            parts.append(what_if_listing(self.measured))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return frame_page(self.write_page(), PAGE_HEIGHT)
