"""A server, and schemathesis's command run against its document."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.api_fuzz.site import make_site
from tests.process.server_process import ServerProcess
from tests.support.checkout import ROOT

#: Checks of every answer.
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "undocumented_requests_are_refused",
    "documented_requests_are_accepted",
    "unsupported_method",
    "allow_header_conformance",
)
#: Statuses that depend on the request's values: a time-out that is too short, a graph that was
#: unloaded.
_SETTINGS: Final = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501", "503", "504"]
"""


@dataclass(frozen=True)
class Fuzzing:
    """The result of a run.

    Attributes:
        exit_code: of schemathesis; 0 if it found nothing.
        output: the text that it printed.
        log: the server's log.
        is_alive: True if the server still answered afterwards.
    """

    exit_code: int
    output: str
    log: str
    is_alive: bool


def fuzz(folder: Path, *words: str, paths: Sequence[str] = ()) -> Fuzzing:
    """Serve in ``folder``, and run schemathesis with ``words`` added to its command line.

    ``paths``: regular expressions of the paths to request; all paths if empty.
    """
    (folder / "schemathesis.toml").write_text(_SETTINGS)
    chosen = [word for path in paths for word in ("--include-path-regex", path)]
    with ServerProcess(make_site(folder), "--batch_dir", folder / "store") as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
                *("--checks", ",".join(CHECKS), "--continue-on-failure", "--no-color"),
                *("--output-sanitize", "false"),
                *("--request-timeout", "60"),
                *chosen,
                *words,
            ],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.api_fuzz.hooks",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        is_alive = server.is_live()
    return Fuzzing(done.returncode, done.stdout + done.stderr, "".join(server.log), is_alive)
