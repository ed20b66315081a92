"""Children wait less."""

from __future__ import annotations

import pytest

from calculators.child_process import supervisor


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """To stop when they do not listen, and to be started again."""
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.1)
