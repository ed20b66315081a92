"""An MCP server with two tools. The graph allows models to call the first one only."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return f"{city}: 12 degrees and rainy"


@server.tool()
def change_weather(city: str, to: str) -> str:
    """Change the weather of a city"""
    return f"{city}: now {to}"


if __name__ == "__main__":
    server.run()
