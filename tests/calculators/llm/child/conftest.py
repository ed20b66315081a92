"""Children of tests wait less: to stop, and to be started again."""

from __future__ import annotations

import pytest

from calculators.llm.child import supervisor


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.1)
