"""An MCP server with one tool, on standard input and output."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return f"{city}: 12 degrees and rainy"


if __name__ == "__main__":
    server.run()
