"""An MCP server on standard input and output whose tools misbehave; made without ``mcp``.

``python hostile_server.py [START]``; START may be "silent", "dead", "loud", or "many", which lists
100,000 tools, or "endless", which lists pages without end; "mute", which never lists them;
"shouting", which writes to its standard error for ever; "stubborn", which does not end when it is
told; "relapsing", whose second life in a directory is silent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

NAMES = ("echo", "raise", "hang", "block", "gigabyte", "die", "long", "garbage", "image", "pid",
         "flood", "deep", "number", "twice", "surrogate", "other")  # fmt: skip
START = "".join(sys.argv[1:])
PATHS = {"type": "object", "properties": {"target": {"type": "string", "format": "path"}}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None: it is never answered."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "tools/list" if START == "mute":
            return None
        case "tools/list":
            tools = [
                {"name": name, "description": f"Does {name}", "inputSchema": {"type": "object"}}
                for name in NAMES
            ]
            if START == "many":
                tools += [{**tools[0], "name": f"echo{number}"} for number in range(100_000)]
            listed: dict[str, Any] = {"tools": [*tools, {"name": "read", "inputSchema": PATHS}]}
            return {**listed, "nextCursor": "more"} if START == "endless" else listed
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case _:
            raise LookupError(method)


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "echo" | "read":
            return text(json.dumps(arguments, ensure_ascii=False))
        case "pid":
            return text(str(os.getpid()))
        case "raise":
            return {**text("it did not work"), "isError": True}
        case "hang":
            return None
        case "block":
            time.sleep(3600)
        case "gigabyte":
            sys.stdout.write('{"jsonrpc":"2.0","id":0,"result":"')
            piece = "x" * 1024 * 1024
            for _ in range(1024):
                sys.stdout.write(piece)
        case "die":
            os._exit(3)
        case "flood":
            threading.Thread(target=flood, daemon=True).start()
        case "deep":
            return {"content": Raw("[" * 20_000 + "]" * 20_000)}
        case "number":
            return {"content": 5, "isError": "maybe"}
        case "twice":
            return {"content": Raw('[], "content": [{"type": "text", "text": "two"}]')}
        case "surrogate":
            return {"content": Raw('[{"type": "text", "text": "half \\ud800"}]')}
        case "other":
            print('{"jsonrpc": "2.0", "id": [1], "result": {"content": []}}')
            print('{"jsonrpc": "2.0", "id": 10000000000, "result": {"content": []}}')
            return text("after answers to nobody")
        case "long":
            return text("é" * arguments["characters"])
        case "garbage":
            print("this is not a message")
            return text("after garbage")
        case "image":
            return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
        case _:
            raise LookupError(name)
    return None


class Raw(str):
    """JSON that is written as it is."""


def flood() -> None:
    """Send notifications without end."""
    line = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'
    while True:
        sys.stdout.write(line * 1000)


def shout() -> None:
    while True:
        print("x" * 65536, file=sys.stderr)


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def main(start: str) -> None:
    if start == "dead":
        sys.exit(1)
    if start == "silent":
        time.sleep(3600)
    if start == "loud":
        for _ in range(64):
            print("x" * 1024 * 1024, file=sys.stderr)
    if start == "shouting":
        threading.Thread(target=shout, daemon=True).start()
    if start == "relapsing":
        with open("lives", "a+") as lives:
            lives.write("x")
            lives.seek(0)
            if lives.read() == "xx":
                lives.close()
                time.sleep(3600)
    try:
        serve()
    finally:
        if start == "stubborn":
            time.sleep(3600)


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = answer(message["method"], message.get("params") or {})
        except LookupError:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            if result is None:
                continue
            reply["result"] = result
        line = json.dumps(reply)
        for part in (reply.get("result") or {}).values():
            if isinstance(part, Raw):
                line = line.replace(json.dumps(part), part)
        print(line, flush=True)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
