"""A few generated requests of every kind; `python -m tests.api_fuzz` makes many."""

from __future__ import annotations

from pathlib import Path

from tests.api_fuzz.fuzzing import fuzz


def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    aliases = "^/v1|^/v3/v1"  # the same code answers them as /v3
    found = fuzz(
        tmp_path,
        *("--phases", "examples,fuzzing", "--max-examples", "2", "--generation-deterministic"),
        *("--exclude-path-regex", aliases),
    )
    assert found.is_alive
    assert found.exit_code == 0, found.output
    assert "Traceback" not in found.log
