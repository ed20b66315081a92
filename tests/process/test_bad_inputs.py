"""The whole corpus of hostile requests against a server with a model.

Cases for embeddings and for ranking are left out: this server has no such models.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.corpora import corpora
from tests.overruled_cases import write_bad_inputs
from tests.process.server_process import DEMO, ServerProcess

CASES: Final = corpora()
#: Made up for this test.
KEY: Final = "a-key-of-this-test-0123456789"


def run_corpus(server: ServerProcess, *words: str, have: str) -> str:
    """Send the cases whose requirements are in ``have``; return the summary."""
    with tempfile.TemporaryDirectory() as folder:
        cases = write_bad_inputs(CASES / "bad_inputs.jsonl", Path(folder) / "cases.jsonl")
        done = subprocess.run(
            [
                sys.executable,
                str(CASES / "run_bad_inputs.py"),
                *("--url", server.url, "--model", "demo", "--have", have),
                *("--cases", str(cases), *words),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


def test_every_hostile_request_gets_an_allowed_answer(demo: ServerProcess) -> None:
    children = demo.lasting_children()
    run_corpus(demo, have="host_and_origin_check,llm_model,body_limit>=4MiB")
    assert demo.is_ready()
    assert demo.lasting_children() == children, "a request has ended a process"


def test_every_request_without_the_key_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY}\n")
    with ServerProcess("--api_key_file", keys, DEMO) as server:
        words = ("--group", "auth", "--api-key", KEY)
        summary = run_corpus(server, *words, have="api_key,auth_all_routes")
    assert summary.endswith(", 0 skipped (needs)")
