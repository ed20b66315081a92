"""The collector that spans are sent to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.operations.tracing.collector import Collector, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector
