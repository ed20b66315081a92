"""Tests of fronts run on asyncio's own loop; what their transports do, on uvloop too.

A file whose tests depend on how a loop reads, writes and closes connections is marked `both_loops`.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_loops: runs on uvloop too (tests/servers/fronts)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        loops = ["asyncio"]
        if metafunc.definition.get_closest_marker("both_loops") is not None:
            loops.append("uvloop")
        metafunc.parametrize("run", loops, indirect=True)
