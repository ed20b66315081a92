"""The server of `make serve`, shared by all examples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checkout import ROOT
from tests.servers.cli.serving import Serving


@pytest.fixture(scope="package")
def address(child_program: None) -> Iterator[str]:
    """Serve `examples/config.json` as `make serve` does; yield the address."""
    with Serving(ROOT, "examples/config.json", calculators=()) as server:
        server.wait_until_serving()
        yield f"http://127.0.0.1:{server.port}"
