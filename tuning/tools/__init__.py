"""The optimizer's steps as tools for language models: one table, limits, and results that are never tracebacks.

>>> from hipsynth.tuning.tools import ToolSession, run_tool, tool_definitions
>>> session = ToolSession(target_of("gfx942"))
>>> run_tool(session, "compile", {"source": text}).document
{'program': 'v0', 'must_behave_like': 'v0'}
"""

from hipsynth.tuning.tools.tool_session import ToolLimits, ToolSession, Version
from hipsynth.tuning.tools.tool_table import TOOLS, Tool, ToolResult, run_tool, tool_definitions, tool_table

__all__ = [
    "TOOLS",
    "Tool",
    "ToolLimits",
    "ToolResult",
    "ToolSession",
    "Version",
    "run_tool",
    "tool_definitions",
    "tool_table",
]
