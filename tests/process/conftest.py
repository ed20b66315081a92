"""One server with the demo model for every test that leaves it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.http_client import HttpClient
from tests.process.server_process import DEMO, ServerProcess


@pytest.fixture(scope="session")
def demo() -> Iterator[ServerProcess]:
    """Serves ``demo``. What stops it or its children has a server of its own."""
    with ServerProcess(DEMO) as server:
        yield server


@pytest.fixture
def client(demo: ServerProcess) -> HttpClient:
    return demo.client
