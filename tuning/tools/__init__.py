"""The optimizer's steps as tools for language models: one table, limits, and results that are never tracebacks.

>>> from hipsynth.tuning.tools import Workshop, run_tool, tool_definitions
>>> shop = Workshop(target_of("gfx942"))
>>> run_tool(shop, "compile", {"source": text}).document
{'program': 'v0', 'must_behave_like': 'v0'}
"""

from hipsynth.tuning.tools.tool_session import Version, Workshop, WorkshopLimits
from hipsynth.tuning.tools.tool_table import TOOLS, Tool, ToolResult, run_tool, tool_definitions, tool_table

__all__ = [
    "TOOLS",
    "Tool",
    "ToolResult",
    "Version",
    "Workshop",
    "WorkshopLimits",
    "run_tool",
    "tool_definitions",
    "tool_table",
]
