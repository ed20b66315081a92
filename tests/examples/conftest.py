"""The server of an example, and that of `make serve`, shared by all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, child_program: None) -> Iterator[Serving]:
    """Serve the folder `FOLDER` of the test file."""
    with Serving(ROOT, request.module.FOLDER, calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.fixture(scope="package")
def address(child_program: None) -> Iterator[str]:
    """Serve `examples/config.json` as `make serve` does; yield the address."""
    with Serving(ROOT, "examples/config.json", calculators=()) as server:
        server.wait_until_serving()
        yield f"http://127.0.0.1:{server.port}"
