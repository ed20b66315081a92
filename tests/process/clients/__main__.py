"""Uses client libraries against both base URLs of a server; prints JSON."""

from __future__ import annotations

import json
import sys
import traceback
from importlib import import_module
from typing import Any

BASES = ("/v3", "/v1")


def main(url: str, *names: str) -> None:
    outside: list[str] = []
    facts: dict[str, Any] = {}
    failed: dict[str, str] = {}

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        """Record other connections: telemetry, prices, models from elsewhere."""
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        elif event == "socket.getaddrinfo":
            host = arguments[0]
        else:
            return
        if host not in ("127.0.0.1", "::1", "localhost", None):
            outside.append(str(host))

    sys.addaudithook(watch)
    for name in names:
        try:
            module = import_module(f"{__package__}.{name}")
            facts[name] = {base: module.facts(url + base) for base in BASES}
        except Exception:  # the other libraries are not to blame
            failed[name] = traceback.format_exc()
    print(json.dumps({"facts": facts, "failed": failed, "outside": outside}))


if __name__ == "__main__":
    main(*sys.argv[1:])
