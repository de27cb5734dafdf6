"""Predictions and profiles for editors and browsers: the HTTP server, the language server, and MCP."""
