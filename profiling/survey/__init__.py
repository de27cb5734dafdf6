"""Surveys a folder of HIP programs: finds, compiles, runs (sandboxed) and classifies each one by its own output.

>>> from hipsynth.profiling.survey import SurveyOptions, survey_folder
>>> report = survey_folder(Path("examples"), SurveyOptions())
>>> report.totals
"""

from hipsynth.profiling.survey.conduct import SurveyOptions, survey_folder
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.plan import BuildPlan, SurveyedProgram
from hipsynth.profiling.survey.report import SurveyReport, SurveyRow

__all__ = [
    "BuildPlan",
    "SurveyOptions",
    "SurveyReport",
    "SurveyRow",
    "SurveyedProgram",
    "find_programs",
    "survey_folder",
]
