"""Counters per source line and per loop: what each instruction did, attributed through the debug line table."""

from hipsynth.profiling.lines.attribute import attribute_to_lines as attribute_to_lines
from hipsynth.profiling.lines.line_records import KernelLines as KernelLines
from hipsynth.profiling.lines.line_records import SourceLine as SourceLine
from hipsynth.profiling.lines.line_records import SourceLoop as SourceLoop
from hipsynth.profiling.lines.line_table import own_files as own_files
from hipsynth.profiling.lines.line_table import own_scripts as own_scripts
