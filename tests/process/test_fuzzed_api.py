"""A few generated requests of every kind; `python -m tests.api_fuzz` makes many.

A value of each JSON type at the places of a few bodies; `python -m tests.api_fuzz.members` puts
more, at all places.
"""

from __future__ import annotations

from pathlib import Path

from tests.api_fuzz.fuzzing import fuzz
from tests.api_fuzz.members import FEW, differences
from tests.api_fuzz.site import make_site
from tests.process.server_process import ServerProcess


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


def test_each_member_takes_the_types_that_the_document_allows(tmp_path: Path) -> None:
    few = "/v3/(completions|embeddings|rerank)$"
    with ServerProcess(make_site(tmp_path), "--batch_dir", tmp_path / "store") as server:
        assert list(differences(server.client, FEW, few)) == []
