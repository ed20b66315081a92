"""A few requests of every kind, by the server's own document; `tests.api_fuzz` makes many."""

from __future__ import annotations

from pathlib import Path

from tests.api_fuzz.fuzzing import fuzz


def test_no_answer_is_another_than_the_document_says(tmp_path: Path) -> None:
    aliases = "^/v1|^/v3/v1"  # answered by the same code as /v3
    found = fuzz(
        tmp_path,
        *("--phases", "examples,fuzzing", "--max-examples", "2", "--generation-deterministic"),
        *("--exclude-path-regex", aliases),
    )
    assert found.is_alive
    assert found.exit_code == 0, found.output
    assert "Traceback" not in found.log
