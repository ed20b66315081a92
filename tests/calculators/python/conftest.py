"""Where handlers live; children that wait less."""

from __future__ import annotations

import pytest

from calculators.child_process import supervisor


@pytest.fixture(params=["THREAD", "PROCESS"])
def isolation(request: pytest.FixtureRequest) -> str:
    """For what is the same in both."""
    isolation: str = request.param
    return isolation


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are started again sooner."""
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.05)
