"""The whole corpus of hostile requests against a server with a model.

The corpus and its runner lie beside the checkout (``../shared/cases``); without them this is
skipped.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.process.server_process import ServerProcess
from tests.servers.cli.process import ROOT

CASES = ROOT.parent / "shared" / "cases"


@pytest.mark.skipif(not CASES.is_dir(), reason="no corpus beside the checkout")
def test_every_hostile_request_gets_what_it_should(demo: ServerProcess) -> None:
    children = demo.lasting_children()
    done = subprocess.run(
        [
            sys.executable,
            str(CASES / "run_bad_inputs.py"),
            *("--url", demo.url, "--model", "demo", "--have", "host_and_origin_check"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert demo.is_ready()
    assert demo.lasting_children() == children, "a request has ended a process"
