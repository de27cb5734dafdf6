"""The tools of tuning.tools as an MCP server."""
