"""Any folder of HIP programs: found, compiled, run in the sandbox, and judged by what they say themselves.

>>> from profiling.survey import survey
>>> report = survey(Path("examples"), Options(arch="gfx90a"))
>>> report.totals
"""

from profiling.survey.conduct import Options, survey
from profiling.survey.discover import find_programs
from profiling.survey.plan import BuildPlan, Program
from profiling.survey.report import Report, Row

__all__ = ["BuildPlan", "Options", "Program", "Report", "Row", "find_programs", "survey"]
