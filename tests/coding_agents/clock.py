"""An MCP server with one tool, in the few lines that the protocol needs: ``python clock.py``."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": parameters["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "clock", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {}}
            return {"tools": [{"name": "now", "description": "The time.", "inputSchema": schema}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": "noon o'clock"}]}
        case _:
            return {}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
