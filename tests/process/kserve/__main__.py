"""Uses one client against a server; prints JSON."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from tests.process.kserve.asked import SPARE_OF


def main(rest: str, grpc: str, name: str) -> None:
    """Run the client. ``rest`` and ``grpc``: HOST:PORT."""
    module = import_module(f"{__package__}.{name}")
    print(json.dumps(module.facts(rest if module.IS_REST else grpc, SPARE_OF.get(name, ""))))


if __name__ == "__main__":
    main(*sys.argv[1:])
