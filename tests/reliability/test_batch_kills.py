"""A few kills of a server with batches; `python -m tests.reliability.batch_kills` has more."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.batch_kills import BatchKills


def test_batches_survive_kills(tmp_path: Path) -> None:
    kills = BatchKills(tmp_path, seed=1)
    kills.run(2)
    assert kills.problems == []
