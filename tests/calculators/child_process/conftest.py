"""Short waits for child processes."""

from __future__ import annotations

import pytest

from calculators.child_process import supervisor


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for a child to stop and before it is restarted."""
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.1)
