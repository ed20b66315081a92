"""Requests of every kind against a real server, generated from its own OpenAPI document.

``python -m tests.api_fuzz`` takes half an hour; further arguments go to ``schemathesis run``,
such as ``--max-examples 1000``. Paths under ``/v1`` and ``/v3/v1``, which the code of ``/v3``
answers, are requested with ``--aliases``. Exits with 1 if an answer contradicts the document or the
server failed; ``--log FILE`` writes the server's log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.api_fuzz.fuzzing import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api_fuzz", description=__doc__)
    parser.add_argument("--log", type=Path, help="where the server's log goes")
    parser.add_argument("--aliases", action="store_true", help="all paths, with their aliases")
    arguments, words = parser.parse_known_args()
    if not arguments.aliases:
        words += ["--exclude-path-regex", "^/v1|^/v3/v1"]
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz(Path(folder), *words)
    if arguments.log is not None:
        arguments.log.write_text(found.log)
    print(found.output)
    if not found.is_alive:
        print("the server does not answer any more", file=sys.stderr)
    return 0 if found.exit_code == 0 and found.is_alive else 1


if __name__ == "__main__":
    sys.exit(main())
