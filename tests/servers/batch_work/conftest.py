"""The store of a worker's batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.batches.store import BatchStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BatchStore]:
    made = BatchStore(tmp_path / "store")
    yield made
    made.close()
