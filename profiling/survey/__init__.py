"""Surveys a folder of HIP programs: finds, compiles, runs (sandboxed) and classifies each one by its own output.

>>> from hipsynth.profiling.survey import SurveyOptions, survey_folder
>>> report = survey_folder(Path("examples"), SurveyOptions())
>>> report.totals
"""

from hipsynth.profiling.survey.build_plan import BuildPlan, SurveyedProgram
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.documents import SurveyRow
from hipsynth.profiling.survey.report import SurveyReport
from hipsynth.profiling.survey.run_survey import SurveyOptions, survey_folder

__all__ = [
    "BuildPlan",
    "SurveyOptions",
    "SurveyReport",
    "SurveyRow",
    "SurveyedProgram",
    "find_programs",
    "survey_folder",
]
