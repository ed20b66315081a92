"""A normal client: one short request of each kind after the other, until it is stopped.

    python -m tests.reliability.hostile.normal_client PORT

Prints a JSON line per answer: ``kind``, ``begin`` (in seconds of the clock that all processes
share), ``seconds`` and ``status``, 0 where there was none. It is a process of its own, so that the
attacker's computations do not delay it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from itertools import count
from typing import Any, Final

from tests.process.http_client import CHAT, HELLO

_PAUSE: Final = 0.2
#: Longer than any attack may run.
_SECONDS: Final = 300.0

_MEASUREMENTS: Final = {
    "name": "measurements",
    "datatype": "FP32",
    "shape": [1, 4],
    "data": [6.3, 2.9, 5.6, 1.8],
}


def _chat(number: int) -> tuple[str, dict[str, Any]]:
    return CHAT, {"model": "demo", "messages": HELLO, "max_tokens": 4}


def _structured(number: int) -> tuple[str, dict[str, Any]]:
    """Request an answer by a schema that is new to the server."""
    name = f"p{number}"
    schema = {"type": "object", "properties": {name: {"type": "boolean"}}, "required": [name]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return CHAT, {"model": "demo", "messages": HELLO, "max_tokens": 4, "response_format": form}


def _infer(number: int) -> tuple[str, dict[str, Any]]:
    return "/v2/models/flowers/infer", {"inputs": [_MEASUREMENTS]}


KINDS: Final[dict[str, Callable[[int], tuple[str, dict[str, Any]]]]] = {
    "chat": _chat,
    "structured": _structured,
    "infer": _infer,
}


def _ask(port: int, kind: str, number: int) -> dict[str, Any]:
    path, body = KINDS[kind](number)
    begin = time.monotonic()
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        status = response.status
    except (OSError, HTTPException):
        status = 0
    finally:
        connection.close()
    return {"kind": kind, "begin": begin, "seconds": time.monotonic() - begin, "status": status}


def _ask_on(port: int, kind: str) -> None:
    for number in count():
        tell(_ask(port, kind, number))
        time.sleep(_PAUSE)


def tell(line: dict[str, Any]) -> None:
    """Print a line in one piece, because other threads print, too."""
    os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")


def main() -> None:
    for kind in KINDS:
        threading.Thread(target=_ask_on, args=(int(sys.argv[1]), kind), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
