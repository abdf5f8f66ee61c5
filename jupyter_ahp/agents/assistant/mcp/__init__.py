"""Servers of the Model Context Protocol (MCP): programs, or addresses, that bring tools. `config` says which, `servers` runs
those of one conversation, `tools` makes their tools ours. Only `config` is imported before one is needed.
"""
